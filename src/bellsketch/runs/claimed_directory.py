"""A directory that belongs to one run: no other writes there while it works, and none with another config ever."""

import contextlib
import json
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import filelock

from bellsketch.core.errors import BellsketchWarning, BusyError, InputError
from bellsketch.runs.files import replace_text

CONFIG = "config.json"
LOCK = "run.lock"


class ClaimedDirectory:
    """Holds ``config.json``, and a lock until :meth:`release`.

    If there is a config already, its entries in ``identity`` must be those of the new one. The old config stays, as
    ``config``; in a new directory that is the new one and ``seconds``, the time spent so far.
    """

    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        *,
        identity: Sequence[str],
        contents: Sequence[str],
        fresh: bool = False,
    ):
        """Claim a directory, which is made if there is none.

        Args:
          path: the directory.
          config: what JSON can hold.
          identity: entries that two runs must share for one to continue the other.
          contents: files and directories that a run leaves beside its config.
          fresh: discard what another run left.
        """
        self.path = path
        self._config = path / CONFIG
        if path.exists() and not path.is_dir():
            raise InputError(f"out={path}: is a file; choose a directory")
        if not self._config.exists() and (there := [name for name in contents if (path / name).exists()]):
            raise InputError(f"out={path}: holds {there[0]} but no config.json of a run; choose another directory")
        path.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(path / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise BusyError(f"out={path}: another run is at work there; wait for it, or choose another") from None
        try:
            self.config = self._claim(json.loads(json.dumps(config)), identity, contents, fresh)
        except BaseException:
            self.release()
            raise

    def _claim(
        self, config: dict[str, Any], identity: Sequence[str], contents: Sequence[str], fresh: bool
    ) -> dict[str, Any]:
        if fresh and self._config.exists():
            for name in (*contents, CONFIG):  # the config goes last: a directory without one is not ours
                _remove(self.path / name)
        if self._config.exists():
            return self._check(config, identity)
        self.config = {**config, "seconds": 0.0}
        self.save_config()
        return self.config

    def _check(self, config: dict[str, Any], identity: Sequence[str]) -> dict[str, Any]:
        try:
            there = json.loads(self._config.read_text(encoding="utf-8"))
            differing = list(differences({key: there[key] for key in identity}, {key: config[key] for key in identity}))
            there["seconds"] = float(there.get("seconds", 0.0))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self._config} cannot be read as a config; choose another --out, or pass --fresh"
            ) from None
        if differing:
            raise InputError(
                f"out={self.path}: holds another run ({'; '.join(differing)}); choose another directory, or pass"
                " --fresh to replace it"
            )
        return there

    def warn_of_other_commit(self, commit: str | None) -> None:
        """Say so if the run was begun at another commit than the one it goes on at."""
        if self.config.get("commit") != commit:
            warnings.warn(
                f"{self.path} was begun at commit {self.config.get('commit')} and is continued at {commit}; pass"
                " --fresh if what changed in between matters",
                BellsketchWarning,
                stacklevel=3,
            )

    def save_config(self) -> None:
        replace_text(self._config, json.dumps(self.config, indent=2, ensure_ascii=False) + "\n")

    def release(self) -> None:
        """Let other runs in."""
        # Before the lock is open: afterwards the file may be another run's. Windows keeps it, which does no harm.
        with contextlib.suppress(PermissionError):
            (self.path / LOCK).unlink(missing_ok=True)
        self._lock.release()


def wait_until_free(path: Path, seconds: float) -> None:
    """Until no run is at work in a directory, or raise :class:`BusyError` after so many seconds."""
    if not (path / LOCK).exists():
        return
    try:
        filelock.FileLock(path / LOCK).acquire(timeout=seconds).lock.release()
    except filelock.Timeout:
        raise BusyError(f"{path}: another run has been at work there for {seconds:g} s") from None


def differences(there: dict[str, Any], here: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Every entry in which two configs differ, in words; nested ones with dots in their names."""
    for key in {**there, **here}:
        old, new = there.get(key, "nothing"), here.get(key, "nothing")
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new or (key in there) != (key in here):
            yield f"{prefix}{key} {old} there, {new} here"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
