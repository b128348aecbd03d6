"""Readouts: E[f(G)] ≈ ⟨β, U⟩ + b, for any function f of the return."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.pytree import pytree, static
from bellsketch.core.regression import FitReport, Regression
from bellsketch.core.risk import Criterion


@pytree
class Readout:
    """A linear function of the sketch that estimates E[f(G)]; ``report`` says how well f is fitted."""

    weights: Float[Array, " m"]
    """β."""
    offset: Any
    report: FitReport = static()

    def __call__(self, sketch: Float[Array, "... m"]) -> Float[Array, "..."]:
        return sketch @ self.weights + self.offset


def fit_readout(
    features: FeatureMap,
    f: Callable[[np.ndarray], Any],
    mu: AtomicDistribution,
    *,
    ridge: float = 1e-9,
    intercept: str = "free",
    tolerance: float | None = None,
) -> Readout:
    """Fit f(g) ≈ ⟨β, φ(g)⟩ + b under μ. ``f`` maps an array of returns to an array of the same shape.

    The mean is ``lambda g: g``, P(G ≤ c) is ``lambda g: g <= c``, an exponential utility ``lambda g: np.exp(-k * g)``.
    """

    def target(returns: np.ndarray) -> np.ndarray:
        values = np.asarray(f(returns), dtype=np.float64)
        if values.shape != returns.shape or not np.all(np.isfinite(values)):
            raise InputError(
                f"f must map an array of {returns.size} returns to as many finite numbers, got shape {values.shape}"
            )
        return values[:, None]

    (fit,) = Regression(features, mu, ridge=ridge, intercept=intercept).fit(target, tolerance=tolerance)
    return Readout(fit.matrix[0], float(fit.offset[0]), fit.report)


@pytree
class CriterionReadout:
    """max_j ⟨β_j, U⟩ + b_j, an estimate of a criterion max_j E[f_j(G)]; ``report`` says how well the f_j are fitted."""

    weights: Float[Array, "j m"]
    offsets: Float[Array, " j"]
    report: FitReport = static()

    def __call__(self, sketch: Float[Array, "... m"]) -> Float[Array, "..."]:
        return (sketch @ self.weights.T + self.offsets).max(axis=-1)


def fit_criterion(
    features: FeatureMap,
    criterion: Criterion,
    mu: AtomicDistribution,
    *,
    ridge: float = 1e-9,
    intercept: str = "free",
    tolerance: float | None = None,
) -> CriterionReadout:
    """Fit each f_j(g) ≈ ⟨β_j, φ(g)⟩ + b_j under μ."""
    (fit,) = Regression(features, mu, ridge=ridge, intercept=intercept).fit(criterion, tolerance=tolerance)
    return CriterionReadout(fit.matrix, fit.offset, fit.report)
