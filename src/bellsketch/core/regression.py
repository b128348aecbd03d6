"""One least-squares solver, in float64 on the host, for Bellman coefficients and readouts alike.

Fits t(g) ≈ M φ(g) + b in the mean square under a finitely supported distribution μ of returns g, with a ridge
penalty λ‖M‖² on the coefficients.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, ToleranceError
from bellsketch.core.features import FeatureMap

Intercept = Literal["free", "penalised", "none"]
Function = Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, "n k"]]

BLOCK = 1_000
"""Grid points evaluated at a time: a block of features stays in the processor's cache."""

REPORT_POINTS = 10_000
"""Fit errors are looked for at no more than about this many evenly chosen grid points."""

FAR_FROM_ZERO = 100.0
"""Targets as large as this are fitted relative to their first value."""

NORMAL_EQUATIONS_TOLERANCE = 1e-9
"""Normal equations are used only if forming them in float64 changes fitted values by less than this."""


@dataclasses.dataclass(frozen=True)
class FitReport:
    """How good a fit is. Errors are maxima over the grid, not averages."""

    max_error: float
    """Largest absolute error of any output."""
    max_norm_error: float
    """Largest Euclidean norm of the error vector: ε_B of Prop. 1, on the grid."""
    rank: int
    """Number of directions of feature space that the fit uses (those above rounding and above the ridge)."""
    condition: float
    """Condition number of the regularised covariance that is inverted."""
    num_points: int
    """Grid points at which the errors were evaluated."""
    solver: str


@dataclasses.dataclass(frozen=True)
class LinearFit:
    """t(g) ≈ matrix φ(g) + offset."""

    matrix: Float[np.ndarray, "k m"]
    offset: Float[np.ndarray, " k"]
    report: FitReport


def check_options(ridge: float, intercept: str) -> None:
    """Raise unless a ridge and an intercept are what a regression can use."""
    if not (ridge >= 0 and np.isfinite(ridge)):
        raise InputError(f"ridge={ridge}: must be a finite number ≥ 0")
    if intercept not in get_args(Intercept):
        raise InputError(f"intercept={intercept!r}: choose one of {', '.join(get_args(Intercept))}")


def check_tolerance(fits: "Sequence[LinearFit]", tolerance: float | None, ridge: float) -> None:
    """Raise if the largest error of any fit exceeds the tolerance."""
    worst = float(np.max([fit.report.max_error for fit in fits], initial=0.0))
    if tolerance is not None and not worst <= tolerance:
        raise ToleranceError(
            f"largest regression error {worst:.3g} exceeds tolerance={tolerance:g} by {worst - tolerance:.3g}: use"
            f" more features, a smaller slope, a smaller ridge (now {ridge:g}) or a narrower regression grid"
        )


class Regression:
    """The regression problem for one feature map and one μ: factorised once, fitted to any number of targets.

    The intercept is ``free`` (unpenalised, the default), ``penalised`` (a constant feature under the ridge, as in the
    authors' code) or ``none`` (as in the paper's text).
    """

    def __init__(self, features: FeatureMap, mu: AtomicDistribution, *, ridge: float = 1e-9, intercept: str = "free"):
        check_options(ridge, intercept)
        if mu.locations.ndim != 1 or np.unique(mu.locations).size < 2:
            raise InputError(
                f"mu: a regression grid needs at least 2 different points, got {np.unique(mu.locations).size}"
            )
        weights = np.asarray(mu.probabilities, dtype=np.float64)
        self.mu = AtomicDistribution(np.asarray(mu.locations, dtype=np.float64), weights / weights.sum())
        self.features, self.ridge, self.intercept = features, ridge, intercept
        self._mean, covariance = self._moments()
        if not np.all(np.isfinite(covariance)):
            raise InputError("features: not finite, or too large to square, on the regression grid; use fewer powers")
        # Forming the covariance loses about eps·trace of the second moments it is the rest of; a direction of variance
        # v passes that on to fitted values as eps·trace·√v/(v + ridge), at worst eps·trace/(2√ridge).
        loss = np.finfo(np.float64).eps * (np.trace(covariance) + self._mean @ self._mean)
        if ridge > 0 and loss / (2 * np.sqrt(ridge)) <= NORMAL_EQUATIONS_TOLERANCE:
            self._factors: _Factors = NormalEquations(covariance, ridge)
        else:
            phi = np.concatenate([phi for *_, phi in self._blocks()])
            redundant = (np.ptp(phi, axis=0) == 0) & (intercept == "free")
            design = (phi - self._mean) * np.sqrt(self.mu.probabilities)[:, None] * ~redundant
            self._factors = _SingularValues(design, ridge, rank=int(np.sum(~redundant)))

    def fit(self, *targets: Function, tolerance: float | None = None) -> list[LinearFit]:
        """Fit each target function of the return. Raise if any misses ``tolerance`` (largest absolute error)."""
        crosses, means = self._cross_moments(targets)
        fits = []
        for target, cross, mean in zip(targets, crosses, means, strict=True):
            matrix = self._factors.solve(cross)
            if self.intercept == "penalised":
                matrix, offset = np.ascontiguousarray(matrix[:, :-1]), matrix[:, -1]
            else:  # the mean is zero without an intercept
                offset = (mean - matrix @ self._mean) * (self.intercept == "free")
            fits.append(LinearFit(matrix, offset, self._report(target, matrix, offset)))
        check_tolerance(fits, tolerance, self.ridge)
        return fits

    def _inputs(self, points: np.ndarray) -> np.ndarray:
        phi = self.features(points)
        return np.append(phi, np.ones((len(points), 1)), axis=1) if self.intercept == "penalised" else phi

    def _blocks(self, *, centred: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(points, weights, features) of μ, a cache-sized block at a time."""
        for start in range(0, self.mu.locations.size, BLOCK):
            points = self.mu.locations[start : start + BLOCK]
            phi = self._inputs(points)
            yield points, self.mu.probabilities[start : start + BLOCK], phi - self._mean if centred else phi

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the features under μ (about the mean only for a free intercept)."""
        size = self.features.num_features + (self.intercept == "penalised")
        mean, second = np.zeros(size), np.zeros((size, size))
        for _, weights, phi in self._blocks():
            mean += weights @ phi
            scaled = phi * np.sqrt(weights)[:, None]
            second += scaled.T @ scaled
        if self.intercept != "free":
            return np.zeros(size), second
        return mean, second - np.outer(mean, mean)

    def _cross_moments(self, targets: Sequence[Function]) -> tuple[list[Any], list[Any]]:
        """For each target: its projection onto the factorised design, and its mean."""
        crosses: list[Any] = [0.0] * len(targets)
        means: list[Any] = [0.0] * len(targets)
        origins: list[Any] = [0.0] * len(targets)
        row = 0
        for points, weights, phi in self._blocks(centred=True):
            basis = self._factors.basis(phi, weights, row)
            for i, target in enumerate(targets):
                values = target(points)
                if row == 0 and self.intercept == "free" and np.abs(values[0]).max() > FAR_FROM_ZERO:
                    origins[i] = values[0]  # so that rounding in the features' mean is not magnified
                if np.any(origins[i]):
                    values = values - origins[i]
                means[i] = means[i] + weights @ values
                crosses[i] = crosses[i] + values.T @ basis
            row += len(points)
        return crosses, [mean + origin for mean, origin in zip(means, origins, strict=True)]

    def _report(self, target: Function, matrix: np.ndarray, offset: np.ndarray) -> FitReport:
        return report_errors(self.features, self.mu.locations, target, matrix, offset, self._factors)


def report_errors(
    features: FeatureMap,
    points: Float[np.ndarray, " n"],
    target: Function,
    matrix: np.ndarray,
    offset: np.ndarray,
    factors: "_Factors",
) -> FitReport:
    """The largest errors of t(g) ≈ M φ(g) + b over ``points``, or over evenly chosen ones if there are many."""
    checked = points[:: -(-points.size // REPORT_POINTS)]
    largest, largest_norm = [], []
    for start in range(0, checked.size, BLOCK):
        block = checked[start : start + BLOCK]
        error = target(block) - (features(block) @ matrix.T + offset)
        largest.append(np.abs(error).max())
        largest_norm.append(np.linalg.norm(error, axis=1).max())
    worst, worst_norm = float(np.max(largest)), float(np.max(largest_norm))  # Python's max would hide a NaN
    return FitReport(worst, worst_norm, factors.rank, factors.condition, checked.size, factors.name)


class _Factors(ABC):
    """A factorisation of the weighted, centred design matrix √w (φ − mean)."""

    name: str
    rank: int
    condition: float

    def _describe(self, variances: np.ndarray, ridge: float, rounding: float) -> None:
        """Rank and condition number from the variances of the features' principal components."""
        self.rank = int(np.sum(variances > max(ridge, rounding * variances.max(initial=0.0))))
        smallest = max(variances.min(initial=np.inf), 0.0) + ridge
        self.condition = float((variances.max(initial=0.0) + ridge) / smallest) if smallest > 0 else np.inf

    @abstractmethod
    def basis(self, phi: np.ndarray, weights: np.ndarray, row: int) -> np.ndarray:
        """What targets are multiplied with, for the block of the design that starts at ``row``."""

    @abstractmethod
    def solve(self, cross: np.ndarray) -> np.ndarray:
        """Coefficients from the accumulated products of targets and basis."""


def _not_unique(found: int, rank: int) -> str:
    return (
        f"the design matrix has rank {found} but {rank} features: without ridge the coefficients are not unique. Pass"
        " ridge=1e-9, use fewer or sharper features, or a grid that covers all of them"
    )


class NormalEquations(_Factors):
    """M = E[t φᵀ] (E[φ φᵀ] + λ)⁻¹: the fastest, and as accurate as the others where ``Regression`` uses it."""

    name = "normal equations"

    def __init__(self, covariance: np.ndarray, ridge: float):
        variances, self._vectors = scipy.linalg.eigh(covariance)
        cutoff = np.finfo(np.float64).eps * len(covariance) * variances.max(initial=0.0)
        if ridge == 0 and (found := int(np.sum(variances > cutoff))) < len(covariance):
            raise InputError(_not_unique(found, len(covariance)))
        self._scales = 1 / (np.maximum(variances, 0) + ridge)
        self._describe(variances, ridge, rounding=float(np.finfo(np.float64).eps * len(covariance)))

    def basis(self, phi: np.ndarray, weights: np.ndarray, row: int) -> np.ndarray:
        return phi * weights[:, None]

    def solve(self, cross: np.ndarray) -> np.ndarray:
        return ((cross @ self._vectors) * self._scales) @ self._vectors.T


class _SingularValues(_Factors):
    """By the singular values of the design itself, which loses no digits to squaring."""

    name = "SVD"

    def __init__(self, design: np.ndarray, ridge: float, rank: int):
        self._left, s, self._right = scipy.linalg.svd(design, full_matrices=False)
        cutoff = float(np.finfo(np.float64).eps * max(design.shape))
        keep = s > cutoff * s.max(initial=0.0)
        # A constant column next to a free intercept explains nothing and is left out; any other loss is the user's.
        if ridge == 0 and (found := int(keep.sum())) < rank:
            raise InputError(_not_unique(found, rank))
        self._describe(s[keep | (ridge > 0)] ** 2, ridge, rounding=cutoff**2)
        self._scales = np.where(keep, s / np.where(keep, s**2 + ridge, 1.0), 0.0)

    def basis(self, phi: np.ndarray, weights: np.ndarray, row: int) -> np.ndarray:
        return self._left[row : row + len(phi)] * np.sqrt(weights)[:, None]

    def solve(self, cross: np.ndarray) -> np.ndarray:
        return (cross * self._scales) @ self._right
