"""The paper's extended tabular results: all environments, deterministic and Gaussian, over m and slope."""

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.experiments import sweeps
from bellsketch.experiments.claims import Claim
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.fig4 import draw_sweeps
from bellsketch.experiments.plotting import sweep_legend
from bellsketch.experiments.problems import DETERMINISTIC, GAUSSIAN
from bellsketch.experiments.sweep_claims import sweep_claims

WHERE = "App. Extended tabular results, first figure"


def plot(records: pd.DataFrame) -> Figure:
    """(a) deterministic over m, (b) over slope, (c) Gaussian over m, (d) over slope."""
    figure = plt.figure(figsize=(17, 21), layout="constrained")
    parts: Any = figure.subfigures(4, 1)
    for first, names, kind in ((0, DETERMINISTIC, "deterministic"), (2, GAUSSIAN, "Gaussian")):
        rows = records[records["environment"].isin(names)]
        draw_sweeps(parts[first], parts[first + 1], rows)
        for i, what in ((first, "m"), (first + 1, "slope")):
            parts[i].suptitle(f"({'abcd'[i]}) {kind} rewards, over {what}", x=0.01, ha="left", fontweight="bold")
    sweep_legend(figure, dict.fromkeys(records["features"].dropna()))
    return figure


def claims(records: pd.DataFrame) -> list[Claim]:
    """The appendix: "in general consistent with the main figure"."""
    return sweep_claims("tabular-full", WHERE, records)


EXPERIMENT = Experiment(
    name="tabular-full",
    title="The same sweeps on all environments, with deterministic and Gaussian rewards",
    quick=sweeps.SweepSettings(
        ("cycle", "loopy_tree", "tree_gaussian"), ("sigmoid",), (10, 50), (0.01, 1.0, 10.0), jitters=3
    ),
    full=sweeps.SweepSettings(
        (*DETERMINISTIC, *GAUSSIAN), num_features=(10, 20, 50, 100), slope_factors=(0.001, 0.01, 0.1, 1.0, 10.0)
    ),
    cells=sweeps.cells,
    measure=sweeps.measure,
    plot=plot,
    claims=claims,
)
