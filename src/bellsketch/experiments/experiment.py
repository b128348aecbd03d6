"""The one shape of a figure's experiment: settings → cells → records → picture and claims."""

import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.errors import InputError
from bellsketch.experiments.claims import Claim

Cell = dict[str, Any]
"""A part of a sweep that is computed in one go and kept once it is done, as plain JSON values."""
Record = dict[str, Any]
"""A row of ``results.csv``."""

SCALES = ("quick", "full")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure: how to compute its records, and what to make of them. All functions are pure.

    Settings are a frozen dataclass of plain values with a field ``seed``.
    """

    name: str
    title: str
    quick: Any
    """Settings that take less than two minutes on two cores."""
    full: Any
    """The paper's own settings."""
    cells: Callable[[Any], list[Cell]]
    """The parts of the sweep, from settings."""
    measure: Callable[[Any, Cell], list[Record]]
    """The records of one part, from settings. They do not depend on other parts or on the order of parts."""
    plot: Callable[[pd.DataFrame], Figure]
    claims: Callable[[pd.DataFrame], list[Claim]]
    timed: bool = False
    """Whether records contain times, so that cells must not run side by side."""
    command: str = "reproduce"
    """The command of the command line that runs it."""
    table: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    """What of the records is worth printing, if anything."""
    shares_device: bool = False
    """Whether cells take turns on one accelerator: they then run in threads of one process, so that one is compiled
    while another computes."""
    needs: tuple[str, ...] = ()
    """Packages of the extra ``deep`` that cells import."""

    def settings(self, scale: str, seed: int = 0) -> Any:
        """The settings of a scale."""
        if scale not in SCALES:
            raise InputError(f"scale={scale!r}: choose one of {', '.join(SCALES)}")
        return dataclasses.replace(self.quick if scale == "quick" else self.full, seed=seed)

    def missing(self) -> list[str]:
        """Packages without which no cell can be computed."""
        return [package for package in self.needs if importlib.util.find_spec(package) is None]
