"""How the figures look: one colour for each family, one line style for each intercept, one legend."""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from bellsketch.experiments.problems import title
from bellsketch.experiments.sweeps import BASE_FEATURES, FAMILY_NAMES, OURS, PAPERS

COLOURS = dict(zip(FAMILY_NAMES, [f"C{i}" for i in (0, 1, 2, 9, 3, 6, 5, 8)], strict=True))
STYLES: dict[str, Any] = {PAPERS: "-", OURS: "--"}
INTERCEPT_LABELS = {PAPERS: "no intercept (the paper's)", OURS: "free intercept (ours)"}
METRICS = {
    "embedding_sq_error": "squared\nembedding error",
    "cramer": "Cramér distance",
    "excess_cramer": "excess Cramér",
}
DIVERGED = 1e3
"""Larger errors belong to sketches that have run away; they are drawn beyond the panel's edge."""
CERTAIN = 1e-9
"""A Dirac closer to the truth than this is the truth: returns are not random, and it is not drawn."""
FLOOR = 1e-17
"""Smaller numbers are rounding; on a logarithmic axis they are drawn here."""


def averages(records: pd.DataFrame, by: Sequence[str], metric: str) -> pd.Series:
    """The mean over jitters or seeds. A mean over runs of which some diverged is missing."""
    return records.groupby(list(by))[metric].agg(lambda values: values.mean(skipna=False))


def plot_sweep(axes: np.ndarray, records: pd.DataFrame, x: str, metrics: Iterable[str] = METRICS) -> None:
    """A row of panels for each metric, a column for each environment: a line for each family and intercept."""
    environments = list(dict.fromkeys(records["environment"]))
    sketches = records[records["method"] == "sketch"]
    for row, metric in zip(axes, metrics, strict=True):
        values = averages(sketches, ["environment", "features", "intercept", x], metric)
        for axis, environment in zip(row, environments, strict=True):
            for (family, form), line in values[environment].groupby(level=["features", "intercept"]):
                line = line.droplevel(["features", "intercept"])
                drawn = np.maximum(line.to_numpy(), FLOOR)
                axis.plot(line.index, drawn, STYLES[form], color=COLOURS[family], marker=".", markersize=4, lw=1.1)
            if metric != "embedding_sq_error":
                _plot_baselines(axis, records[records["environment"] == environment], x, metric)
            axis.set(xscale="log", yscale="log")
            axis.tick_params(labelsize=7)
            _clip_to_visible(axis)
        row[0].set_ylabel(METRICS[metric], fontsize=8)
    for axis, environment in zip(axes[0], environments, strict=True):
        axis.set_title(title(environment), fontsize=9)


def _plot_baselines(axis: Axes, records: pd.DataFrame, x: str, metric: str) -> None:
    for method, style in (("categorical", "-."), ("dirac", ":")):
        rows = records[records["method"] == method]
        if rows.empty or not rows[metric].max() > CERTAIN:
            continue
        if x == "num_features":
            line = averages(rows, [x], metric)
            axis.plot(line.index, np.maximum(line.to_numpy(), FLOOR), style, color="black", lw=1.3)
        else:
            base = rows[rows["num_features"] == BASE_FEATURES]
            level = float((rows if base.empty else base)[metric].mean())
            if level > 0:
                axis.axhline(level, linestyle=style, color="black", lw=1.3)


def _clip_to_visible(axis: Axes, decades: float = 15.0) -> None:
    """Do not let one line that diverged squeeze all others into a corner."""
    heights = np.concatenate([line.get_ydata() for line in axis.lines]).astype(float)
    heights = heights[(heights > FLOOR) & (heights < DIVERGED)]
    if heights.size:
        low, high = np.log10([heights.min(), heights.max()])
        axis.set_ylim(10 ** max(low - 0.3, high - decades), 10 ** (high + 0.3))


def sweep_legend(figure: Any, families: Iterable[str], *, baselines: bool = True) -> None:
    """One legend for the whole figure: families by colour, intercepts by line style, baselines in black."""
    handles = [Line2D([], [], color=COLOURS[family], label=family) for family in families]
    handles += [Line2D([], [], color="0.4", linestyle=STYLES[f], label=INTERCEPT_LABELS[f]) for f in STYLES]
    if baselines:
        handles += [
            Line2D([], [], color="black", linestyle="-.", label="categorical DP"),
            Line2D([], [], color="black", linestyle=":", label="Dirac at the mean"),
        ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)


def shades(num: int, name: str = "viridis_r") -> np.ndarray:
    """Colours from light to dark."""
    return np.asarray(plt.colormaps[name](np.linspace(0.1, 1.0, num)))
