"""Moments of features under a measure, in closed form: E[φ(G)φ(G)ᵀ], E[φ(r + γG)φ(G)ᵀ] and their means.

Gaussian features under normal and Lebesgue measure (the paper's App. "Choices of regression distribution", with its
formulas corrected), indicators and bins under uniform measure. Polynomials need no moments at all.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from bellsketch.core.errors import InputError
from bellsketch.core.features import Bins, FeatureMap, Gaussian, Indicator
from bellsketch.core.measures import Lebesgue, Measure, Normal, Uniform
from bellsketch.core.regression import (
    REPORT_POINTS,
    Function,
    LinearFit,
    NormalEquations,
    check_options,
    report_errors,
)
from bellsketch.core.rewards import Reward


@dataclasses.dataclass(frozen=True)
class Moments:
    """Of φ(r + γG) and φ(G) for one reward and discount."""

    cross: Float[np.ndarray, "m m"]
    """E[φ(r + γG) φ(G)ᵀ]; the paper's C_r, and C for r = 0, γ = 1."""
    target: Float[np.ndarray, " m"] | None
    """E[φ(r + γG)]; None under Lebesgue measure, which has no expectations."""


def has_closed_form(features: FeatureMap, measure: Any) -> bool:
    """Whether :func:`moments` knows this pair."""
    if isinstance(features, Gaussian):
        return isinstance(measure, Normal | Lebesgue)
    return isinstance(features, Indicator | Bins) and isinstance(measure, Uniform)


def moments(features: FeatureMap, measure: Measure | Lebesgue, reward: float, discount: float) -> Moments:
    """The moments for one reward and one discount above 0."""
    if not discount > 0:
        raise InputError(f"discount={discount}: at discount 0 there is nothing to regress")
    if isinstance(features, Gaussian) and isinstance(measure, Lebesgue):
        return _gaussian_lebesgue(features, reward, discount)
    if isinstance(features, Gaussian) and isinstance(measure, Normal):
        return _gaussian_normal(features, measure, reward, discount)
    if isinstance(features, Indicator | Bins) and isinstance(measure, Uniform):
        return _intervals_uniform(features, measure, reward, discount)
    raise InputError(
        f"no closed form for {type(features).__name__} features under {type(measure).__name__} measure: there is one"
        " for Gaussian under Normal and Lebesgue, and for Indicator and Bins under Uniform"
    )


def _gaussian_lebesgue(features: Gaussian, reward: float, discount: float) -> Moments:
    """∫ exp(−s²(r + γg − z_i)²/2 − s²(g − z_j)²/2) dg."""
    z, s2, spread = np.asarray(features.anchors), features.slope**2, 1 + discount**2
    gap = reward + discount * z[None, :] - z[:, None]
    return Moments(np.sqrt(2 * np.pi / (s2 * spread)) * np.exp(-s2 * gap**2 / (2 * spread)), None)


def _gaussian_normal(features: Gaussian, measure: Normal, reward: float, discount: float) -> Moments:
    """The product of both features and the density is the exponential of a quadratic, −½(a g² − 2 b g + c).

    Returns, anchors and the reward are counted from the mean, so that nothing large cancels.
    """
    z, s2, v = np.asarray(features.anchors) - measure.mean, features.slope**2, measure.std**2
    shifted = z - (reward + (discount - 1) * measure.mean)
    a = s2 * (1 + discount**2) + 1 / v
    b = s2 * (discount * shifted[:, None] + z[None, :])
    c = s2 * (shifted[:, None] ** 2 + z[None, :] ** 2)
    cross = np.exp(-(c - b**2 / a) / 2) / np.sqrt(v * a)
    widened = 1 + s2 * discount**2 * v
    return Moments(cross, np.exp(-s2 * shifted**2 / (2 * widened)) / np.sqrt(widened))


def _intervals_uniform(features: Indicator | Bins, measure: Uniform, reward: float, discount: float) -> Moments:
    """Lengths of overlaps: feature i of r + γg is 1 for g in ((lower_i − r)/γ, (upper_i − r)/γ)."""
    edges = np.asarray(features.edges)
    if isinstance(features, Indicator):
        lower, upper = np.full(features.num_features, edges[0]), edges[1:]
    else:
        lower, upper = edges[: -features.overlap], edges[features.overlap :]
    width = measure.high - measure.low
    inner = np.clip([lower, upper], measure.low, measure.high)
    outer = np.clip([(lower - reward) / discount, (upper - reward) / discount], measure.low, measure.high)
    start = np.maximum(outer[0][:, None], inner[0][None, :])
    stop = np.minimum(outer[1][:, None], inner[1][None, :])
    return Moments(np.maximum(stop - start, 0.0) / width, (outer[1] - outer[0]) / width)


class ClosedFormRegression:
    """The regression of φ(r + γg) on φ(g) with all moments in closed form: no grid, and no error but rounding."""

    def __init__(
        self, features: FeatureMap, measure: Measure | Lebesgue, *, ridge: float = 1e-9, intercept: str = "free"
    ):
        check_options(ridge, intercept)
        if isinstance(measure, Lebesgue) and intercept != "none":
            raise InputError(
                f"intercept={intercept!r}: constants have no finite norm under Lebesgue measure; pass intercept='none',"
                " or a Normal measure"
            )
        self.features, self.measure, self.ridge, self.intercept = features, measure, ridge, intercept
        own = moments(features, measure, 0.0, 1.0)
        self._mean = np.zeros(features.num_features) if own.target is None else own.target
        second = own.cross
        if intercept == "free":
            second = second - np.outer(self._mean, self._mean)
        elif intercept == "penalised":
            second = np.block([[second, self._mean[:, None]], [self._mean[None, :], np.ones((1, 1))]])
        self._factors = NormalEquations((second + second.T) / 2, ridge)
        self._points = np.linspace(*_visible_interval(features, measure), REPORT_POINTS)

    def fit(self, target: Function, reward: Reward, discount: float) -> LinearFit:
        """A and c for one reward; ``target`` is g ↦ E[φ(R + γg)], for the report."""
        parts = [moments(self.features, self.measure, atom, discount) for atom in reward.atoms]
        cross = np.einsum("k,kij->ij", reward.weights, np.stack([part.cross for part in parts]))
        means = [np.zeros(len(cross)) if part.target is None else part.target for part in parts]
        mean = np.array(reward.weights) @ np.stack(means)
        if self.intercept == "free":
            cross = cross - np.outer(mean, self._mean)
        elif self.intercept == "penalised":
            cross = np.column_stack([cross, mean])
        matrix = self._factors.solve(cross)
        offset = np.zeros(self.features.num_features)
        if self.intercept == "penalised":
            matrix, offset = np.ascontiguousarray(matrix[:, :-1]), matrix[:, -1]
        elif self.intercept == "free":
            offset = mean - matrix @ self._mean
        report = report_errors(self.features, self._points, target, matrix, offset, self._factors)
        return LinearFit(matrix, offset, dataclasses.replace(report, solver="closed form"))


def _visible_interval(features: FeatureMap, measure: Measure | Lebesgue) -> tuple[float, float]:
    """Where the report looks for errors."""
    if isinstance(measure, Lebesgue):
        anchors = np.asarray(features.anchors)
        return float(anchors.min()), float(anchors.max())
    return measure.interval
