"""What builds the site: hooks, gallery, the check of public names."""

import sys
import types

import numpy as np
import pytest

import bellsketch as bs
from website import gallery, public_names

mkdocs = pytest.importorskip("mkdocs", reason="the extra docs is not installed")

from mkdocs.commands.build import build  # noqa: E402
from mkdocs.config import load_config  # noqa: E402
from mkdocs.exceptions import Abort  # noqa: E402

EXAMPLE = '''"""A title.

Some prose.
"""

from pathlib import Path

import matplotlib.pyplot as plt


def main():
    with Path({counter!r}).open("a") as file:
        file.write("x")
    print("said so")
    return plt.figure()
'''


def test_every_public_name_is_documented_and_in_the_reference():
    assert public_names.problems() == []


def test_models_are_public():
    for name in ("load_model", "load_log", "from_networkx", "save_npz", "answers", "NamedModel", "Log"):
        assert name in bs.__all__
        assert hasattr(bs, name)


@pytest.fixture
def library(monkeypatch, tmp_path):
    """A module with all that can be wrong, and a reference to go with it."""
    module = types.ModuleType("undocumented", "A module.")
    source = '''
import dataclasses

def documented():
    """It is."""

def bare(): ...

@dataclasses.dataclass
class Bare:
    x: int

class Base:
    """It is."""
    def inherited(self):
        """Here."""

class Fine(Base):
    """It is."""
    def inherited(self): ...
    def method(self): ...
    @property
    def size(self): ...
    def _private(self): ...
'''
    exec(source, module.__dict__)
    module.__all__ = ["documented", "bare", "Bare", "Fine"]
    monkeypatch.setitem(sys.modules, "undocumented", module)
    (tmp_path / "page.md").write_text(
        "".join(f"::: undocumented.{n}\n" for n in ("documented", "bare", "Fine", "Base"))
    )
    return tmp_path


def test_what_is_undocumented_or_missing_is_found(library):
    assert public_names.problems(("undocumented",), library) == [
        "undocumented.bare has no docstring",
        "undocumented.Bare has no docstring",
        "undocumented.Fine.method has no docstring",
        "undocumented.Fine.size has no docstring",
        f"undocumented.Bare is on no page of {library.name}/",
        "undocumented.Base is in the reference and not public",
    ]


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "plot_it.py"
    path.write_text(EXAMPLE.format(counter=str(tmp_path / "runs")))
    return path


def test_titles_may_be_headings(example):
    example.write_text(example.read_text().replace("A title.\n", "A title\n=======\n"))
    read = gallery.read_example(example)
    assert (read.title, read.prose) == ("A title", "Some prose.")


def test_an_example_becomes_a_page(example, tmp_path):
    read = gallery.read_example(example)
    assert (read.name, read.title, read.prose) == ("plot_it", "A title", "Some prose.")
    for _ in range(2):  # the second time nothing has changed, and it is not run
        picture, printed = gallery.draw(read, tmp_path / "cache")
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "runs").read_text() == "x"
    page = read.page(printed)
    for part in (
        "# A title\n",
        "Some prose.",
        "](plot_it.png)",
        "said so",
        "def main():",
        "python examples/plot_it.py",
    ):
        assert part in page
    assert '"""A title' not in page
    assert "plot_it.html" in gallery.index([read])
    example.write_text(example.read_text() + "\n# changed\n")
    gallery.draw(gallery.read_example(example), tmp_path / "cache")
    assert (tmp_path / "runs").read_text() == "xx"
    assert len(list((tmp_path / "cache").glob("*.png"))) == 1


def test_examples_are_drawn_in_other_processes(example, tmp_path):
    other = tmp_path / "plot_other.py"
    other.write_text(example.read_text().replace("said so", "said otherwise"))
    examples = gallery.read_examples(tmp_path)
    for _ in range(2):
        drawn = gallery.draw_all(examples, tmp_path / "cache")
        assert [printed for _, printed in drawn] == ["said so\n", "said otherwise\n"]
    assert (tmp_path / "runs").read_text() == "xx"
    other.write_text(other.read_text().replace("return plt", "raise ValueError('no') or plt"))
    with pytest.raises(gallery.ExampleError, match=r"plot_other\.py fails: ValueError: no"):
        gallery.draw_all(gallery.read_examples(tmp_path), tmp_path / "cache")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"""A title.\n\nSome prose.\n"""', "", "has no docstring"),
        ("def main", "def other", r"has no main\(\)"),
        ("return plt.figure()", "return 3", "returns int, not a Matplotlib figure"),
        ("return plt.figure()", "raise KeyError('k')", "plot_it.py fails: KeyError: 'k'"),
    ],
)
def test_examples_that_cannot_be_shown(example, tmp_path, old, new, message):
    example.write_text(example.read_text().replace(old, new))
    with pytest.raises(gallery.ExampleError, match=message):
        gallery.draw(gallery.read_example(example), tmp_path / "cache")


def test_first_steps_come_first():
    names = [example.name for example in gallery.read_examples()]
    assert names[0] == "plot_first_steps"
    assert len(names) == len(list((gallery.ROOT / "examples").glob("plot_*.py")))


@pytest.mark.slow  # and whenever the site is built
def test_first_steps_show_what_is_true():
    from examples.plot_first_steps import main

    figure = main()
    for ax in figure.axes:
        truth, decoded = (line.get_ydata() for line in ax.get_lines())
        assert np.ptp(truth) == pytest.approx(1.0)
        assert np.abs(truth - decoded).mean() < 0.01


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Build a site of one page with our hooks, strictly."""
    monkeypatch.setattr(gallery, "read_examples", lambda: [])

    def made(page, path="README.md"):
        target = tmp_path / "docs" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        for name in ("README.md", "notation.md", "decisions.md"):
            (tmp_path / "docs" / name).write_text("# Home\n")
        target.write_text(page)
        (tmp_path / "mkdocs.yml").write_text(
            f"site_name: tried\nuse_directory_urls: false\nhooks: [{gallery.ROOT / 'website' / 'hooks.py'}]\n"
            "theme: {name: null, custom_dir: theme}\nplugins: []\n"
            "validation: {links: {not_found: warn, anchors: warn, unrecognized_links: warn}}\n"
        )
        (tmp_path / "theme").mkdir(exist_ok=True)
        for name in ("main.html", "404.html"):
            (tmp_path / "theme" / name).write_text("{{ page.content }}")
        build(load_config(str(tmp_path / "mkdocs.yml"), strict=True, site_dir=str(tmp_path / "site")))
        return (tmp_path / "site" / path).with_suffix(".html").read_text()

    return made


def test_links_out_of_the_documentation_work(site, tmp_path):
    page = site(
        "# T\n[a](../../benchmarks/results/deep.json) [b](../README.md) [c](../../CONTRIBUTING.md#a-new-feature-map)"
        " [d](https://example.org/x)\n\n```\n[e](../../benchmarks/results/deep.json)\n```\n",
        "deep/page.md",
    )
    assert 'href="../files/benchmarks/results/deep.json"' in page
    original = gallery.ROOT / "benchmarks" / "results" / "deep.json"
    assert (tmp_path / "site" / "files" / "benchmarks" / "results" / "deep.json").read_bytes() == original.read_bytes()
    assert 'href="../contributing.html#a-new-feature-map"' in page
    assert "(../../benchmarks/results/deep.json)" in page  # in code nothing is touched


@pytest.mark.parametrize(
    "link", ["missing.md", "../missing.json", "../../outside.md", "../CONTRIBUTING.md#no-such-part", "../README.md#x"]
)
def test_broken_links_end_the_build(site, caplog, link):
    with pytest.raises(Abort):
        site(f"# T\n[it]({link})\n")
    problems = [record for record in caplog.records if record.levelname in ("WARNING", "INFO") and "link" in record.msg]
    assert len(problems) == 1


def test_undocumented_names_end_the_build(site, monkeypatch, caplog):
    monkeypatch.setattr(public_names, "problems", lambda: ["bellsketch.x has no docstring"])
    with pytest.raises(Abort):
        site("# T\n")
    assert "bellsketch.x has no docstring" in caplog.text


def test_help_is_on_the_page(site):
    page = site("# T\n<!-- the help of every command -->\n", "page.md")
    assert "bellsketch solve random_chain --truth" in " ".join(page.split())
    assert "--frame-rate" in page


def test_examples_are_in_the_navigation(example, monkeypatch):
    from website import hooks

    monkeypatch.setattr(gallery, "read_examples", lambda: [gallery.read_example(example)])
    config = types.SimpleNamespace(nav=[{"Home": "README.md"}, {"Gallery": "gallery/README.md"}, {"M": ["a.md"]}])
    nav = hooks.on_config(config).nav
    assert nav == [{"Home": "README.md"}, {"Gallery": ["gallery/README.md", "gallery/plot_it.md"]}, {"M": ["a.md"]}]
