"""Files: those that people wrote, and those that are written whole."""

import os
import tomllib
from pathlib import Path
from typing import Any

from bellsketch.core.errors import InputError


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a file that somebody wrote."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
