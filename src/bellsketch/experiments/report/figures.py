"""The report's pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from bellsketch.experiments.deep_comparison import panels
from bellsketch.experiments.report.results import IMPORTED, Results
from bellsketch.experiments.report.scores import (
    Scale,
    advantages,
    aggregate_curve,
    mean_score,
    median_score,
)
from bellsketch.experiments.statistics import Estimate
from bellsketch.experiments.suite.suite import Setting

COLOURS: dict[str, str] = {"sketch_dqn": "C0", "c51": "C1", "qr_dqn": "C2", "iqn": "C4", "dqn": "0.35"}
"""Of agents that stand for themselves."""
MANY = 8
"""Settings beyond which a legend goes into a column of its own."""


def colours(settings: Sequence[Setting]) -> dict[str, Any]:
    """One for each setting: an agent's own, if it is there once; else shades."""
    agents = [setting.agent for setting in settings if IMPORTED not in setting.options]
    shades = iter(plt.colormaps["turbo"](np.linspace(0.05, 0.95, len(settings))))
    plain = {
        setting.name: COLOURS[setting.agent]
        for setting in settings
        if agents.count(setting.agent) == 1 and IMPORTED not in setting.options
    }
    return {setting.name: plain.get(setting.name, tuple(next(shades))) for setting in settings}


def aggregate_curves(results: Results, scale: Scale, environments: Sequence[str]) -> Figure:
    """Median and mean over games, while training: the paper's figure of Atari."""
    figure, axes = panels(2, 2, width=5.6, height=3.8)
    palette = colours(results.settings)
    for axis, (word, statistic) in zip(axes, (("Median", median_score), ("Mean", mean_score)), strict=True):
        for name in results.comparable(environments):
            frames, curve = aggregate_curve(results, scale, environments, name, statistic)
            _band(axis, frames, curve, palette[name], name)
        axis.set(title=f"{word} over {len(environments)} game{'s' * (len(environments) > 1)}", xlabel="frames")
    axes[0].set_ylabel(scale.words)
    return _legend(figure, axes[0])


def aggregate_intervals(results: Results, found: Mapping[str, Mapping[str, Estimate]], words: str) -> Figure:
    """Every aggregate of every setting at the end, with its interval."""
    figure, axes = panels(len(found), len(found), width=3.6, height=1.2 + 0.32 * len(next(iter(found.values()))))
    palette = colours(results.settings)
    for axis, (word, estimates) in zip(axes, found.items(), strict=True):
        for place, (name, estimate) in enumerate(estimates.items()):
            ends = [estimate.low, estimate.high]
            axis.plot(ends, [place, place], color=palette[name], lw=8, alpha=0.4, solid_capstyle="butt")
            axis.plot(estimate.value, place, "|", color=palette[name], markersize=15, markeredgewidth=2.5)
        axis.set_yticks(range(len(estimates)), list(estimates) if axis is axes[0] else [""] * len(estimates))
        axis.set_ylim(len(estimates) - 0.5, -0.5)
        axis.set_title(word)
        axis.grid(axis="x", alpha=0.3)
    figure.supxlabel(words, fontsize=9)
    return figure


def advantage_bars(results: Results, scale: Scale, one: str, others: Sequence[str]) -> Figure:
    """One setting minus each of the others, game by game: mean over seeds and its standard error."""
    tables = {other: advantages(results, scale, one, other) for other in others}
    most = max(len(table) for table in tables.values())
    figure, axes = panels(len(tables), len(tables), width=3.4, height=1.2 + 0.18 * most)
    for axis, (other, table) in zip(axes, tables.items(), strict=True):
        places = np.arange(len(table))
        better = table["advantage"] > 0
        axis.barh(places, table["advantage"], color=np.where(better, "C0", "C3"), height=0.75)
        axis.errorbar(table["advantage"], places, xerr=table["error"], fmt="none", ecolor="0.2", elinewidth=0.9)
        axis.set_yticks(places, table.index, fontsize=7)
        axis.set_ylim(-0.6, len(table) - 0.4)
        axis.axvline(0.0, color="0.3", lw=0.8)
        _widen(axis, table["advantage"].to_numpy())
        axis.set_title(f"minus {other}: better in {int(better.sum())} of {len(table)}", fontsize=9)
    figure.supxlabel(scale.words, fontsize=8)
    return figure


def _widen(axis: Axes, values: np.ndarray) -> None:
    """Advantages range over orders of magnitude: logarithmic beyond the middle ones."""
    size = np.abs(values)
    if values.size > 10 and size.max() > 30 * np.median(size) > 0:
        axis.set_xscale("symlog", linthresh=float(np.median(size)))


def sweep_bars(results: Results, found: Mapping[str, Mapping[str, Estimate]], names: Sequence[str]) -> Figure:
    """Mean and median of some settings beside each other: the paper's figure of feature parameters."""
    figure, axes = panels(2, 2, width=5.6, height=1.0 + 0.32 * len(names))
    for axis, word in zip(axes, ("mean", "median"), strict=True):
        values = [found[word][name].value for name in names]
        low, high = ([getattr(found[word][name], end) for name in names] for end in ("low", "high"))
        axis.barh(range(len(names)), values, color="C0", alpha=0.75)
        axis.hlines(range(len(names)), low, high, color="0.2", lw=1.4)
        axis.set_yticks(range(len(names)), names if axis is axes[0] else [""] * len(names), fontsize=8)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_title(f"{word} over games")
    return figure


def game_curves(results: Results, scale: Scale | None) -> Figure:
    """Returns in each environment: the mean over seeds, and their range. Missing runs are not drawn."""
    figure, axes = panels(len(results.environments), 4, width=3.6, height=2.6)
    palette = colours(results.settings)
    for axis, environment in zip(axes, results.environments, strict=True):
        for name in results.names:
            runs = results.runs(name, environment).dropna(how="all")
            if len(runs):
                ends = Estimate(runs.mean(axis=1), runs.min(axis=1), runs.max(axis=1))
                _band(axis, runs.index.to_numpy(), ends, palette[name], name)
        for level, style in ((scale.zero, ":"), (scale.one, "--")) if scale else ():
            if environment in level:
                axis.axhline(level[environment], color="0.6", lw=0.8, linestyle=style)
        axis.set_title(environment, fontsize=9)
        axis.tick_params(labelsize=7)
    axes[0].set_ylabel("return")
    return _legend(figure, *axes)


def _band(axis: Axes, frames: np.ndarray, curve: Estimate, colour: Any, name: str) -> None:
    axis.plot(frames, curve.value, color=colour, label=name, lw=1.5, marker="." if len(frames) < 12 else None)
    axis.fill_between(frames, curve.low, curve.high, color=colour, alpha=0.18, lw=0)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))


def _legend(figure: Figure, *axes: Axes) -> Figure:
    """One for all panels, of everything that is drawn in any of them."""
    found = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found.update(dict(zip(labels, handles, strict=True)))
    many = len(found) > MANY
    place: Any = "outside right upper" if many else "outside lower center"
    columns = 1 if many else max(1, min(5, len(found)))
    if found:
        figure.legend(list(found.values()), list(found), loc=place, ncols=columns, fontsize=8, frameon=False)
    return figure
