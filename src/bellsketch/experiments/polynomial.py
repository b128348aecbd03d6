"""Sketch-TD with sigmoid features against polynomial ones, over step sizes."""

import dataclasses

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.distributions import dirac
from bellsketch.core.features import FeatureMap, Polynomial, Sigmoid
from bellsketch.core.imputation import Decoder, anchor_decoder
from bellsketch.core.metrics import cramer
from bellsketch.core.ranges import GRID_MARGIN, ReturnRange
from bellsketch.experiments.claims import OURS as OURS_WHERE
from bellsketch.experiments.claims import Claim, Claimant
from bellsketch.experiments.evaluation import evaluate
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.plotting import averages
from bellsketch.experiments.problems import problem, title
from bellsketch.experiments.sweep_claims import RANDOM_ENOUGH
from bellsketch.experiments.sweeps import OURS, PAPERS
from bellsketch.tabular.algorithm import run
from bellsketch.tabular.schedules import Constant
from bellsketch.tabular.sketch import sketch_td

WHERE = "App. TD learning with polynomial features"
SIGMOID, FREE = "sigmoid, 50", "sigmoid, 50, free intercept"
STYLES = {
    SIGMOID: ("C0", "-"),
    FREE: ("C0", "--"),
    "polynomial, degree 5": ("C1", "-"),
    "polynomial, degree 50": ("C3", "-"),
    "scaled polynomial, degree 50": ("C3", "--"),
}
"""Dashed ones are ours; scaled powers are those of the return in units in which it lies in [−1, 1]."""
ENVIRONMENTS = ("random_chain", "tree", "loopy_tree", "cycle", "loopy_fork", "rowland23")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's: 10⁵ synchronous updates from φ(0) at each constant step size."""

    environments: tuple[str, ...] = ENVIRONMENTS
    updates: int = 100_000
    step_sizes: tuple[float, ...] = tuple(float(f"{10**e:.3g}") for e in np.linspace(-6, 0, 13))
    seeds: int = 2
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """Each environment with each feature map; all step sizes and seeds run side by side in one scan."""
    return [{"environment": name, "features": kind} for name in settings.environments for kind in STYLES]


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """Cramér distances after the last update; missing where the sketch has run away."""
    case = problem(cell["environment"], settings.seed)
    features = _features(cell["features"], case.return_range)
    form = PAPERS if cell["features"] == SIGMOID else OURS  # with which powers are exact
    coefficients = fit_coefficients(
        features, case.return_range.grid(), case.mrp.rewards, (case.mrp.discount, 0.0), intercept=form
    )
    key_jitter, key_run = jax.random.split(jax.random.key(settings.seed))
    # The same 50 jittered points for all features, so that they differ in nothing but what they learned. Powers grow
    # so fast beyond the regression grid that points there would hide all others.
    on_grid = Sigmoid.from_range(case.return_range, 50, margin=GRID_MARGIN)
    support = anchor_decoder(on_grid, case.return_range, key_jitter).support
    decoder = Decoder(features, support)
    algorithm = sketch_td(case.mrp.split_rewards("quadrature"), coefficients, decoder, 1.0)
    algorithm = dataclasses.replace(algorithm, step_size=Constant(np.array(settings.step_sizes)))
    keys = jax.random.split(key_run, settings.seeds)
    outcome = run(keys, algorithm, settings.updates, vary=("step_size",), stop_on_divergence=False)
    certain = float(np.max(cramer(dirac(case.mrp.value), case.truth.distribution)))
    return [
        {
            **cell,
            "step_size": step_size,
            "seed": seed,
            "cramer": float(evaluate(sketch, case.truth, [decoder]).cramer.max()),
            "cramer_projection": float(case.truth.cramer_to.of_projection(np.asarray(support)).max()),
            "cramer_dirac": certain,
        }
        for step_size, row in zip(settings.step_sizes, outcome.state.values, strict=True)
        for seed, sketch in enumerate(row)
    ]


def _features(kind: str, return_range: ReturnRange) -> FeatureMap:
    return {
        SIGMOID: Sigmoid.from_range(return_range, 50),
        FREE: Sigmoid.from_range(return_range, 50),
        "polynomial, degree 5": Polynomial(6),
        "polynomial, degree 50": Polynomial(51),
        "scaled polynomial, degree 50": Polynomial.from_range(return_range, 51),
    }[kind]


def plot(records: pd.DataFrame) -> Figure:
    """A panel for each environment: Cramér distance against the step size, mean and range over seeds."""
    environments = list(dict.fromkeys(records["environment"]))
    columns = min(3, len(environments))
    rows = -(-len(environments) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.7 * columns, 3.0 * rows + 0.6), sharex=True, squeeze=False, layout="constrained"
    )
    for axis, environment in zip(axes.flat, environments, strict=False):
        here = records[records["environment"] == environment]
        for kind, (colour, style) in STYLES.items():
            line = here[here["features"] == kind].groupby("step_size")["cramer"]
            mean = line.agg(lambda values: values.mean(skipna=False))
            axis.plot(mean.index, mean, style, color=colour, marker=".", label=kind)
            axis.fill_between(mean.index, line.min(), line.max(), color=colour, alpha=0.2, lw=0)
        if here["cramer_dirac"].iloc[0] > RANDOM_ENOUGH:
            axis.axhline(here["cramer_dirac"].iloc[0], color="black", linestyle=":", label="Dirac at the mean")
        axis.axhline(here["cramer_projection"].iloc[0], color="0.6", lw=4, zorder=0, label="best on this support")
        axis.set(xscale="log", yscale="log", title=title(environment), xlabel="step size")
    for axis in axes.flat[len(environments) :]:
        axis.axis("off")
    handles = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.supylabel("Cramér distance", fontsize=9)
    return figure


def claims(records: pd.DataFrame) -> list[Claim]:
    """What the appendix says: a basin for sigmoids, none for high degrees."""
    table = averages(records, ["environment", "features", "step_size"], "cramer").unstack().fillna(np.inf)
    best = table.min(axis=1).unstack()
    reference = best[[SIGMOID, FREE]].min(axis=1)
    basins = {kind: _basin(table.xs(kind, level="features"), reference) for kind in (SIGMOID, FREE)}
    papers, ours = basins[SIGMOID], basins[FREE]
    ends = table.iloc[:, [0, -1]].min(axis=1).xs(SIGMOID, level="features")
    degrade = ends / best[SIGMOID]
    random = records.groupby("environment")["cramer_dirac"].first() > RANDOM_ENOUGH
    degree5, degree50, scaled = (best[kind] / reference for kind in list(STYLES)[2:])
    claim = Claimant("polynomial", WHERE)
    return [
        claim(
            "sigmoid-basin",
            "Sigmoid features have a reasonably wide basin of good step sizes, in all environments",
            papers.min(),
            "≥",
            1.0,
            f"decades of step sizes within 2× of the best sigmoid; narrowest: {title(str(papers.idxmin()))}; median"
            f" {papers.median():.1f}; free intercept: {ours.min():.1f}, median {ours.median():.1f}",
        ),
        claim(
            "extremes-degrade",
            "… and degrade as the step size becomes too small or too large",
            degrade.min(),
            ">",
            1.0,
            f"smaller ratio of the distance at either end to the best; least: {title(str(degrade.idxmin()))}; without"
            f" environments whose returns are certain {degrade[random].min():.2g}",
        ),
        claim(
            "degree-5-coarse",
            "Degree 5 is generally significantly worse than sigmoids at its best step size",
            (degree5 > 1.5).mean(),
            ">",
            0.5,
            f"share of environments where its best is more than 1.5× the sigmoid's; ratios {_range(degree5)}",
        ),
        claim(
            "degree-50-fails",
            "Degree 50 performs very badly at every step size, in all environments",
            degree50.min(),
            ">",
            2.0,
            f"its best over the sigmoid's best; least: {title(str(degree50.idxmin()))}; ratios {_range(degree50)}",
        ),
        claim(
            "scaling-helps",
            "Scaled to [−1, 1], degree 50 does not fail",
            scaled.max(),
            "<",
            2.0,
            f"the same for scaled powers; most: {title(str(scaled.idxmax()))}; {_range(scaled)}",
            OURS_WHERE,
        ),
    ]


def _basin(table: pd.DataFrame, reference: pd.Series) -> pd.Series:
    """Decades that the step sizes span which are good and have only good ones between them, for each environment."""
    steps = np.log10(table.columns.to_numpy())

    def width(row: pd.Series) -> float:
        widest = start = -1.0
        for step, good in zip(steps, row, strict=True):
            start = (step if start == -1.0 else start) if good else -1.0
            widest = max(widest, step - start) if good else widest
        return max(widest, 0.0)

    return table.le(2 * reference, axis=0).apply(width, axis=1)


def _range(values: pd.Series) -> str:
    return f"{values.min():.2g} to {values.max():.2g}"


EXPERIMENT = Experiment(
    name="polynomial",
    title="Sketch-TD with sigmoid and polynomial features over step sizes",
    quick=Settings(("random_chain", "tree"), updates=3_000, step_sizes=(1e-4, 1e-3, 1e-2, 1e-1, 1.0), seeds=2),
    full=Settings(),
    cells=cells,
    measure=measure,
    plot=plot,
    claims=claims,
)
