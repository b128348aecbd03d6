"""How wide the anchors should be spread, relative to the grid of the regression."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.ranges import ANCHOR_MARGIN, GRID_MARGIN
from bellsketch.experiments import sweeps
from bellsketch.experiments.claims import Claim, Claimant
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.plotting import averages, plot_sweep, sweep_legend
from bellsketch.experiments.problems import DETERMINISTIC, GAUSSIAN, title
from bellsketch.experiments.sweeps import OURS, PAPERS

WHERE = "App. Extended tabular results, second figure"
DEFAULT_RATIO = (1 + 2 * ANCHOR_MARGIN) / (1 + 2 * GRID_MARGIN)
"""What the paper's heuristics amount to: 1.29."""
RATIOS = (0.1, 0.25, 0.5, 0.8, 0.9, 1.0, 1.1, DEFAULT_RATIO, 2.0, 3.0)
NARROW, WIDE = 0.25, 3.0
METRICS = ("cramer", "excess_cramer")


def plot(records: pd.DataFrame) -> Figure:
    """(a) deterministic, (b) Gaussian rewards; Cramér and excess Cramér distance against the ratio."""
    kinds = [("deterministic", DETERMINISTIC), ("Gaussian", GAUSSIAN)]
    kinds = [(kind, names) for kind, names in kinds if records["environment"].isin(names).any()]
    figure = plt.figure(figsize=(17, 4.4 * len(kinds)), layout="constrained")
    parts = np.atleast_1d(np.array(figure.subfigures(len(kinds), 1)))
    for part, letter, (kind, names) in zip(parts, "ab", kinds, strict=False):
        rows = records[records["environment"].isin(names)]
        axes = part.subplots(len(METRICS), rows["environment"].nunique(), sharex=True, squeeze=False)
        plot_sweep(axes, rows, "anchor_ratio", METRICS)
        for axis in axes.flat:
            axis.axvline(1.0, color="0.8", lw=4, zorder=0)
            axis.minorticks_off()
            axis.set_xticks([0.1, 0.3, 1.0, 3.0], ["0.1", "0.3", "1", "3"])
        part.supxlabel("width of the anchors / width of the regression grid", fontsize=9)
        part.suptitle(f"({letter}) {kind} rewards", x=0.01, ha="left", fontweight="bold")
    sweep_legend(figure, dict.fromkeys(records["features"].dropna()), baselines=False)
    return figure


def claims(records: pd.DataFrame) -> list[Claim]:
    """What the appendix says of this figure, for the paper's regression; each detail says how ours does."""
    papers, ours = (_numbers(records[records["intercept"] == form]) for form in (PAPERS, OURS))
    make = Claimant("anchor-range", WHERE)

    def claim(name: str, statement: str, relation: str, threshold: float, what: str) -> Claim:
        value, remark = papers[name]
        detail = f"{what}{remark}; free intercept: {ours[name][0]:.2g}{ours[name][1]}"
        return make(name, statement, value, relation, threshold, detail)

    return [
        claim(
            "reliable",
            "Anchors slightly wider than the grid give reliably small Cramér distances for almost all features",
            "≥",
            0.9,
            f"share of (environment, feature) within 3× of the best ratio at {DEFAULT_RATIO:.2f}",
        ),
        claim(
            "narrow-is-worse",
            "Narrowing the anchors from 1 is much worse than widening them",
            ">",
            2.0,
            f"growth from ratio 1 to {NARROW:g} over growth to {WIDE:g}, in the median",
        ),
        claim(
            "wide-costs-resolution",
            "Beyond 1 the distance grows, because support points lie further apart",
            ">",
            0.9,
            f"share of (environment, feature) where ratio {WIDE:g} is worse than 1",
        ),
        claim(
            "best-below-one",
            "The smallest distance can be had slightly below 1",
            ">",
            0.0,
            "share of (environment, feature) whose best ratio lies in [0.7, 1)",
        ),
        claim(
            "not-everywhere",
            "… but not universally: not on the random chain and the cycle",
            ">",
            0.5,
            "share of features there whose best ratio is not below 1",
        ),
    ]


def _numbers(rows: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """The measured number of each claim with a remark, for one form of intercept."""
    table = averages(rows, ["environment", "features", "anchor_ratio"], "cramer").unstack().fillna(np.inf)
    growth = table.div(_at(table, 1.0), axis=0)
    near = _at(table, DEFAULT_RATIO) / table.min(axis=1)
    environment, family = near.idxmax()
    narrow, wide = (float(_at(growth, ratio).median()) for ratio in (NARROW, WIDE))
    best = table.idxmin(axis=1)
    exceptions = best[best.index.get_level_values("environment").isin(["random_chain", "cycle"])]
    return {
        "reliable": (float((near <= 3).mean()), f" (worst: {title(environment)}, {family}, {near.max():.2g}×)"),
        "narrow-is-worse": (narrow / wide, f" ({narrow:.3g}× and {wide:.3g}×)"),
        "wide-costs-resolution": (float((_at(growth, WIDE) > 1).mean()), ""),
        "best-below-one": (float(best.between(0.7, 0.999).mean()), ""),
        "not-everywhere": (float((exceptions > 0.999).mean()), ""),
    }


def _at(table: pd.DataFrame, ratio: float) -> pd.Series:
    """The column of the ratio that was swept closest to this one."""
    return table.iloc[:, int(np.argmin(np.abs(table.columns.to_numpy() - ratio)))]


EXPERIMENT = Experiment(
    name="anchor-range",
    title="Cramér distance against the range of the anchors, relative to the regression grid",
    quick=sweeps.SweepSettings(
        ("random_chain", "cycle", "directed_chain_gaussian"),
        ("sigmoid", "indicator"),
        (sweeps.BASE_FEATURES,),
        (1.0,),
        (0.25, 0.5, 0.9, 1.0, DEFAULT_RATIO, 3.0),
        jitters=2,
    ),
    full=sweeps.SweepSettings(
        (*DETERMINISTIC, *GAUSSIAN), num_features=(sweeps.BASE_FEATURES,), slope_factors=(1.0,), anchor_ratios=RATIOS
    ),
    cells=sweeps.cells,
    measure=sweeps.measure,
    plot=plot,
    claims=claims,
)
