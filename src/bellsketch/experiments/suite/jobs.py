"""What a suite is made of: jobs that each own a directory, go on where they were, and know when they are done."""

import abc
import dataclasses
import json
import shutil
import time
from pathlib import Path

import pandas as pd

from bellsketch.deep.checkpoint import Checkpoints
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.run import run_training
from bellsketch.deep.setup import set_up
from bellsketch.deep.training import Plan
from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.experiment import Cell, Record
from bellsketch.runs.files import replace_text


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a job is."""

    done: float
    total: float
    per_second: float
    """When it was last heard of."""


class Job(abc.ABC):
    """A part of a suite. Everything it has to say is in its directory, for whoever reads it."""

    name: str
    """Of its directory, too."""
    unit: str
    """What progress counts."""

    @abc.abstractmethod
    def run(self, path: Path, checkpoint_seconds: float) -> None:
        """Do all of it, or what is missing."""

    @abc.abstractmethod
    def is_done(self, path: Path) -> bool:
        """Whether nothing is missing."""

    @abc.abstractmethod
    def tidy(self, path: Path) -> None:
        """Once it is done: delete what was only needed to go on."""

    @abc.abstractmethod
    def progress(self, path: Path) -> Progress:
        """How far it is."""


@dataclasses.dataclass(frozen=True)
class TrainingJob(Job):
    """A training run, of one seed or of several side by side."""

    name: str
    setting: str
    config: TrainingConfig
    unit = "frames"

    def run(self, path: Path, checkpoint_seconds: float) -> None:
        """Train."""
        run_training(set_up(self.config), path, progress=False, checkpoint_seconds=checkpoint_seconds)
        self.tidy(path)

    def tidy(self, path: Path) -> None:
        """Checkpoints: with a replay in each, they would fill any disk. The last networks stay."""
        shutil.rmtree(path / "checkpoints", ignore_errors=True)

    def is_done(self, path: Path) -> bool:
        """Whether the last networks are there: they are saved last."""
        return Plan(self.config).total_frames in Checkpoints(path / "networks").steps()

    def progress(self, path: Path) -> Progress:
        """Frames of all seeds."""
        seeds, total = self.config.seeds, Plan(self.config).total_frames
        try:
            last = pd.read_csv(path / "times.csv").iloc[-1]
            return Progress(float(last["frames"]) * seeds, total * seeds, float(last["frames_per_second"]))
        except (OSError, ValueError, KeyError, IndexError):  # nothing there yet, or a line that is being written
            return Progress(0.0, total * seeds, 0.0)


@dataclasses.dataclass(frozen=True)
class CellJob(Job):
    """A cell of a figure."""

    name: str
    experiment: str
    scale: str
    seed: int
    cell: Cell
    unit = "cells"

    def run(self, path: Path, checkpoint_seconds: float) -> None:
        """Compute its records."""
        if self.is_done(path):
            return
        begun = time.perf_counter()
        experiment = EXPERIMENTS[self.experiment]
        records = experiment.measure(experiment.settings(self.scale, self.seed), self.cell)
        path.mkdir(parents=True, exist_ok=True)
        seconds = round(time.perf_counter() - begun, 3)
        replace_text(_records_file(path), json.dumps({"cell": self.cell, "records": records, "seconds": seconds}))

    def tidy(self, path: Path) -> None:
        """Nothing."""

    def is_done(self, path: Path) -> bool:
        """Whether its records are there: they are written whole or not at all."""
        return _records_file(path).exists()

    def progress(self, path: Path) -> Progress:
        """All or nothing."""
        if not self.is_done(path):
            return Progress(0.0, 1.0, 0.0)
        return Progress(1.0, 1.0, 1.0 / max(self.read(path)[1], 1e-3))

    @staticmethod
    def read(path: Path) -> tuple[list[Record], float]:
        """The records, and the seconds that they took."""
        kept = json.loads(_records_file(path).read_text(encoding="utf-8"))
        return kept["records"], kept["seconds"]


def _records_file(path: Path) -> Path:
    return path / "cell.json"
