"""A suite: which runs, and what each takes of a machine."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.agents.factory import AGENTS
from bellsketch.deep.environments.make import check_name
from bellsketch.deep.run import make_config
from bellsketch.deep.run_directory import CHECKPOINT_SECONDS
from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.experiment import SCALES
from bellsketch.experiments.suite.jobs import CellJob, Job, TrainingJob

RESERVED = ("agent", "environment", "preset", "frames", "seeds", "seed")
"""What a grid says, so that no option may."""


@dataclasses.dataclass(frozen=True)
class Resources:
    """What one job takes of a node."""

    cores: float = 1.0
    gpus: float = 0.0
    """May be a fraction: jobs share one."""
    memory_gb: float = 0.0
    """0: does not matter."""

    def __post_init__(self) -> None:
        for name in ("cores", "gpus", "memory_gb"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"resources.{name}={getattr(self, name)}: must not be negative")
        if not self.cores > 0:
            raise InputError(f"resources.cores={self.cores}: a job needs a part of one at least, such as 0.5")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise InputError(f"resources.gpus={self.gpus}: more than one must be a whole number")

    def __str__(self) -> str:
        return in_words(self.cores, self.gpus, self.memory_gb)


def in_words(cores: float, gpus: float, memory_gb: float) -> str:
    """What there is, or is needed, of a node."""
    parts = [f"{cores:g} core{'s' * (cores != 1)}", f"{gpus:g} GPU" if gpus else ""]
    return ", ".join(filter(None, [*parts, f"{memory_gb:g} GB of memory" if memory_gb else ""]))


@dataclasses.dataclass(frozen=True)
class Setting:
    """An agent, with options of its own."""

    name: str
    agent: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.agent not in AGENTS:
            raise UnknownNameError("agent", self.agent, AGENTS)


@dataclasses.dataclass(frozen=True)
class TrainingGrid:
    """Every setting in every environment with every seed."""

    settings: tuple[Setting, ...]
    environments: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    seeds_per_job: int = 1
    """Seeds side by side in one program: good for environments on the device."""
    frames: int | None = None
    """Of each seed; None: the preset's."""
    preset: str | None = None
    """Of ``train``; None: what suits the environment."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of ``train``, for all."""

    def __post_init__(self) -> None:
        for name in ("settings", "environments", "seeds"):
            if not getattr(self, name):
                raise InputError(f"{name}: there are none; name at least one")
        for name, listed in (("settings", [s.name for s in self.settings]), ("environments", self.environments)):
            if twice := [entry for entry in listed if listed.count(entry) > 1]:
                raise InputError(f"{name}: {twice[0]!r} is there twice; list each once, by a name of its own")
        if len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds={list(self.seeds)}: one is there twice; list each once")
        for environment in self.environments:
            check_name(environment)
        if self.seeds_per_job < 1 or len(self.seeds) % self.seeds_per_job:
            raise InputError(
                f"seeds_per_job={self.seeds_per_job}: must divide the number of seeds, which is {len(self.seeds)}"
            )
        if self.seeds != tuple(range(self.seeds[0], self.seeds[0] + len(self.seeds))) and self.seeds_per_job > 1:
            raise InputError(f"seeds={list(self.seeds)}: side by side they must follow each other; seeds_per_job = 1")

    def jobs(self) -> list[Job]:
        """Seed by seed, so that a suite that is stopped early has whole comparisons."""
        return [
            self._job(setting, environment, first)
            for first in self.seeds[:: self.seeds_per_job]
            for environment in self.environments
            for setting in self.settings
        ]

    def _job(self, setting: Setting, environment: str, first: int) -> TrainingJob:
        options = {**self.options, **setting.options}
        if reserved := [name for name in options if name in RESERVED]:
            raise InputError(f"options: {reserved[0]!r} is no option of a run; write it as a key of the suite itself")

        config = make_config(
            setting.agent,
            environment,
            preset=self.preset,
            frames=self.frames,
            seeds=self.seeds_per_job,
            seed=first,
            **{name: tuple(value) if isinstance(value, list) else value for name, value in options.items()},
        )
        return TrainingJob(file_name(f"{environment}--{setting.name}--{first}"), setting.name, config)


@dataclasses.dataclass(frozen=True)
class FigureGrid:
    """Every cell of a figure of ``reproduce``."""

    experiment: str
    scale: str = "full"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.experiment not in EXPERIMENTS:
            raise UnknownNameError("experiment", self.experiment, EXPERIMENTS)
        if self.scale not in SCALES:
            raise UnknownNameError("scale", self.scale, SCALES)

    def jobs(self) -> list[Job]:
        """In the order of the figure, which starts with the longest."""
        experiment = EXPERIMENTS[self.experiment]
        cells = experiment.cells(experiment.settings(self.scale, self.seed))
        return [
            CellJob(file_name("--".join(map(str, cell.values()))), self.experiment, self.scale, self.seed, cell)
            for cell in cells
        ]


@dataclasses.dataclass(frozen=True)
class Suite:
    """A grid of jobs."""

    name: str
    grid: TrainingGrid | FigureGrid
    resources: Resources = Resources()
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """What a job loses at most when its node dies, and the time from one record to the next."""

    def __post_init__(self) -> None:
        if not self.checkpoint_seconds > 0:
            raise InputError(f"checkpoint_seconds={self.checkpoint_seconds}: must be positive")

    def jobs(self) -> list[Job]:
        """All of them, done or not."""
        jobs = self.grid.jobs()
        names = [job.name for job in jobs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"suite {self.name!r}: two jobs would be called {twice!r}; rename a setting")
        return jobs

    def table(self) -> dict[str, Any]:
        """As a file would have it; :func:`read_table` makes a suite of it again."""
        grid = {key: value for key, value in dataclasses.asdict(self.grid).items() if value is not None}
        if isinstance(self.grid, TrainingGrid):
            grid["settings"] = [{"name": s.name, "agent": s.agent, **s.options} for s in self.grid.settings]
        return {
            "name": self.name,
            **grid,
            "resources": dataclasses.asdict(self.resources),
            "checkpoint_seconds": self.checkpoint_seconds,
        }


def agents(names: Sequence[str]) -> tuple[Setting, ...]:
    """Each as its preset has it."""
    return tuple(Setting(name, name) for name in names)


def file_name(text: str) -> str:
    """A text as a name of a directory."""
    return re.sub(r"[^\w.=+-]+", "-", text).strip("-")
