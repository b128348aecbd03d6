"""What a suite will cost, before it runs: hours from frame rates that were measured, and room on the disk."""

import csv
import dataclasses
import importlib.resources
import math
from collections.abc import Sequence

import jax

from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.presets import preset_for
from bellsketch.deep.setup import Setup, set_up
from bellsketch.deep.training import Plan
from bellsketch.experiments.suite.directory import SuiteDirectory
from bellsketch.experiments.suite.jobs import TrainingJob

CHECKPOINTS = 3
"""Two are kept, and one more is being written."""


@dataclasses.dataclass(frozen=True)
class Rate:
    """Frames a second of one job, as they were measured."""

    agent: str
    preset: str
    """The kind of environment."""
    device: str
    """``cpu`` or ``gpu``."""
    frames_per_second: float
    source: str


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Of all jobs of one setting."""

    setting: str
    jobs: int
    """That are not done."""
    frames: float
    """Of all of them, that are missing."""
    rate: Rate | None
    """None: nobody has measured it."""

    @property
    def hours(self) -> float:
        """Of all jobs, one after the other."""
        return self.frames / self.rate.frames_per_second / 3600 if self.rate else math.nan


def measured_rates() -> list[Rate]:
    """Those that come with the library."""
    file = importlib.resources.files("bellsketch.experiments.suite") / "frame_rates.csv"
    with file.open(encoding="utf-8") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        return [
            Rate(row["agent"], row["preset"], row["device"], float(row["frames_per_second"]), row["source"])
            for row in rows
        ]


def estimates(directory: SuiteDirectory, frames_per_second: float | None = None) -> list[Estimate]:
    """For each setting what is missing, at the rate given, or else at that of jobs of this suite, or else measured."""
    found: dict[str, list[tuple[TrainingJob, float]]] = {}
    own: dict[str, list[float]] = {}
    for status in directory.status():
        if isinstance(status.job, TrainingJob):
            left = status.progress.total - status.progress.done
            if status.progress.per_second > 0:
                own.setdefault(status.job.setting, []).append(status.progress.per_second)
            if status.state != "done":
                found.setdefault(status.job.setting, []).append((status.job, left))
    device = "gpu" if directory.suite.resources.gpus else "cpu"
    made = []
    for setting, jobs in found.items():
        config = jobs[0][0].config
        rate = _known(config, device)
        if setting in own:
            rate = _rate(config, device, sum(own[setting]) / len(own[setting]), "runs of this suite")
        if frames_per_second is not None:
            rate = _rate(config, device, frames_per_second, "--frame-rate")
        made.append(Estimate(setting, len(jobs), sum(left for _, left in jobs), rate))
    return made


def _rate(config: TrainingConfig, device: str, frames_per_second: float, source: str) -> Rate:
    return Rate(config.agent, preset_for(config.environment), device, frames_per_second, source)


def _known(config: TrainingConfig, device: str) -> Rate | None:
    kind = (config.agent, preset_for(config.environment), device)
    return next((rate for rate in measured_rates() if (rate.agent, rate.preset, rate.device) == kind), None)


def disk_bytes(jobs: Sequence[TrainingJob], side_by_side: int) -> tuple[float, float]:
    """At most: what checkpoints take while jobs run, and what is left of all jobs in the end."""
    sizes = {}
    for job in jobs:
        if (kind := (job.setting, preset_for(job.config.environment))) not in sizes:
            setup = set_up(job.config)
            sizes[kind] = (_state_bytes(setup), _networks_bytes(setup) + 200 * _rows(job.config))
            setup.runner.close()
    each = [sizes[job.setting, preset_for(job.config.environment)] for job in jobs]
    largest = max((state for state, _ in each), default=0.0)
    return largest * CHECKPOINTS * side_by_side, sum(kept for _, kept in each)


def _state_bytes(setup: Setup) -> float:
    """Before compression, which makes screens much smaller."""
    return setup.replay_bytes + 4 * _networks_bytes(setup)  # online, target, and two of Adam's


def _networks_bytes(setup: Setup) -> float:
    leaves = jax.tree.leaves(setup.shape().learner.network)
    return float(sum(leaf.size * leaf.dtype.itemsize for leaf in leaves if hasattr(leaf, "dtype")))


def _rows(config: TrainingConfig) -> int:
    return (Plan(config).num_records + config.evaluation.evaluations) * config.seeds
