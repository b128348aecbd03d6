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
from bellsketch.experiments.claims import Claim
from bellsketch.experiments.evaluation import evaluate
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.plotting import averages
from bellsketch.experiments.problems import DETERMINISTIC, problem, title
from bellsketch.tabular.algorithm import run
from bellsketch.tabular.schedules import Constant
from bellsketch.tabular.sketch import sketch_td

WHERE = "App. TD learning with polynomial features"
SIGMOID = "sigmoid, 50"
STYLES = {
    SIGMOID: ("C0", "-"),
    "polynomial, degree 5": ("C1", "-"),
    "polynomial, degree 50": ("C3", "-"),
    "scaled polynomial, degree 50": ("C3", "--"),
}
"""The last is ours: powers of the return in units in which it lies in [−1, 1]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's: 10⁵ synchronous updates from φ(0) at each constant step size."""

    environments: tuple[str, ...] = DETERMINISTIC
    updates: int = 100_000
    step_sizes: tuple[float, ...] = tuple(float(f"{10**e:.3g}") for e in np.linspace(-6, 0, 13))
    seeds: int = 3
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """Each environment with each feature map; all step sizes and seeds run side by side in one scan."""
    return [{"environment": name, "features": kind} for name in settings.environments for kind in STYLES]


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """Cramér distances after the last update; missing where the sketch has run away."""
    case = problem(cell["environment"], settings.seed)
    features = _features(cell["features"], case.return_range)
    coefficients = fit_coefficients(features, case.return_range.grid(), case.mrp.rewards, (case.mrp.discount, 0.0))
    key = jax.random.fold_in(jax.random.key(settings.seed), 1)
    # The same 50 jittered points for all features, so that they differ in nothing but what they learned. Powers grow
    # so fast beyond the regression grid that points there would hide all others.
    on_grid = Sigmoid.from_range(case.return_range, 50, margin=GRID_MARGIN)
    support = anchor_decoder(on_grid, case.return_range, key).support
    decoder = Decoder(features, support)
    algorithm = sketch_td(case.mrp.split_rewards("quadrature"), coefficients, decoder, 1.0)
    algorithm = dataclasses.replace(algorithm, step_size=Constant(np.array(settings.step_sizes)))
    keys = jax.random.split(key, settings.seeds)
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
        "polynomial, degree 5": Polynomial(6),
        "polynomial, degree 50": Polynomial(51),
        "scaled polynomial, degree 50": Polynomial.from_range(return_range, 51),
    }[kind]


def plot(records: pd.DataFrame) -> Figure:
    """A panel for each environment: Cramér distance against the step size, mean and range over seeds."""
    environments = list(dict.fromkeys(records["environment"]))
    columns = min(4, len(environments))
    rows = -(-len(environments) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.7 * columns, 3.0 * rows + 0.6), sharex=True, squeeze=False, layout="constrained"
    )
    for axis, environment in zip(axes.flat, environments, strict=False):
        here = records[records["environment"] == environment]
        for kind, (colour, style) in STYLES.items():
            line = here[here["features"] == kind].groupby("step_size")["cramer"]
            mean = line.mean()
            axis.plot(mean.index, mean, style, color=colour, marker=".", label=kind)
            axis.fill_between(mean.index, line.min(), line.max(), color=colour, alpha=0.2, lw=0)
        if here["cramer_dirac"].iloc[0] > 0:
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
    basin = (table.xs(SIGMOID, level="features").le(2 * best[SIGMOID], axis=0)).sum(axis=1)
    steps = np.log10(table.columns.to_numpy())
    decades = basin * (steps[-1] - steps[0]) / (len(steps) - 1)
    ends = table.iloc[:, [0, -1]].min(axis=1).xs(SIGMOID, level="features")
    ratios = {kind: best[kind] / best[SIGMOID] for kind in STYLES}
    worse = ratios["polynomial, degree 5"]
    fails, scaled = ratios["polynomial, degree 50"], ratios["scaled polynomial, degree 50"]
    return [
        Claim(
            "polynomial.sigmoid-basin",
            "Sigmoid features have a reasonably wide basin of good step sizes, in all environments",
            WHERE,
            float(decades.min()),
            "≥",
            1.0,
            f"decades of step sizes within 2× of the best; narrowest: {title(str(decades.idxmin()))};"
            f" median {decades.median():.1f}",
        ),
        Claim(
            "polynomial.extremes-degrade",
            "… and degrade as the step size becomes too small or too large",
            WHERE,
            float((ends / best[SIGMOID]).min()),
            ">",
            1.0,
            "smaller ratio of the distance at either end to the best, least over environments",
        ),
        Claim(
            "polynomial.degree-5-coarse",
            "Degree 5 is generally significantly worse than sigmoids at its best step size",
            WHERE,
            float((worse > 1.5).mean()),
            ">",
            0.5,
            f"share of environments where its best is more than 1.5× the sigmoid's; ratios {_range(worse)}",
        ),
        Claim(
            "polynomial.degree-50-fails",
            "Degree 50 performs very badly at every step size, in all environments",
            WHERE,
            float(fails.min()),
            ">",
            2.0,
            f"best over step sizes, over the sigmoid's best; least: {title(str(fails.idxmin()))}; {_range(fails)}",
        ),
        Claim(
            "polynomial.scaling-helps",
            "Ours: scaled to [−1, 1], degree 50 does not fail",
            WHERE,
            float(scaled.max()),
            "<",
            2.0,
            f"the same for scaled powers; most: {title(str(scaled.idxmax()))}; {_range(scaled)}",
        ),
    ]


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
