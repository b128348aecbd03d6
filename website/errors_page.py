"""``docs/errors.md`` shows real messages: this runs what is on the page and writes what it said.

``python -m website.errors_page`` writes the page again; a test compares.
"""

import contextlib
import functools
import io
import os
import re
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import bellsketch as bs
from bellsketch.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
WIDTH = 84
"""Columns of a block on the site."""
MEMORY = 16e9
"""That the page's machine has left."""
BLOCK = re.compile(r"```(python|toml|console)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def filled(page: str) -> str:
    """The page, with what each block says when it is run."""
    with _elsewhere():
        return BLOCK.sub(_answered, page)


def _answered(match: re.Match[str]) -> str:
    kind, code, _ = match.groups()
    block = f"```{kind}\n{code}```\n"
    if kind == "toml":
        name = re.match(r"# (\S+\.toml)", code)
        if name is None:
            raise ValueError(f"a toml block begins with a comment that is its file's name, not {code!r}")
        Path(name[1]).write_text(code, encoding="utf-8")
        return block
    said = _of_command(code) if kind == "console" else _of_code(code)
    return f"{block}\n```text\n{textwrap.fill(said, WIDTH, break_long_words=False, break_on_hyphens=False)}\n```\n"


def _of_code(code: str) -> str:
    names = {"bs": bs, "np": np, **_given()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", bs.BellsketchWarning)
        try:
            exec(compile(code, str(PAGE), "exec"), names)  # our own page
        except (bs.BellsketchError, bs.BellsketchWarning) as error:
            return f"{type(error).__name__}: {error}"
    raise ValueError(f"nothing is wrong with {code!r}")


@functools.cache
def _given() -> dict[str, Any]:
    """As the page begins."""
    mrp = bs.environments.make("random_chain")
    return {"mrp": mrp, "solution": bs.solve(mrp)}


def _of_command(line: str) -> str:
    arguments = line.split()
    if arguments[:2] != ["$", "bellsketch"]:
        raise ValueError(f"a console block is '$ bellsketch …', not {line!r}")
    with contextlib.redirect_stderr(io.StringIO()) as err:
        if main(arguments[2:]) != 2:
            raise ValueError(f"nothing is wrong with {line!r}")
    return " ".join(err.getvalue().split())


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """In an empty directory, with a known amount of memory and no colours."""
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.chdir(directory),
        mock.patch("bellsketch.core.memory.available_bytes", return_value=MEMORY),
        mock.patch.dict(os.environ, {"NO_COLOR": "1", "TERM": "dumb"}),
    ):
        yield


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
