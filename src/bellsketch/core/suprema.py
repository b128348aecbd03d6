"""Bounds, not estimates, on the largest regression error over an interval of returns: ε_B of Prop. 1.

The interval is cut into panels. On each the error e(g) = E[φ(R + γg)] − A φ(g) − c is near a polynomial of known degree
n: within t of one if φ is analytic, by its size in a complex strip, and equal to one between the bends of piecewise
polynomial features. A polynomial of degree n is nowhere larger than its values at N > n Chebyshev points, divided by
cos(nπ/2N) (Ehlich & Zeller, 1964). So

    sup_g ‖e(g)‖ ≤ (max over the points ‖e‖ + t) / cos(nπ/2N) + t.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from bellsketch.core.features import FeatureMap
from bellsketch.core.rewards import Reward

DEGREE, POINTS = 16, 48
"""n and N for analytic features: 1/cos(nπ/2N) = 1.15."""
ENOUGH = 0.01
"""t may be this share of the largest error seen."""
ROUNDING = 1e-13
MAX_PANELS = 4_096


@dataclasses.dataclass(frozen=True)
class Supremum:
    """A bound on the largest norm of an error over an interval."""

    value: float
    seen: float
    """The largest that was found: the supremum is between the two."""
    proven: bool
    """False if the features allow no bound; then ``value`` is what was found."""


def largest_error(
    features: FeatureMap,
    reward: Reward,
    discount: float,
    error: Callable[[np.ndarray], Float[np.ndarray, "n m"]],
    matrix: Float[np.ndarray, "m m"],
    offset: Float[np.ndarray, " m"],
    interval: tuple[float, float],
) -> Supremum:
    """Bound sup ‖e(g)‖₂ over the interval, where ``error`` evaluates e."""
    low, high = interval
    if features.breaks is not None:
        if not reward.is_finite:  # its expectation is a quadrature, which bends where the true one does not
            seen = _norms(error, np.linspace(low, high, MAX_PANELS)).max()
            return Supremum(float(seen), float(seen), False)
        return _piecewise(features, reward, discount, error, low, high)
    panels = 8
    while True:
        edges = np.linspace(low, high, panels + 1)
        seen = float(_norms(error, _chebyshev_points(edges, POINTS)).max())
        tail = _tail(features, discount, matrix, offset, (high - low) / (2 * panels))
        if tail <= max(ENOUGH * seen, ROUNDING):
            return Supremum((seen + tail) / float(np.cos(DEGREE * np.pi / (2 * POINTS))) + tail, seen, True)
        if panels >= MAX_PANELS:
            return Supremum(seen, seen, False)
        panels *= 2


def _piecewise(
    features: FeatureMap,
    reward: Reward,
    discount: float,
    error: Callable[[np.ndarray], np.ndarray],
    low: float,
    high: float,
) -> Supremum:
    """Between the bends of φ(g) and of φ(r + γg), for every atom r of the reward."""
    bends = np.asarray(features.breaks)
    moved = [(bends - atom) / discount for atom in reward.atoms]
    edges = np.unique(np.clip(np.concatenate([[low, high], bends, *moved]), low, high))
    degree = features.degree
    points = 2 * degree + 1
    inside = _norms(error, _chebyshev_points(edges, points)).max() / np.cos(degree * np.pi / (2 * points))
    at_bends = _norms(error, edges).max()  # where a jump may have either value
    seen = max(_norms(error, _chebyshev_points(edges, points)).max(), at_bends)
    return Supremum(float(max(inside, at_bends)), float(seen), True)


def _chebyshev_points(edges: np.ndarray, num: int) -> np.ndarray:
    """Those of each panel, one after another."""
    x = np.cos(np.pi * (np.arange(num) + 0.5) / num)
    halves = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + halves * (1 + x)).ravel()


def _norms(error: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [np.linalg.norm(error(block), axis=1) for block in np.array_split(points, -(-len(points) // 2_000))]
    )


def _tail(features: FeatureMap, discount: float, matrix: np.ndarray, offset: np.ndarray, half_width: float) -> float:
    """How far e is from a polynomial of degree n on a panel: 2Mρ⁻ⁿ/(ρ − 1), the least over ellipses."""
    rho = np.geomspace(1.05, 1e3, 100)
    sums, best = np.abs(matrix).sum(axis=1), np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        for r in rho:
            height = half_width * (r - 1 / r) / 2
            size = features.strip_bound(discount * height) + sums * features.strip_bound(height) + np.abs(offset)
            best = np.fmin(best, 2 * np.linalg.norm(size) * r ** (-DEGREE) / (r - 1))
    return float(best)
