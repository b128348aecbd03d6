"""Figure 4: Sketch-DP on three environments, over numbers of features and slopes."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.experiments import sweeps
from bellsketch.experiments.claims import Claim
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.plotting import METRICS, plot_sweep, sweep_legend
from bellsketch.experiments.sweep_claims import sweep_claims

ENVIRONMENTS = ("random_chain", "directed_chain", "directed_chain_gaussian")
WHERE = "Sec. 5, Fig. 4"


def plot(records: pd.DataFrame) -> Figure:
    """Left: over m at the default slope. Right: over the slope at 50 features."""
    columns = records["environment"].nunique()
    figure = plt.figure(figsize=(5.2 * columns, 6.8), layout="constrained")
    parts: Any = figure.subfigures(1, 2)
    draw_sweeps(parts[0], parts[1], records)
    sweep_legend(figure, dict.fromkeys(records["features"].dropna()))
    return figure


def draw_sweeps(over_num: Any, over_slope: Any, records: pd.DataFrame) -> None:
    """The sweep over m into one (sub)figure, that over the slope into another."""
    columns = records["environment"].nunique()
    is_default = records["slope_factor"].isna() | (records["slope_factor"] == 1.0)
    at_base = (records["num_features"] == sweeps.BASE_FEATURES) & ~records["features"].isin(sweeps.WITHOUT_SLOPE)
    for part, rows, x, name in (
        (over_num, records[is_default], "num_features", "number of features m"),
        (over_slope, records[at_base], "slope_factor", "slope / default slope"),
    ):
        axes = part.subplots(len(METRICS), columns, sharex=True, squeeze=False)
        plot_sweep(axes, rows, x)
        part.supxlabel(name, fontsize=9)
        if x == "num_features":
            numbers = np.unique(rows[x])
            axes[0, 0].set_xticks(numbers, [str(num) for num in numbers])
            axes[0, 0].minorticks_off()


def claims(records: pd.DataFrame) -> list[Claim]:
    """What Sec. 5 says of this figure."""
    return sweep_claims("fig4", WHERE, records)


EXPERIMENT = Experiment(
    name="fig4",
    title="Sketch-DP over features, m and slope: embedding error, Cramér, excess Cramér",
    quick=sweeps.SweepSettings(
        ENVIRONMENTS, ("sigmoid", "gaussian", "indicator"), (10, 20, 50), (0.01, 1.0, 10.0), jitters=3
    ),
    full=sweeps.SweepSettings(ENVIRONMENTS),
    cells=sweeps.cells,
    measure=sweeps.measure,
    plot=plot,
    claims=claims,
)
