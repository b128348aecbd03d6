"""What the page shows for one choice of settings, computed without a browser; ``pictures`` draws it."""

import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.linalg
from jaxtyping import Complex, Float

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import BellsketchError, BellsketchWarning, InputError
from bellsketch.core.families import make_features
from bellsketch.core.features import FeatureMap, TranslationFamily
from bellsketch.core.metrics import cramer, squared_embedding_error, wasserstein
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.regression import FitReport
from bellsketch.explore.settings import Settings
from bellsketch.tabular.certificate import Certificate
from bellsketch.tabular.environments import make
from bellsketch.tabular.ground_truth import GroundTruth, ground_truth
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import single_threaded_blas
from bellsketch.tabular.solve import Solution, solve

VISIBLE = 1e-6
"""Returns range over all but this much of the mass of any state, at either end."""
SHOWN_STATES = 4
BACKUPS = 60
"""Of a path: γ⁶⁰ is 0.002."""
FAR = 20.0
"""A path is cut where it is so many times larger than where it starts and should lead."""
EXACT, GRID = 1e-13, 1e-6
"""What the truth is off by: rounding; and on a grid, see docs/certificate.md."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """What depends on the environment only."""

    mrp: MRP
    truth: GroundTruth
    returns: ReturnRange
    """That are not rare."""


@dataclasses.dataclass(frozen=True)
class View:
    """A sketch with everything that is shown of it."""

    settings: Settings
    problem: Problem
    solution: Solution
    eigenvalues: Complex[np.ndarray, " u"]
    """Of the linear part of the operator, on all states."""
    path: Float[np.ndarray, "t s m"]
    """Sketches after 0, 1, 2, … backups, from φ(0)."""
    true_sketch: Float[np.ndarray, "s m"]
    states: tuple[int, ...]
    """Those whose distributions are drawn."""
    imputed: AtomicDistribution | None
    """Of these states; None if the sketch is so far off that it is no distribution's."""
    notes: tuple[str, ...]
    """What is not as it should be."""
    seconds: float

    @property
    def radius(self) -> float:
        """The spectral radius: below 1, iterating converges."""
        return float(np.abs(self.eigenvalues).max())

    @functools.cached_property
    def embedding_errors(self) -> Float[np.ndarray, " s"]:
        """‖U − U^π‖₂ of each state."""
        return np.sqrt(squared_embedding_error(self.solution.sketch, self.true_sketch))

    @functools.cached_property
    def true_distributions(self) -> AtomicDistribution:
        """Of the states that are drawn."""
        return self.problem.truth.distribution[list(self.states)]

    @property
    def resolution(self) -> float:
        """Errors below this are the truth's own."""
        return GRID if self.problem.truth.method in ("grid", "monte carlo") else EXACT

    @functools.cached_property
    def certificate(self) -> Certificate:
        """A bound on the embedding errors. It takes longer than the rest, so it is computed when it is asked for."""
        with single_threaded_blas(), _notes():
            return self.solution.certificate

    def numbers(self) -> dict[str, str]:
        """What a person wants to know, in words."""
        solution, reports, m = self.solution, self._reports, self.settings.num_features
        values = {
            "largest regression error": f"{solution.coefficients.max_error:.1e}",
            "operator norm max ‖A_r‖": f"{solution.coefficients.operator_norm:.3f}",
            "spectral radius": f"{self.radius:.3f}",
            "directions the regression uses": f"{min((r.rank for r in reports), default=m)} of {m}",
            "largest error of a mean": f"{np.abs(solution.mean - self.problem.mrp.value).max():.1e}",
            "largest embedding error ‖U − U^π‖": _or_below(float(self.embedding_errors.max()), self.resolution),
        }
        if self.imputed is not None:
            distances = (
                cramer(self.imputed, self.true_distributions),
                wasserstein(self.imputed, self.true_distributions),
            )
            for name, distance in zip(("Cramér", "Wasserstein"), distances, strict=True):
                values[f"{name} distance of the worst drawn"] = f"{distance.max():.1e}"
        return values

    def summary(self) -> str:
        """What is shown."""
        s, returns, anchors = self.settings, self.problem.returns, self.settings.anchor_range(self.problem.returns)
        return (
            f"{s.environment}: {self.problem.mrp.num_states} states, γ = {self.problem.mrp.discount:g}, returns from"
            f" {returns.low:.3g} to {returns.high:.3g}. {s.num_features} {s.family} features from {anchors.low:.3g} to"
            f" {anchors.high:.3g}, ridge {s.ridge:.0e}, intercept {s.intercept}; computed in {self.seconds:.1f} s."
        )

    def verdict(self) -> str:
        """What the certificate says."""
        certificate = self.certificate
        if not math.isfinite(certificate.bound):
            return f"No certificate: {certificate.reason}."
        if certificate.reason:
            return f"A certificate that says nothing: {certificate.reason}."
        within = f"all sketches are within {certificate.bound:.1e} of the truth ({certificate.method})"
        return f"Certified: {within}." if certificate.proven else f"As far as could be measured, {within}."

    @property
    def _reports(self) -> list[FitReport]:
        return [report for row in self.solution.coefficients.reports for report in row if report is not None]


def _or_below(error: float, resolution: float) -> str:
    return f"{error:.1e}" if error > resolution else f"below {resolution:.0e}, what the truth is off by"


@functools.cache
def problem(environment: str) -> Problem:
    """An environment with its true distributions."""
    mrp = make(environment)
    truth = ground_truth(mrp)
    ends = truth.distribution.quantile(np.array([VISIBLE, 1 - VISIBLE]))
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not low < high:  # every return is the same
        low, high = low - 0.5, high + 0.5
    return Problem(mrp, truth, ReturnRange(low, high))


def features_of(settings: Settings, returns: ReturnRange) -> FeatureMap:
    """The feature map, of which slopes are relative to the returns wherever anchors are."""
    anchors = settings.anchor_range(returns)
    factor = settings.slope_factor
    if _has_slope(settings.family):
        factor *= anchors.width / returns.width
    elif factor != 1:
        raise InputError(f"{settings.family} features have no slope: set it back to a factor of 1, whose log₁₀ is 0")
    return make_features(settings.family, anchors, settings.num_features, slope_factor=factor, margin=0.0)


@functools.cache
def _has_slope(family: str) -> bool:
    return isinstance(make_features(family, ReturnRange(0.0, 1.0), 2), TranslationFamily)


def look(settings: Settings) -> View:
    """Solve with these settings, and take a look from all sides. Raises what ``solve`` raises."""
    begun = time.perf_counter()
    given = problem(settings.environment)
    with single_threaded_blas(), _notes() as notes:
        solution = solve(
            given.mrp,
            features=features_of(settings, given.returns),
            return_range=given.returns,
            ridge=settings.ridge,
            intercept=settings.intercept,
        )
        states = _spread(given.mrp.num_states)
        try:
            imputed = solution.decoder(solution.sketch[list(states)])
        except BellsketchError as error:
            imputed = None
            notes.append(f"No distributions can be read off this sketch: {error}")
        view = View(
            settings,
            given,
            solution,
            scipy.linalg.eigvals(solution.operator.dense()),
            _path(solution),
            given.truth.embedding(solution.features),
            states,
            imputed,
            (),
            0.0,
        )
        notes += _advice(view)
    return dataclasses.replace(view, notes=tuple(notes), seconds=time.perf_counter() - begun)


@contextmanager
def _notes() -> Iterator[list[str]]:
    """Warnings of the library become notes."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught, np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("always", BellsketchWarning)
        yield notes
    notes[:0] = [str(entry.message) for entry in caught if issubclass(entry.category, BellsketchWarning)]


def _spread(num_states: int) -> tuple[int, ...]:
    return tuple(np.unique(np.linspace(0, num_states - 1, SHOWN_STATES).round().astype(int)).tolist())


def _path(solution: Solution) -> np.ndarray:
    """Backups from φ(0), as long as they stay in sight."""
    path = [np.broadcast_to(solution.features(0.0), solution.sketch.shape)]
    reach = FAR * max(1.0, float(np.abs(solution.sketch).max()), float(np.abs(path[0]).max()))
    for _ in range(BACKUPS):
        following = np.asarray(solution.operator(path[-1]))
        if not np.abs(following).max() <= reach:
            break
        path.append(following)
    return np.stack(path)


def _advice(view: View) -> list[str]:
    notes = []
    m = view.settings.num_features
    if (rank := min((r.rank for r in view._reports), default=m)) <= m / 2:
        notes.append(
            f"The regression uses {rank} of {m} directions: to float64 and this ridge, the other features are"
            " combinations of these. A larger slope, or fewer features, make them differ."
        )
    anchors, returns = view.settings.anchor_range(view.problem.returns), view.problem.returns
    if anchors.low > returns.low or anchors.high < returns.high:
        notes.append(
            f"Features range from {anchors.low:.3g} to {anchors.high:.3g}, returns from {returns.low:.3g} to"
            f" {returns.high:.3g}: what lies beyond the features is not resolved. Widen the anchors."
        )
    if view.radius >= 1:
        notes.append(
            f"The spectral radius is {view.radius:.3f}: repeated backups do not converge, and the fixed point that is"
            " shown is not where they lead. Try more features, a larger ridge or a free intercept."
        )
    return notes
