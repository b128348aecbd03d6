"""MkDocs hooks: public names are checked, examples become a gallery, and links that leave ``docs/`` work."""

import contextlib
import io
import os
import posixpath
import re
import sys
import textwrap
from pathlib import Path
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website import gallery, public_names  # noqa: E402

GALLERY = "gallery/"
ORIGINS = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Where a page is from, if not from ``docs/``."""
PAGES = {**{source: page for page, source in ORIGINS.items()}, "README.md": "README.md"}
"""Where a file of the root has gone; for the first page of the code host stands that of the site."""
WIDTH = 92
"""Columns that fit a page."""
HELP = "<!-- the help of every command -->"
LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A page for each example."""
    pages = [f"{GALLERY}{example.name}.md" for example in gallery.read_examples()]
    index = f"{GALLERY}README.md"
    config.nav = [
        {title: [index, *pages] if inside == index else inside}
        for entry in config.nav or []
        for title, inside in entry.items()
    ]
    return config


def on_pre_build(config: MkDocsConfig) -> None:
    """The build fails on an undocumented public name."""
    if found := public_names.problems():
        raise PluginError("public names:\n  " + "\n  ".join(found))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not under ``docs/``: the gallery, and pages of the root."""
    examples = gallery.read_examples()
    try:
        for example, (picture, printed) in zip(examples, gallery.draw_all(examples), strict=True):
            name = f"{GALLERY}{example.name}"
            files.append(File.generated(config, f"{name}.png", abs_src_path=str(picture)))
            files.append(File.generated(config, f"{name}.md", content=example.page(printed)))
    except gallery.ExampleError as error:
        raise PluginError(str(error)) from error
    files.append(File.generated(config, f"{GALLERY}README.md", content=gallery.index(examples)))
    files.append(File.generated(config, "style.css", abs_src_path=str(ROOT / "website" / "style.css")))
    for page, source in ORIGINS.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links are written for a code host: relative to the file, to anything in the repository."""
    if HELP in markdown:
        markdown = markdown.replace(HELP, _help())
    here = page.file.src_uri
    if here == "README.md":
        page.meta["hide"] = ["navigation", "toc"]
    source = ORIGINS.get(here, f"docs/{here}")
    if here.startswith(GALLERY):
        return markdown

    def moved(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        return before + _target(target, here, posixpath.dirname(source), config, files) + after

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def _target(target: str, here: str, directory: str, config: MkDocsConfig, files: Files) -> str:
    if re.match(r"[a-z]+:", target):
        return target
    path = posixpath.normpath(posixpath.join(directory, target))
    if path.startswith("docs/"):
        uri = path.removeprefix("docs/")
    elif path in PAGES:
        uri = PAGES[path]
    elif re.fullmatch(r"examples/plot_\w+\.py", path):
        uri = f"{GALLERY}{Path(path).stem}.md"
    elif (ROOT / path).is_file() and not path.startswith(".."):
        uri = f"files/{path}"
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    else:
        return target  # which MkDocs does not find, and says so
    return posixpath.relpath(uri, posixpath.dirname(here) or ".")


def _help() -> str:
    """What ``--help`` says, command by command."""
    from bellsketch.cli import COMMANDS, main

    shown = []
    for name in COMMANDS:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.suppress(SystemExit),
            mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}),
        ):
            main([name, "--help"])
        text = "\n".join(
            textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in out.getvalue().splitlines()
        )
        shown.append(f"### bellsketch {name}\n\n```text\n{text.strip()}\n```")
    return "\n\n".join(shown)
