"""A directory that holds one run: its config, its records, and what is done of it if it was stopped."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd

from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.runs.claimed_directory import ClaimedDirectory
from bellsketch.runs.files import replace_text
from bellsketch.runs.provenance import provenance

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "piqp", "pandas", "matplotlib")
FILES = ("cells.jsonl", "results.csv", "results.csv.gz", "figure.png", "figure.pdf", "claims.json")
"""What a run leaves beside its config."""
IDENTITY = ("experiment", "scale", "settings", "bellsketch")
"""Entries of the config that two runs must share for one to continue the other."""


def describe_run(experiment: Experiment, scale: str, settings: Any) -> dict[str, Any]:
    """Everything needed to run it again."""
    command = f"bellsketch {experiment.command} {experiment.name} --scale {scale}"
    needed = [package for package in experiment.needs if package not in experiment.missing()]
    return {
        "experiment": experiment.name,
        "scale": scale,
        "settings": dataclasses.asdict(settings),
        "command": command + (f" --seed {settings.seed}" * bool(settings.seed)),
        **provenance((*PACKAGES, *needed)),
    }


class RunDirectory:
    """``config.json``, then ``cells.jsonl`` with a line for each finished cell, and in the end ``results.csv``."""

    def __init__(self, path: Path, config: dict[str, Any], *, fresh: bool = False):
        self.path = path
        self._cells = path / "cells.jsonl"
        self._claimed = ClaimedDirectory(path, config, identity=IDENTITY, contents=FILES, fresh=fresh)
        if self.is_complete:  # a crash may have come between the table and this
            self._cells.unlink(missing_ok=True)
            return
        try:
            self._claimed.warn_of_other_commit(config["commit"])
        except BaseException:  # a warning may be an error
            self.release()
            raise

    @property
    def config(self) -> dict[str, Any]:
        return self._claimed.config

    def save_config(self) -> None:
        self._claimed.save_config()

    def release(self) -> None:
        """Let other runs in."""
        self._claimed.release()

    @property
    def results(self) -> Path:
        """The table of all records."""
        return results_file(self.path)

    @property
    def is_complete(self) -> bool:
        return self.results.exists()

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
