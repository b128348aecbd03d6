"""Bounds on how far a readout is from the function that it stands for: sup |f(g) − ⟨β, φ(g)⟩ − b| by panels of returns.

For f(g) = g, and on panels on which φ is (nearly) a polynomial, that is the bound of ``suprema``. Of any other f only
values are known. Between points that are h apart it changes by no more than its Lipschitz constant times h/2 to the
nearest of them, and the readout by no more than the supremum of its derivative, which is again that of a polynomial.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.readout import Readout
from bellsketch.core.suprema import (
    DEGREE,
    POINTS,
    POINTS_PER_DEGREE,
    analytic_panels,
    chebyshev_points,
    growth,
    panels_between,
)

FINE_POINTS = 40_000
"""At least as many returns, in all, are looked at for a function of which only values are known."""


@dataclasses.dataclass(frozen=True)
class PanelBounds:
    """sup |f(g) − ⟨β, φ(g)⟩ − b| between neighbouring edges."""

    edges: Float[np.ndarray, " edges"]
    bounds: Float[np.ndarray, " panels"]
    proven: bool
    """False if there is no Lipschitz constant: then it is the largest of many values."""


def mean_readout_error(features: FeatureMap, readout: Readout, low: float, high: float) -> PanelBounds:
    """Of the readout of the mean."""
    panels = _Panels(features, np.asarray(readout.weights), low, high, derivative=False)
    return PanelBounds(panels.edges, panels.suprema(lambda g: g - _values(features, readout, g)), panels.proven)


def readout_error(
    features: FeatureMap,
    readout: Readout,
    f: Callable[[np.ndarray], Any],
    low: float,
    high: float,
    lipschitz: float | None = None,
) -> PanelBounds:
    """Of the readout of any function of the return, proven if a Lipschitz constant of it is given."""
    if lipschitz is not None and not 0 <= lipschitz < np.inf:
        raise InputError(f"lipschitz={lipschitz}: a Lipschitz constant is a finite number ≥ 0; leave it out if unknown")
    panels = _Panels(features, np.asarray(readout.weights), low, high, derivative=True)
    num = -(-FINE_POINTS // (len(panels.edges) - 1))
    middles = (np.arange(num) + 0.5) / num
    where = (panels.edges[:-1, None] + np.diff(panels.edges)[:, None] * middles).ravel()
    gaps = np.abs(np.asarray(f(where), dtype=np.float64) - _values(features, readout, where))
    seen = gaps.reshape(-1, num).max(axis=1)
    if lipschitz is None:
        return PanelBounds(panels.edges, seen, False)
    steepest = panels.suprema(lambda g: _slopes(features, readout, g))
    return PanelBounds(panels.edges, seen + np.diff(panels.edges) / (2 * num) * (lipschitz + steepest), panels.proven)


class _Panels:
    """Panels on which ⟨β, φ⟩ or its derivative is within ``slack`` of a polynomial."""

    def __init__(self, features: FeatureMap, weights: np.ndarray, low: float, high: float, *, derivative: bool):
        total = float(np.abs(weights).sum())
        if features.breaks is not None:
            self.degree = max(1, features.degree)  # that of g itself, for the mean
            self.num = POINTS_PER_DEGREE * self.degree + 1
            self.edges, self.slack = panels_between(np.asarray(features.breaks), low, high), 0.0
        else:
            self.degree, self.num = DEGREE, POINTS

            def size(height: float) -> float:
                if not derivative:
                    return total * features.strip_bound(height)
                # Cauchy: |φ'| ≤ M/d, M being the size of φ up to d further out.
                further = max(height, (high - low) / 100)
                return total * features.strip_bound(height + further) / further

            self.edges, self.slack = analytic_panels(size, low, high)
        self.proven = bool(np.isfinite(self.slack))

    def suprema(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        # Not the ends of panels, where features may jump and belong to the next.
        where = chebyshev_points(self.edges, self.num).reshape(len(self.edges) - 1, -1)[:, 1:-1]
        seen = np.abs(function(where.ravel())).reshape(where.shape).max(axis=1)
        return (seen + self.slack) * growth(self.degree, self.num) + self.slack if self.proven else seen


def _values(features: FeatureMap, readout: Readout, g: np.ndarray) -> np.ndarray:
    return np.asarray(features(g) @ np.asarray(readout.weights) + readout.offset)


def _slopes(features: FeatureMap, readout: Readout, g: np.ndarray) -> np.ndarray:
    """The derivative of the readout."""
    fresh = jax.tree.map(np.array, features)
    with jax.enable_x64(True):
        at = jnp.asarray(g, dtype=jnp.float64)
        _, slopes = jax.jvp(fresh.evaluate, (at,), (jnp.ones_like(at),))
        return np.asarray(slopes) @ np.asarray(readout.weights)
