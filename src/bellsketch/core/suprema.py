"""Bounds, not estimates, on the largest regression error over an interval of returns: ε_B of Prop. 1.

The interval is cut into panels. On each the error e(g) = E[φ(R + γg)] − A φ(g) − c is near a polynomial of known degree
n: within t of one if φ is analytic, by its size in a complex strip, and equal to one between the bends of piecewise
polynomial features. A polynomial of degree n is nowhere larger than its values at N > n Chebyshev points, divided by
cos(nπ/2N) (Ehlich & Zeller, 1964). So

    sup_g ‖e(g)‖ ≤ (max over the points ‖e‖ + t) / cos(nπ/2N) + t.

The same holds for any linear function of errors, such as W e in another norm.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from bellsketch.core.features import FeatureMap
from bellsketch.core.rewards import QUADRATURE_SCORES, TAIL, Reward

DEGREE, POINTS = 16, 48
"""n and N for analytic features: 1/cos(nπ/2N) = 1.15."""
POINTS_PER_DEGREE = 4
"""N − 1 over n for piecewise polynomials: 1/cos(nπ/2N) < 1.09."""
ROUNDING = 1e-15
"""t may be this share of the terms that the error is the difference of: what evaluating them loses anyway."""
ELLIPSES = np.geomspace(1.05, 1e3, 100)
MAX_PANELS = 2_048
BLOCK = 2_000
"""Points at a time: what is held of a weighted error stays small."""

NORMAL_WEIGHTS = np.exp(-(QUADRATURE_SCORES**2) / 2) / np.exp(-(QUADRATURE_SCORES**2) / 2).sum()


@dataclasses.dataclass(frozen=True)
class RegressionError:
    """e(g) = E[φ(R + γ(g + Z))] − A E[φ(g + Z)] − c, for independent normal Z of variance ``noise``."""

    features: FeatureMap
    reward: Reward
    discount: float
    matrix: Float[np.ndarray, "m m"]
    offset: Float[np.ndarray, " m"]
    noise: float = 0.0

    def __call__(self, returns: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n m"]:
        target = _average(self.features, self.discount * returns, *self._steps)
        now = _average(self.features, returns, *_normal_rule(self.noise))
        return target - now @ self.matrix.T - self.offset

    @functools.cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Where R + γZ lies, with weights."""
        atoms, weights = np.array(self.reward.atoms), np.array(self.reward.weights)
        spread = self.discount**2 * self.noise
        if spread > 0 and self.reward.is_gaussian:
            atoms, weights = np.array([self.reward.mean]), np.ones(1)
            spread += self.reward.variance
        nodes, masses = _normal_rule(spread)
        return np.add.outer(atoms, nodes).ravel(), np.outer(weights, masses).ravel()

    @functools.cached_property
    def _row_sums(self) -> np.ndarray:
        return np.abs(self.matrix).sum(axis=1)

    @property
    def bends(self) -> Float[np.ndarray, " b"] | None:
        """Between which e is a polynomial of the features' degree; None if it is none."""
        if self.features.breaks is None:
            return None
        bends = np.asarray(self.features.breaks)
        return np.concatenate([bends, *((bends - atom) / self.discount for atom in self.reward.atoms)])

    @property
    def is_proven(self) -> bool:
        """Whether e is what is evaluated: quadrature bends where expectations do not, and is known only for normals."""
        if self.features.breaks is not None and len(self.features.breaks):
            return self.reward.is_finite and self.noise == 0
        return self.reward.is_finite or self.reward.is_gaussian

    def size(self, height: float) -> float:
        """A bound on ‖e‖ in the complex strip |Im g| ≤ height, each term by itself."""
        here, there = self.features.strip_bound(height), self.features.strip_bound(self.discount * height)
        if not np.isfinite(here):
            return np.inf
        return float(np.linalg.norm(there + self._row_sums * here + np.abs(self.offset)))

    def quadrature_error(self) -> float:
        """A bound on what the quadrature of normal rewards and noise can change e by."""
        spread = self.discount**2 * self.noise + (self.reward.variance if self.reward.is_gaussian else 0.0)
        first = _trapezoid_error(self.features, spread)
        second = _trapezoid_error(self.features, self.noise)
        return float(np.linalg.norm(first + self._row_sums * second))


@dataclasses.dataclass(frozen=True)
class ErrorTable:
    """Errors at points from which their supremum on each panel follows."""

    edges: Float[np.ndarray, " edges"]
    values: tuple[Float[np.ndarray, "points m"], ...]
    """Of each error, at the points of one panel after another, as many on each."""
    slack: tuple[float, ...]
    """t of each error."""
    growth: float
    """1/cos(nπ/2N)."""
    proven: bool
    """False if the features or rewards allow no bound; then what was found stands for it."""

    @property
    def num_panels(self) -> int:
        return len(self.edges) - 1

    def bounds(self, *weights: Float[np.ndarray, "w k m"]) -> Float[np.ndarray, "w panels"]:
        """sup ‖Σ_j W_j e_j(g)‖₂ on each panel, for each of several rows of weights W_j (one argument per error)."""
        num, k, m = weights[0].shape
        slack = sum(t * np.linalg.norm(w, ord=2, axis=(1, 2)) for t, w in zip(self.slack, weights, strict=True))
        found = []
        for start in range(0, len(self.values[0]), BLOCK):
            total: np.ndarray = sum(  # type: ignore[assignment]
                values[start : start + BLOCK] @ w.reshape(num * k, m).T
                for values, w in zip(self.values, weights, strict=True)
            )
            found.append(np.linalg.norm(total.reshape(-1, num, k), axis=2))
        seen = np.concatenate(found).reshape(self.num_panels, -1, num).max(axis=1).T
        slack = np.asarray(slack)[:, None]
        return (seen + slack) * self.growth + slack


def largest_over(
    edges: Float[np.ndarray, " edges"],
    bounds: Float[np.ndarray, "w panels"],
    low: Float[np.ndarray, " q"],
    high: Float[np.ndarray, " q"],
) -> Float[np.ndarray, "w q"]:
    """The maxima of ``bounds`` over the panels that meet the intervals [low, high]."""
    end = len(edges) - 2
    first = np.clip(np.searchsorted(edges, low, side="left") - 1, 0, end)
    last = np.clip(np.searchsorted(edges, high, side="right") - 1, first, end)
    # Maxima over 2^k neighbours answer every question by two lookups.
    level = np.log2(last - first + 1).astype(np.int64)
    table = [bounds]
    for k in range(int(level.max(initial=0))):
        table.append(np.maximum(table[-1], np.roll(table[-1], -(2**k), axis=1)))
    rows = np.stack(table)
    return np.maximum(rows[level, :, first], rows[level, :, last + 1 - 2**level]).T


def analytic_panels(size: Callable[[float], float], low: float, high: float) -> tuple[np.ndarray, float]:
    """Edges of panels on which a function is within t of polynomials of degree n, and t: rounding, if that is possible.

    ``size`` bounds the function in strips of a given height. On a panel it is 2Mρ⁻ⁿ/(ρ − 1) from them, M being its size
    in the ellipse ρ around the panel, for the best ρ.
    """
    panels, smallest = 1, ROUNDING * size(0.0)
    while True:
        half = (high - low) / (2 * panels)
        with np.errstate(over="ignore", invalid="ignore"):
            t = min(2 * size(half * (rho - 1 / rho) / 2) * rho ** (-DEGREE) / (rho - 1) for rho in ELLIPSES)
        if t <= smallest or panels >= MAX_PANELS:
            return np.linspace(low, high, panels + 1), t
        panels *= 2


def tabulate(errors: Sequence[RegressionError], low: float, high: float) -> ErrorTable:
    """Errors over an interval, finely enough for bounds on them and on their linear combinations."""
    proven = all(error.is_proven for error in errors)
    slack = [0.0] * len(errors)
    if errors[0].bends is not None:
        degree, points = errors[0].features.degree, POINTS_PER_DEGREE * errors[0].features.degree + 1
        bends = np.concatenate([np.asarray(error.bends) for error in errors])
        edges = panels_between(bends if proven else np.linspace(low, high, MAX_PANELS), low, high)
    else:
        degree, points = DEGREE, POINTS
        panels = [analytic_panels(error.size, low, high) for error in errors]
        edges = max((edges for edges, _ in panels), key=len)
        slack = [t + error.quadrature_error() for (_, t), error in zip(panels, errors, strict=True)]
        if not np.isfinite(slack).all():
            slack, proven = [0.0] * len(errors), False
    where = chebyshev_points(edges, points)
    return ErrorTable(edges, tuple(error(where) for error in errors), tuple(slack), growth(degree, points), proven)


def panels_between(bends: np.ndarray, low: float, high: float) -> np.ndarray:
    """Edges from low to high, and at every bend between."""
    edges = np.unique(np.clip(np.append(bends, [low, high]), low, high))
    return edges if edges.size > 1 else np.array([low, high])


def growth(degree: int, points: int) -> float:
    """1/cos(nπ/2N)."""
    return 1 / float(np.cos(degree * np.pi / (2 * points)))


def chebyshev_points(edges: np.ndarray, num: int) -> np.ndarray:
    """Chebyshev points of each panel, and its ends, where a jump may have either value; one panel after another."""
    x = np.concatenate([[-1.0], np.cos(np.pi * (np.arange(num) + 0.5) / num), [1.0]])
    return np.clip(edges[:-1, None] + np.diff(edges)[:, None] / 2 * (1 + x), edges[0], edges[-1]).ravel()


def _normal_rule(variance: float) -> tuple[np.ndarray, np.ndarray]:
    if variance == 0:
        return np.zeros(1), np.ones(1)
    return np.sqrt(variance) * QUADRATURE_SCORES, NORMAL_WEIGHTS


def _average(features: FeatureMap, at: np.ndarray, steps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """E[φ(at + step)]."""
    padded = np.zeros(2 ** int(np.ceil(np.log2(len(at)))))  # features are compiled for each length
    padded[: len(at)] = at
    total = np.zeros((len(at), features.num_features))
    for step, weight in zip(steps, weights, strict=True):
        total += weight * features(padded + step)[: len(at)]
    return total


def _trapezoid_error(features: FeatureMap, variance: float) -> float:
    """What equal steps h in the score leave of E[φ_i(g + √v Z)]: 2M/(e^{2πa/h} − 1), M the integrand at height a."""
    if variance == 0:
        return 0.0
    step = QUADRATURE_SCORES[1] - QUADRATURE_SCORES[0]
    with np.errstate(over="ignore", invalid="ignore"):
        best = min(
            2 * features.strip_bound(np.sqrt(variance) * a) * np.exp(a**2 / 2) / np.expm1(2 * np.pi * a / step)
            for a in np.geomspace(0.01, 10.0, 60)
        )
    return best + 4 * TAIL * features.strip_bound(0.0)
