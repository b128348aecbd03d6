"""Learning curves."""

import dataclasses
import itertools
from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from bellsketch.core.errors import InputError
from bellsketch.deep.config import TrainingConfig


@dataclasses.dataclass(frozen=True)
class Curves:
    """The records of a run."""

    config: TrainingConfig
    records: pd.DataFrame
    """While training."""
    evaluations: pd.DataFrame
    name: str
    """For legends."""


def plot_runs(runs: Sequence[Curves]) -> Figure:
    """Returns over frames, a panel for each environment: lines are means over seeds while training, bands their range,
    and dots the means of evaluations.
    """
    if not runs:
        raise InputError("runs: pass at least one")
    environments = list(dict.fromkeys(run.config.environment for run in runs))
    figure, axes = plt.subplots(
        1, len(environments), figsize=(1.5 + 4 * len(environments), 3.4), squeeze=False, layout="constrained"
    )
    colours: Sequence[tuple[float, ...]] = plt.colormaps["tab10"].colors  # type: ignore[attr-defined]
    for axis, environment in zip(axes[0], environments, strict=True):
        shown = [run for run in runs if run.config.environment == environment]
        for colour, run in zip(itertools.cycle(colours), shown, strict=False):
            _plot_curve(axis, run, colour)
        axis.set(title=environment, xlabel="frames")
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.legend(fontsize=8, frameon=False)
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("return (lines: while training; dots: evaluated)", fontsize=8)
    return figure


def _plot_curve(axis: Axes, run: Curves, colour: tuple[float, ...]) -> None:
    curve = run.records.groupby("frames")["mean_return"].agg(["mean", "min", "max"]).dropna()
    name = f"{run.name} ({run.config.seeds} seed{'s' * (run.config.seeds > 1)})"
    axis.plot(curve.index, curve["mean"], color=colour, label=name)
    axis.fill_between(curve.index, curve["min"], curve["max"], color=colour, alpha=0.2, lw=0)
    if not run.evaluations.empty:
        greedy = run.evaluations.groupby("frames")["mean_return"].mean()
        axis.plot(greedy.index, greedy, "o", color=colour, markersize=4, markeredgecolor="white")
