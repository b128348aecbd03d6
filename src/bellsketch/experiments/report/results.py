"""The records of many runs, in one table."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bellsketch.deep.run_directory import read_table
from bellsketch.deep.training import Plan
from bellsketch.experiments.suite.directory import SuiteDirectory
from bellsketch.experiments.suite.jobs import TrainingJob
from bellsketch.experiments.suite.suite import Setting, TrainingGrid

LAST = 0.1
"""The share of a run, at its end, whose evaluations are its final score."""
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
    frames: int
    """That each run is to have."""
    records: pd.DataFrame
    """A row for each evaluation, and for each record while training (``kind``)."""
    speeds: pd.DataFrame
    """Frames a second of each run: the median over its records."""

    @property
    def names(self) -> list[str]:
        """Of settings."""
        return [setting.name for setting in self.settings]

    @property
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
        runs = self.runs(setting, environment)
        last = runs[runs.index > (1 - LAST) * self.frames]
        if last.empty or runs.index.max() < (1 - ROUND) * self.frames:
            return np.full(len(self.seeds[setting]), np.nan)
        ended = last.iloc[-1].notna()
        return last.mean().where(ended).to_numpy(float)

    def done(self, setting: str, environment: str) -> int:
        """Seeds with a final score."""
        return int(np.isfinite(self.final(setting, environment)).sum())

    def complete(self, names: Sequence[str] | None = None) -> list[str]:
        """Environments in which these settings have all of their runs: only there can they be compared."""
        names = self.names if names is None else names
        return [
            environment
            for environment in self.environments
            if all(self.done(name, environment) == len(self.seeds[name]) for name in names)
        ]

    def scores(self, setting: str, environments: Sequence[str]) -> np.ndarray:
        """Final scores [s, k]."""
        return np.stack([self.final(setting, environment) for environment in environments], axis=1)

    def beside(self, other: "Results") -> "Results":
        """Also with the settings of another, in our environments; what comes after our last frame is left out."""
        records = other.records
        ours = records["environment"].isin(self.environments) & (records["frames"] <= (1 + ROUND) * self.frames)
        return dataclasses.replace(
            self,
            settings=(*self.settings, *other.settings),
            seeds={**self.seeds, **other.seeds},
            records=pd.concat([self.records, records[ours]], ignore_index=True),
            speeds=pd.concat([self.speeds, other.speeds], ignore_index=True),
        )


def suite_results(directory: SuiteDirectory) -> Results:
    """Of a suite, finished or not."""
    grid = directory.suite.grid
    assert isinstance(grid, TrainingGrid)
    tables: list[pd.DataFrame] = [pd.DataFrame(columns=COLUMNS)]
    speeds = []
    frames = 0
    for job in directory.jobs:
        if isinstance(job, TrainingJob):
            path, about = directory.run_path(job), {"setting": job.setting, "environment": job.config.environment}
            frames = max(frames, Plan(job.config).total_frames)
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
