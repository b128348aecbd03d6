"""Sketch-DP over families × numbers of features × slopes × anchor ranges × intercepts, with jittered decoding.

Three figures are made of this: ``fig4``, ``tabular-full`` and ``anchor-range``.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.distributions import dirac
from bellsketch.core.families import FAMILIES, make_features
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import anchor_decoder
from bellsketch.core.metrics import cramer
from bellsketch.core.projections import categorical_projection
from bellsketch.core.ranges import GRID_MARGIN
from bellsketch.experiments.evaluation import PAPER_JITTERS, evaluate, jittered_decoders
from bellsketch.experiments.experiment import Cell, Record
from bellsketch.experiments.problems import Problem, problem
from bellsketch.tabular.categorical import categorical_operator
from bellsketch.tabular.operator import iterate
from bellsketch.tabular.sketch import sketch_operator

PAPER_ITERATIONS = 200
FAMILY_NAMES = ("sigmoid", "gaussian", "tanh", "erf", "parabolic", "quartic", "morlet", "indicator")
WITHOUT_SLOPE = ("indicator",)
PAPERS, OURS = "none", "free"
"""The paper's regression has no intercept; ours is not penalised."""


@dataclasses.dataclass(frozen=True)
class SweepSettings:
    """What to sweep over. ``num_features`` is swept at the default slope, slopes and anchor ratios at 50 features."""

    environments: tuple[str, ...]
    families: tuple[str, ...] = FAMILY_NAMES
    num_features: tuple[int, ...] = (10, 20, 50, 100, 200)
    slope_factors: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    anchor_ratios: tuple[float, ...] = ()
    """Width of the anchors' range over the width of the regression grid; empty for the paper's heuristic."""
    intercepts: tuple[str, ...] = (PAPERS, OURS)
    ridge: float = 1e-9
    iterations: int = PAPER_ITERATIONS
    jitters: int = PAPER_JITTERS
    seed: int = 0


BASE_FEATURES = 50
"""m of the sweeps over slope and anchor range."""


def cells(settings: SweepSettings) -> list[Cell]:
    """One for each environment, number of features, and family; the largest first, for they take longest."""
    rows = [*settings.families, *(() if settings.anchor_ratios else ("baselines",))]
    numbers = sorted({*settings.num_features, *((BASE_FEATURES,) if len(settings.slope_factors) > 1 else ())})
    return [
        {"environment": environment, "features": family, "num_features": num}
        for num in reversed(numbers)
        for environment in settings.environments
        for family in rows
    ]


def measure(settings: SweepSettings, cell: Cell) -> list[Record]:
    """All slopes (at 50 features), anchor ratios and intercepts of one family side by side, or the baselines."""
    case = problem(cell["environment"], settings.seed)
    if cell["features"] == "baselines":
        return _baseline_records(settings, case, cell["num_features"])
    return _sketch_records(settings, case, _variants(settings, case, cell), cell)


def _variants(settings: SweepSettings, case: Problem, cell: Cell) -> list[tuple[Record, FeatureMap]]:
    """The feature maps of a cell, each with the columns that tell it from the others."""
    name, num = cell["features"], cell["num_features"]
    if settings.anchor_ratios:
        grid_width = 1 + 2 * GRID_MARGIN  # in units of the return range
        margins = {ratio: (ratio * grid_width - 1) / 2 for ratio in settings.anchor_ratios}
        return [({"anchor_ratio": r}, FAMILIES[name](case.return_range, num, margin=a)) for r, a in margins.items()]
    sweeps = num == BASE_FEATURES and name not in WITHOUT_SLOPE
    slopes = {*settings.slope_factors, 1.0} if sweeps else {1.0}
    return [
        ({"slope_factor": slope}, make_features(name, case.return_range, num, slope_factor=slope))
        for slope in sorted(slopes)
    ]


def _sketch_records(
    settings: SweepSettings, case: Problem, variants: Sequence[tuple[Record, FeatureMap]], cell: Cell
) -> list[Record]:
    grid, mrp = case.return_range.grid(), case.mrp
    tasks = [(columns, features, form) for columns, features in variants for form in settings.intercepts]
    fits = [
        fit_coefficients(features, grid, mrp.rewards, (mrp.discount, 0.0), ridge=settings.ridge, intercept=form)
        for _, features, form in tasks
    ]
    operators = [sketch_operator(mrp, fit) for fit in fits]
    starts = np.stack([np.tile(features(0.0), (mrp.num_states, 1)) for _, features, _ in tasks])
    sketches = iterate(operators, starts, settings.iterations)
    records = []
    for (columns, features, form), fit, sketch in zip(tasks, fits, sketches, strict=True):
        key = jitter_key(settings.seed, cell["num_features"])
        errors = evaluate(sketch, case.truth, jittered_decoders(key, features, case.return_range, settings.jitters))
        shared = {"environment": case.name, "method": "sketch", "features": cell["features"], **columns}
        shared |= {
            "num_features": cell["num_features"],
            "intercept": form,
            "embedding_sq_error": float(errors.embedding_sq_error.max()),
            "max_regression_error": fit.max_error,
        }
        records += jitter_rows(shared, errors.cramer.max(axis=1), errors.cramer_projection.max(axis=1))
    return records


def _baseline_records(settings: SweepSettings, case: Problem, num: int) -> list[Record]:
    """Categorical DP on the jittered anchors (all jitters side by side), and the Dirac at the mean."""
    features = make_features("sigmoid", case.return_range, num)
    keys = jax.random.split(jitter_key(settings.seed, num), settings.jitters)
    supports = [np.asarray(anchor_decoder(features, case.return_range, key).support) for key in keys]
    starts = np.stack([np.tile(_at_zero(support), (case.mrp.num_states, 1)) for support in supports])
    operators = [categorical_operator(case.mrp, support) for support in supports]
    probabilities = iterate(operators, starts, settings.iterations)
    to_truth = case.truth.cramer_to
    distances = np.array([to_truth(z, p).max() for z, p in zip(supports, probabilities, strict=True)])
    best = np.array([to_truth.of_projection(z).max() for z in supports])
    shared = {"environment": case.name, "num_features": num}
    certain = float(np.max(cramer(dirac(case.mrp.value), case.truth.distribution)))
    return [
        *jitter_rows({**shared, "method": "categorical"}, distances, best),
        {**shared, "method": "dirac", "cramer": certain},
    ]


def _at_zero(support: np.ndarray) -> Any:
    return categorical_projection(dirac(np.zeros(())), support).probabilities


def jitter_rows(shared: Record, distances: np.ndarray, best: np.ndarray) -> list[Record]:
    """One row for each jitter; both distances are the largest over states."""
    return [
        {**shared, "jitter": j, "cramer": float(d), "excess_cramer": float(d - b)}
        for j, (d, b) in enumerate(zip(distances, best, strict=True))
    ]


def jitter_key(seed: int, num_features: int) -> jax.Array:
    """Families and environments share the jitters of a number of features."""
    return jax.random.fold_in(jax.random.key(seed), num_features)
