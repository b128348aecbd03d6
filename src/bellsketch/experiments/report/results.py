"""The records of many runs, in one table."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bellsketch.core.errors import InputError
from bellsketch.deep.run_directory import read_table
from bellsketch.deep.training import Plan
from bellsketch.experiments.deep_comparison import LAST
from bellsketch.experiments.suite.directory import SuiteDirectory
from bellsketch.experiments.suite.jobs import TrainingJob
from bellsketch.experiments.suite.suite import Setting, TrainingGrid

IMPORTED = "imported"
"""The option that marks settings of others."""
ROUND = 1e-3
"""Runs end a few frames after a round number, and those of others at it."""
COLUMNS = ["setting", "environment", "seed", "kind", "frames", "episodes", "mean_return"]


@dataclasses.dataclass(frozen=True)
class Results:
    """Runs of several settings in several environments, not all of which need be there."""

    settings: tuple[Setting, ...]
    environments: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    """That each setting is to have."""
    frames: Mapping[tuple[str, str], int]
    """That runs of each setting are to have in each environment."""
    records: pd.DataFrame
    """A row for each evaluation, and for each record while training (``kind``)."""
    speeds: pd.DataFrame
    """Frames a second of each run: the median over its records."""

    @property
    def names(self) -> list[str]:
        """Of settings."""
        return [setting.name for setting in self.settings]

    @property
    def own(self) -> list[str]:
        """Settings of ours, not those of others that are drawn beside them."""
        return [setting.name for setting in self.settings if IMPORTED not in setting.options]

    @property
    def last_frame(self) -> int:
        """Of the longest run."""
        return max(self.frames.values(), default=0)

    @functools.cached_property
    def kind(self) -> str:
        """What scores are made of: evaluations, if there are any."""
        return "evaluation" if (self.records["kind"] == "evaluation").any() else "training"

    def runs(self, setting: str, environment: str, kind: str | None = None) -> pd.DataFrame:
        """Mean returns [frames, seeds] of one cell, with what is missing as NaN."""
        seeds = list(self.seeds[setting])
        return self._cells.get((setting, environment, kind or self.kind), pd.DataFrame(columns=seeds, dtype=float))

    def final(self, setting: str, environment: str) -> np.ndarray:
        """The score of each seed; NaN where a run has not come to its end."""
        return self._finals[setting, environment]

    @functools.cached_property
    def _cells(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        groups = self.records.groupby(["setting", "environment", "kind"])
        return {
            key: rows.pivot(index="frames", columns="seed", values="mean_return").reindex(
                columns=list(self.seeds[key[0]])
            )
            for key, rows in groups
        }

    @functools.cached_property
    def _finals(self) -> dict[tuple[str, str], np.ndarray]:
        return {(name, game): self._final(name, game) for name in self.names for game in self.environments}

    def _final(self, setting: str, environment: str) -> np.ndarray:
        runs, frames = self.runs(setting, environment), self.frames.get((setting, environment), 0)
        last = runs[runs.index > (1 - LAST) * frames]
        if last.empty:
            return np.full(len(self.seeds[setting]), np.nan)
        # A run whose last row is there has ended, though no episode may have ended since the row before.
        ended = {seed for seed, frame in self._ends.get((setting, environment), ()) if frame >= (1 - ROUND) * frames}
        return last.mean().where(last.columns.isin(ended)).to_numpy(float)

    @functools.cached_property
    def _ends(self) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
        """The last frame of each seed."""
        rows = self.records[self.records["kind"] == self.kind]
        ends = rows.groupby(["setting", "environment", "seed"])["frames"].max()
        found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for (setting, environment, seed), frame in ends.items():
            found.setdefault((setting, environment), []).append((seed, frame))
        return found

    def done(self, setting: str, environment: str) -> int:
        """Seeds with a final score."""
        return int(np.isfinite(self.final(setting, environment)).sum())

    def complete(self, names: Sequence[str] | None = None) -> list[str]:
        """Environments in which these settings, or all of ours, have all of their runs: only there they compare."""
        names = self.own if names is None else names
        return [
            environment
            for environment in self.environments
            if all(self.done(name, environment) == len(self.seeds[name]) for name in names)
        ]

    def scores(self, setting: str, environments: Sequence[str]) -> np.ndarray:
        """Final scores [s, k]."""
        return np.stack([self.final(setting, environment) for environment in environments], axis=1)

    def comparable(self, environments: Sequence[str]) -> list[str]:
        """Settings that have all of their runs in all of these environments: ours, and maybe others."""
        return [name for name in self.names if set(environments) <= set(self.complete([name]))]

    def beside(self, other: "Results") -> "Results":
        """Also with the settings of another, in our environments; what comes after our last frame is left out."""
        if taken := [name for name in other.names if name in self.names]:
            raise InputError(f"{taken[0]!r} is there already; pass each table of results once")
        records, last = other.records, self.last_frame
        ours = records["environment"].isin(self.environments) & (records["frames"] <= (1 + ROUND) * last)
        if not ours.any():
            raise InputError(
                f"{other.names[0]!r} has no game in common with this suite up to {last:,} frames; leave it out"
            )
        return dataclasses.replace(
            self,
            settings=(*self.settings, *other.settings),
            seeds={**self.seeds, **other.seeds},
            frames={**self.frames, **{(name, game): last for name in other.names for game in self.environments}},
            records=pd.concat([self.records, records[ours]], ignore_index=True),
            speeds=pd.concat([self.speeds, other.speeds], ignore_index=True),
        )


def suite_results(directory: SuiteDirectory) -> Results:
    """Of a suite, finished or not."""
    grid = directory.suite.grid
    assert isinstance(grid, TrainingGrid)
    tables: list[pd.DataFrame] = [pd.DataFrame(columns=COLUMNS)]
    speeds = []
    frames = {}
    for job in directory.jobs:
        if isinstance(job, TrainingJob):
            path, about = directory.run_path(job), {"setting": job.setting, "environment": job.config.environment}
            frames[job.setting, job.config.environment] = Plan(job.config).total_frames
            for kind, name in (("training", "records"), ("evaluation", "evaluations")):
                table = read_table(path, name)
                if not table.empty:
                    tables.append(table.assign(kind=kind, **about)[COLUMNS])
            if not (times := read_table(path, "times")).empty:
                speeds.append({**about, "frames_per_second": float(times["frames_per_second"].iloc[1:].median())})
    records = pd.concat([table for table in tables if not table.empty] or tables, ignore_index=True)
    seeds = {setting.name: grid.seeds for setting in grid.settings}
    columns = ["setting", "environment", "frames_per_second"]
    return Results(grid.settings, grid.environments, seeds, frames, records, pd.DataFrame(speeds, columns=columns))
