"""Checkpoints: everything a run has, saved whole or not at all, and checked before it is used again."""

import base64
import json
import os
import re
import shutil
import warnings
import zlib
from pathlib import Path
from typing import Any

from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.deep.saved_arrays import read_arrays, write_arrays
from bellsketch.runs.files import replace_text

MANIFEST, EXTRA, STATE = "manifest", "extra.json", "state"
UNFINISHED = ".part"
"""Ends the name of a directory that is being written or deleted."""
BYTES = "__bytes__"


class Checkpoints:
    """A directory with one directory for each of the last few checkpoints.

    Each has the arrays as Orbax writes them, ``extra.json``, and a manifest with the size and checksum of every file.
    """

    def __init__(self, path: Path, keep: int = 2):
        if keep < 1:
            raise InputError(f"keep={keep}: must be at least 1, or there would be nothing to go on from")
        self.path, self.keep = path.absolute(), keep  # Orbax takes no relative path
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """What was saved and not yet deleted, damaged or not; ascending."""
        return sorted(int(entry.name) for entry in self._entries() if re.fullmatch("[0-9]{12,}", entry.name))

    def save(self, step: int, state: Any, extra: dict[str, Any] | None = None) -> None:
        """Keep a state; then delete old ones.

        Until all of it is written the directory has another name. A kill at any moment leaves either the checkpoints
        that were there or those and the new one.

        Args:
          step: later than that of any checkpoint that is intact.
          state: any pytree. Leaves that are not arrays (functions, Python's numbers) are not saved.
          extra: what JSON can hold, and bytes.
        """
        if step < 0:
            raise InputError(f"step={step}: must not be negative")
        text = json.dumps(_encode({} if extra is None else extra, "extra"))
        self._make_way(step)
        final = self._directory(step)
        directory = final.with_name(final.name + UNFINISHED)
        directory.mkdir(parents=True)
        leaves = write_arrays(directory / STATE, state)
        replace_text(directory / EXTRA, text)
        _sync(directory)
        content = json.dumps({"step": step, "leaves": leaves, "files": _checksums(directory)}, indent=1)
        replace_text(directory / MANIFEST, f"{zlib.crc32(content.encode()):08x}\n{content}")
        directory.rename(final)
        self._delete_old()

    def restore(self, like: Any) -> tuple[int, Any, dict[str, Any]] | None:
        """The newest checkpoint that is intact: its step, its state and ``extra``. None if none was ever saved.

        Args:
          like: a pytree of the structure that was saved, with arrays or ``jax.ShapeDtypeStruct`` in the places of
            arrays. NumPy arrays come back as such, all others as JAX arrays. Leaves that are not arrays are those of
            ``like``.
        """
        faults: dict[int, str] = {}
        for step in reversed(self.steps()):
            try:
                manifest = self._verify(step)
            except _DamageError as fault:
                faults[step] = str(fault)
                continue
            self._warn(step, faults)
            directory = self._directory(step)
            state = read_arrays(directory / STATE, manifest["leaves"], like)
            return step, state, _decode(json.loads((directory / EXTRA).read_text(encoding="utf-8")))
        if faults:
            raise InputError(
                f"{self.path}: no checkpoint there is intact ({'; '.join(faults.values())}); put the files back from a"
                " copy, or train with --fresh to begin again"
            )
        self._warn(-1, {})
        return None

    def forget_after(self, step: int) -> None:
        """Delete what is later than a step that a run goes back to."""
        for later in self.steps():
            if later > step:
                self._delete(later)

    def _warn(self, step: int, faults: dict[int, str]) -> None:
        """Of what is newer than the step that is used."""
        self._damaged |= set(faults)
        unfinished = (entry for entry in self._entries() if re.fullmatch(rf"[0-9]{{12,}}\{UNFINISHED}", entry.name))
        newer = [f"{entry} was not finished" for entry in unfinished if int(entry.stem) > step]
        used = f"going on from step {step}" if step >= 0 else "there is no other, so this begins at the beginning"
        for fault in (*faults.values(), *newer):
            warnings.warn(f"{fault}; {used}", BellsketchWarning, stacklevel=3)

    def _verify(self, step: int) -> dict[str, Any]:
        """The manifest, after every file was compared with it."""
        directory = self._directory(step)
        try:
            checksum, content = (directory / MANIFEST).read_bytes().split(b"\n", 1)
            if checksum != b"%08x" % zlib.crc32(content):
                raise _DamageError(f"{directory / MANIFEST} is not as it was written")
            manifest = json.loads(content)
            for name, (size, checksum) in manifest["files"].items():
                file = directory / name
                if not file.exists():
                    raise _DamageError(f"{file} is missing")
                if file.stat().st_size != size:
                    raise _DamageError(f"{file} has {file.stat().st_size} bytes, not {size}")
                if _checksum(file) != checksum:
                    raise _DamageError(f"{file} is not as it was written")
        except FileNotFoundError:
            raise _DamageError(f"{directory / MANIFEST} is missing") from None
        except ValueError:
            raise _DamageError(f"{directory / MANIFEST} is not as it was written") from None
        except OSError as error:
            raise _DamageError(f"{directory} cannot be read ({error})") from None
        return manifest

    def _make_way(self, step: int) -> None:
        """Delete what a kill left, and damaged checkpoints that the run has fallen back behind."""
        for entry in self._entries():
            if entry.name.endswith(UNFINISHED):
                shutil.rmtree(entry)
        later = [saved for saved in self.steps() if saved >= step]
        for saved in reversed(later):
            if self._is_intact(saved):
                raise InputError(
                    f"step={step}: {self._directory(saved)} is there already; go on from it, or delete it first"
                )
        for saved in later:
            self._delete(saved)

    def _is_intact(self, step: int) -> bool:
        try:
            self._verify(step)
        except _DamageError:
            return False
        return True

    def _delete_old(self) -> None:
        """All but the newest few. What turned out to be damaged is not one of them."""
        intact = [step for step in self.steps() if step not in self._damaged]
        for step in self.steps():
            if step not in intact[-self.keep :]:
                self._delete(step)

    def _delete(self, step: int) -> None:
        directory = self._directory(step)
        # Under another name, so that one deleted in part is not taken for a damaged one.
        shutil.rmtree(directory.rename(directory.with_name(directory.name + UNFINISHED)))
        self._damaged.discard(step)

    def _entries(self) -> list[Path]:
        return [entry for entry in self.path.iterdir() if entry.is_dir()] if self.path.exists() else []

    def _directory(self, step: int) -> Path:
        return self.path / f"{step:012d}"


class _DamageError(Exception):
    """A checkpoint is not as it was written; says which file."""


def _files(directory: Path) -> list[Path]:
    return sorted(file for file in directory.rglob("*") if file.is_file())


def _sync(directory: Path) -> None:
    """Wait until every file is on the disk: Orbax does so for arrays only, not for what it writes about them."""
    for file in _files(directory):
        with file.open("r+b") as stream:
            os.fsync(stream.fileno())


def _checksums(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and checksum of every file below a directory."""
    return {
        file.relative_to(directory).as_posix(): (file.stat().st_size, _checksum(file)) for file in _files(directory)
    }


def _checksum(file: Path) -> int:
    checksum = 0
    with file.open("rb") as stream:
        while block := stream.read(2**20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _encode(value: Any, name: str) -> Any:
    """As JSON has it; bytes become text."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_encode(entry, f"{name}[{place}]") for place, entry in enumerate(value)]
    if isinstance(value, dict):
        if bad := [key for key in value if not isinstance(key, str) or key == BYTES]:
            raise InputError(f"{name} has the key {bad[0]!r}; keys must be text, and not {BYTES!r}")
        return {key: _encode(entry, f"{name}[{key!r}]") for key, entry in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise InputError(f"{name}={value!r}: JSON has no {type(value).__name__}; use numbers, text, lists, dicts or bytes")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(entry) for entry in value]
    if isinstance(value, dict):
        if BYTES in value:
            return base64.b64decode(value[BYTES])
        return {key: _decode(entry) for key, entry in value.items()}
    return value
