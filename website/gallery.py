"""The gallery: each ``examples/plot_*.py`` becomes a page with its picture, what it printed, and its source.

An example has a docstring, whose first line is its title, and ``main()``, which returns a Matplotlib figure.
"""

import ast
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import io
import multiprocessing
import re
import runpy
import site
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "build" / "gallery"
DOTS_PER_INCH = 110
WORKERS = 2
"""Examples that run side by side: few, as each takes the cores it finds."""
UNDERLINE = re.compile(r"^[=\-]+\n")
"""Below a title that is written as a heading."""


class ExampleError(Exception):
    """An example that cannot be shown."""


@dataclasses.dataclass(frozen=True)
class Example:
    """What there is to read."""

    path: Path
    title: str
    prose: str
    source: str
    """Without the docstring."""

    @property
    def name(self) -> str:
        """Of its page and picture."""
        return self.path.stem

    def page(self, printed: str) -> str:
        """In Markdown, with the picture beside it."""
        parts = [f"# {self.title}", self.prose, f"![{self.title}]({self.name}.png)"]
        parts += [f'```text title="It prints"\n{printed.rstrip()}\n```'] if printed.strip() else []
        parts += [f'```python title="examples/{self.path.name}"\n{self.source}\n```']
        parts += [f"Run it: `python examples/{self.path.name}`"]
        return "\n\n".join(part for part in parts if part) + "\n"


def read_example(path: Path) -> Example:
    """From a script."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    docstring = ast.get_docstring(tree)
    if not docstring:
        raise ExampleError(f"{path.name} has no docstring: its first line is the title of the page")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
        raise ExampleError(f"{path.name} has no main(): it returns the figure to show")
    title, _, prose = docstring.partition("\n")
    prose = UNDERLINE.sub("", prose)
    body = text.splitlines()[tree.body[0].end_lineno :]
    return Example(path, title.rstrip(". "), prose.strip(), "\n".join(body).strip())


def read_examples(directory: Path = ROOT / "examples") -> list[Example]:
    """All of them; first steps first."""
    found = [read_example(path) for path in sorted(directory.glob("plot_*.py"))]
    return sorted(found, key=lambda example: example.name != "plot_first_steps")


def draw_all(examples: list[Example], cache: Path = CACHE) -> list[tuple[Path, str]]:
    """Several at a time; what has been drawn is not drawn again."""
    missing = [example for example in examples if not _files(example, cache)[1].exists()]
    context = multiprocessing.get_context("spawn")
    # Processes find this module as the parent does, which MkDocs has forgotten by now.
    with concurrent.futures.ProcessPoolExecutor(WORKERS, context, site.addsitedir, (str(ROOT),)) as pool:
        list(pool.map(functools.partial(draw, cache=cache), missing))
    return [draw(example, cache) for example in examples]


def draw(example: Example, cache: Path = CACHE) -> tuple[Path, str]:
    """Run an example, if neither it nor the library has changed since; its picture, and what it printed."""
    picture, printed = _files(example, cache)
    if not printed.exists():
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob(f"{example.name}-*"):
            old.unlink()
        printed.write_text(_run(example, picture), encoding="utf-8")
    return picture, printed.read_text(encoding="utf-8")


def _files(example: Example, cache: Path) -> tuple[Path, Path]:
    """Of the picture, and of what it printed."""
    picture = cache / f"{example.name}-{_fingerprint(example)}.png"
    return picture, picture.with_suffix(".txt")


def _run(example: Example, picture: Path) -> str:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    with contextlib.redirect_stdout(io.StringIO()) as out, plt.rc_context():
        try:
            figure = runpy.run_path(str(example.path))["main"]()
        except Exception as error:
            raise ExampleError(f"{example.path.name} fails: {type(error).__name__}: {error}") from error
    if not isinstance(figure, Figure):
        raise ExampleError(f"main() of {example.path.name} returns {type(figure).__name__}, not a Matplotlib figure")
    figure.savefig(picture, dpi=DOTS_PER_INCH, bbox_inches="tight")
    plt.close("all")
    return out.getvalue()


def _fingerprint(example: Example) -> str:
    """Of the example and all of the library."""
    digest = hashlib.sha256(example.path.read_bytes())
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def index(examples: list[Example]) -> str:
    """A page with all pictures."""
    cards = "\n".join(
        f'<a class="card" href="{e.name}.html"><img src="{e.name}.png" alt="" loading="lazy"><span>{e.title}</span></a>'
        for e in examples
    )
    return f'# Gallery\n\nEach page is a script that runs as it is.\n\n<div class="gallery">\n{cards}\n</div>\n'
