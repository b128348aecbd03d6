"""A directory that holds one run: its config, its records, and what is done of it if it was stopped."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import filelock
import jax
import pandas as pd

import bellsketch
from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.experiments.experiment import Cell, Experiment, Record

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "piqp", "pandas", "matplotlib")
FILES = ("cells.jsonl", "results.csv", "results.csv.gz", "figure.png", "figure.pdf", "claims.json", "config.json")
"""What a run leaves; the config goes last, so that a directory without one was not ours."""
LOCK = "run.lock"
IDENTITY = ("experiment", "scale", "settings", "bellsketch")
"""Entries of the config that two runs must share for one to continue the other."""


def describe_run(experiment: Experiment, scale: str, settings: Any) -> dict[str, Any]:
    """Everything needed to run it again."""
    plain = json.loads(json.dumps(dataclasses.asdict(settings)))
    command = f"bellsketch {experiment.command} {experiment.name} --scale {scale}"
    needed = [package for package in experiment.needs if package not in experiment.missing()]
    return {
        "experiment": experiment.name,
        "scale": scale,
        "settings": plain,
        "command": command + (f" --seed {settings.seed}" * bool(settings.seed)),
        "bellsketch": bellsketch.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in (*PACKAGES, *needed)},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, JAX on {jax.devices()[0].device_kind}",
        "date": time.strftime("%Y-%m-%d"),
    }


def _commit() -> str | None:
    """The commit of the source this runs from, marked if it was changed since; None if it is not a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain", "-uno", "."], capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + (" with changes" if changes.strip() else "")


class RunDirectory:
    """``config.json``, then ``cells.jsonl`` with a line for each finished cell, and in the end ``results.csv``."""

    def __init__(self, path: Path, config: dict[str, Any], *, fresh: bool = False):
        self.path = path
        self._config, self._cells = path / "config.json", path / "cells.jsonl"
        if path.exists() and not path.is_dir():
            raise InputError(f"out={path}: is a file; choose a directory")
        if not fresh and not self._config.exists() and (there := [name for name in FILES if (path / name).exists()]):
            raise InputError(f"out={path}: holds {there[0]} but no config.json of a run; choose another directory")
        path.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(path / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise InputError(f"out={path}: another run is at work there; wait for it, or choose another") from None
        if fresh and self._config.exists():
            for name in FILES:
                (path / name).unlink(missing_ok=True)
        if self._config.exists():
            try:
                self.config = self._check(config)
            except InputError:
                self.release()
                raise
            if self.is_complete:  # a crash may have come between the table and this
                self._cells.unlink(missing_ok=True)
            return
        self.config = {**config, "seconds": 0.0}
        self.save_config()

    def _check(self, config: dict[str, Any]) -> dict[str, Any]:
        try:
            there = json.loads(self._config.read_text(encoding="utf-8"))
            differing = [key for key in IDENTITY if there[key] != config[key]]
            there["seconds"] = float(there.get("seconds", 0.0))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self._config} cannot be read as a config; choose another --out, or pass --fresh"
            ) from None
        if differing:
            key = differing[0]
            raise InputError(
                f"out={self.path}: holds a run with other {key} ({_difference(there[key], config[key])});"
                " choose another directory, or pass --fresh to replace it"
            )
        if there.get("commit") != config["commit"] and not self.is_complete:
            warnings.warn(
                f"{self.path} was begun at commit {there.get('commit')} and is continued at {config['commit']}; pass"
                " --fresh if what changed in between matters",
                BellsketchWarning,
                stacklevel=3,
            )
        return there

    def release(self) -> None:
        """Let other runs in."""
        self._lock.release()
        (self.path / LOCK).unlink(missing_ok=True)

    @property
    def results(self) -> Path:
        """The table of all records."""
        return results_file(self.path)

    @property
    def is_complete(self) -> bool:
        return self.results.exists()

    def save_config(self) -> None:
        replace_text(self._config, json.dumps(self.config, indent=2, ensure_ascii=False) + "\n")

    def finished(self) -> dict[str, list[Record]]:
        """Records of finished cells, by :func:`cell_key`. A line cut short by a crash is not one of them."""
        done: dict[str, list[Record]] = {}
        if self._cells.exists():
            for line in self._cells.read_bytes().split(b"\n"):
                try:
                    entry = json.loads(line)
                    done[cell_key(entry["cell"])] = entry["records"]
                except (ValueError, KeyError, TypeError):
                    continue
        return done

    def append(self, cell: Cell, records: list[Record], seconds: float) -> None:
        """Keep a finished cell."""
        line = json.dumps({"cell": cell, "records": records, "seconds": round(seconds, 3)})
        with self._cells.open("ab") as file:
            # A newline first, too: the last line may have been cut short.
            file.write(b"\n" + line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def complete(self, records: list[Record]) -> None:
        """All cells are done: write the table and forget the parts."""
        replace_text(self.results, pd.DataFrame(records).to_csv(index=False, float_format="%.6g", lineterminator="\n"))
        self._cells.unlink(missing_ok=True)


def results_file(path: Path) -> Path:
    """The table of all records in a run directory; a large one may have been compressed by hand."""
    compressed = path / "results.csv.gz"
    return compressed if compressed.exists() else path / "results.csv"


def cell_key(cell: Cell) -> str:
    """A cell as text, the same whatever the order of its entries."""
    return json.dumps(cell, sort_keys=True)


def _difference(there: Any, here: Any) -> str:
    """The first entry in which two configs differ, in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**there, **here}:
            if there.get(key) != here.get(key):
                return f"{key} {there.get(key)} there, {here.get(key)} here"
    return f"{there} there, {here} here"


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
