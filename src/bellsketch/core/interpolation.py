"""Bellman coefficients as a function of the reward: the paper's H: r ↦ B_r, with an error bound instead of a network.

The reward interval is cut into panels, and in each A_r and c_r are interpolated at Chebyshev points. φ is analytic, so
few points do. With I the interpolation in r,

    φ(r + γg) − I[A_r φ(g) + c_r] = (φ − I[φ])(r + γg) + I[φ(r + γg) − A_r φ(g) − c_r],

whose first part is bounded through φ's size in a complex strip (Trefethen, 2019, Theorem 8.2), and whose second is at
most the Lebesgue constant times the regression errors at the nodes.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.coefficients import CoefficientFitter, RegressionMeasure, check_discount
from bellsketch.core.errors import InputError, ToleranceError
from bellsketch.core.features import FeatureMap
from bellsketch.core.memory import check_fits
from bellsketch.core.pytree import pytree, static
from bellsketch.core.rewards import as_reward

MAX_NODES = 24
"""In a panel: with more, narrower panels cost less to evaluate; with fewer, there are more coefficients to fit."""
MAX_PANELS = 1_024


@pytree
class InterpolatedCoefficients:
    """A_r and c_r for every reward r in an interval, at one discount. Usable under jit."""

    features: FeatureMap
    matrices: Float[Array, "p k m m"]
    """A at the k Chebyshev nodes of each of p panels."""
    offsets: Float[Array, "p k m"]
    low: float = static()
    high: float = static()
    discount: float = static()
    interpolation_error: float = static()
    """A bound on the error of interpolating φ(r + γg) in r, any reward of the interval and any return g."""
    max_error: float = static()
    """A bound on |φ(r + γg) − A_r φ(g) − c_r| for any reward of the interval, g where the regression was checked."""

    def weights(self, reward: Float[Array, "*b"]) -> Float[jax.Array, "*b n"]:
        """The weights of all n = p·k nodes, those of other panels 0; NaN for rewards outside the interval."""
        panels, k = self.matrices.shape[:2]
        position = (jnp.asarray(reward) - self.low) / (self.high - self.low) * panels
        panel = jnp.clip(position.astype(jnp.int32), 0, panels - 1)
        x = 2 * (position - panel) - 1
        degree = np.arange(k)
        # Chebyshev polynomials at the nodes and at x: their sum is 1 at the node and 0 at all others.
        at_nodes = np.cos(np.outer(np.pi * (degree + 0.5) / k, degree)) * np.where(degree == 0, 1, 2) / k
        inside = jnp.abs(x) <= 1 + 8 * panels * jnp.finfo(position.dtype).eps  # the ends may be off by rounding
        weights = jnp.cos(degree * jnp.arccos(jnp.clip(x, -1, 1))[..., None]) @ at_nodes.T
        of_panel = (jnp.arange(panels) == panel[..., None])[..., None]
        everywhere = jnp.where(inside[..., None], weights, jnp.nan)[..., None, :] * of_panel
        return everywhere.reshape(*position.shape, panels * k)

    def at(self, reward: Float[Array, ""] | float) -> tuple[Float[jax.Array, "m m"], Float[jax.Array, " m"]]:
        """A and c for one reward. Raises if it is outside the interval (NaN under jit, where nothing can be raised)."""
        if not isinstance(reward, jax.core.Tracer):
            self._check(float(reward), float(reward))
        weights, m = self.weights(jnp.asarray(reward)), self.features.num_features
        return (weights @ self.matrices.reshape(-1, m * m)).reshape(m, m), weights @ self.offsets.reshape(-1, m)

    def _check(self, least: float, greatest: float) -> None:
        if not (self.low <= least and greatest <= self.high):
            raise InputError(
                f"reward {least if not self.low <= least else greatest:g} lies outside the interval [{self.low:g},"
                f" {self.high:g}] of interpolated coefficients: interpolate over a wider one, or compute this one with"
                " fit_coefficients"
            )

    def back_up(self, reward: Float[Array, " b"], sketch: Float[Array, "b m"]) -> Float[jax.Array, "b m"]:
        """A_r u + c_r for a batch of rewards and sketches. Rewards outside: as for :meth:`at`."""
        if not isinstance(reward, jax.core.Tracer) and np.size(reward):
            self._check(float(np.min(reward)), float(np.max(reward)))
        # One product with the coefficients at all nodes costs less than gathering those of each reward's panel.
        weights, m = self.weights(reward), self.features.num_features
        matrices = (weights @ self.matrices.reshape(-1, m * m)).reshape(-1, m, m)
        return jnp.einsum("bij,bj->bi", matrices, sketch) + weights @ self.offsets.reshape(-1, m)


def interpolate_coefficients(
    features: FeatureMap,
    mu: RegressionMeasure,
    interval: tuple[float, float],
    discount: float,
    *,
    ridge: float = 1e-9,
    intercept: str = "free",
    interpolation_tolerance: float = 1e-10,
    tolerance: float | None = None,
) -> InterpolatedCoefficients:
    """Fit coefficients at the Chebyshev nodes of as many panels as the tolerance asks for.

    Args:
      features: φ, analytic: sigmoid, Gaussian, tanh, erf, Morlet or Fourier.
      mu: the regression distribution, as for ``fit_coefficients``.
      interval: [low, high], of all rewards that can occur.
      discount: above 0; at discount 0 the answer is φ(r) itself.
      ridge: as for ``fit_coefficients``.
      intercept: likewise.
      interpolation_tolerance: what interpolation may add to the regression error.
      tolerance: raise if the bound on the error of all is larger than this.
    """
    low, high = (float(end) for end in interval)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"interval=[{low}, {high}]: pass finite numbers with low < high")
    if not check_discount(discount) > 0:
        raise InputError(f"discount={discount}: at discount 0 the coefficients are φ(r) itself; nothing to interpolate")
    panels, k, error = _choose_nodes(features, high - low, interpolation_tolerance)
    check_fits(
        f"coefficients at {panels * k:,} nodes × {features.num_features}² features",
        2.0 * 8 * panels * k * features.num_features**2,
        "use a larger interpolation_tolerance, fewer features or a narrower interval",
    )
    x = np.cos(np.pi * (np.arange(k) + 0.5) / k)
    centres = low + (np.arange(panels) + 0.5) * (high - low) / panels
    nodes = (centres[:, None] + x * (high - low) / (2 * panels)).ravel()
    fits = CoefficientFitter(features, mu, ridge=ridge, intercept=intercept).fit(
        *((as_reward(node), discount) for node in nodes)
    )
    m = features.num_features
    worst = max(fit.report.max_error if fit.report else 0.0 for fit in fits)
    bound = error + lebesgue_constant(k) * worst
    if tolerance is not None and not bound <= tolerance:
        raise ToleranceError(
            f"the bound {bound:.3g} on the error over rewards in [{low:g}, {high:g}] exceeds tolerance={tolerance:g}:"
            " use more features, a smaller slope, or a smaller ridge"
        )
    return InterpolatedCoefficients(
        features,
        np.stack([fit.matrix for fit in fits]).reshape(panels, k, m, m),
        np.stack([fit.offset for fit in fits]).reshape(panels, k, m),
        low,
        high,
        discount,
        error,
        bound,
    )


def lebesgue_constant(num_nodes: int) -> float:
    """A bound on that of Chebyshev nodes: how much interpolation can magnify errors at the nodes."""
    return float(2 / np.pi * np.log(num_nodes) + 1)


def _choose_nodes(features: FeatureMap, width: float, tolerance: float) -> tuple[int, int, float]:
    """Panels, nodes in each, and the error bound: the fewest panels for which a few nodes do."""
    panels = 1
    while True:
        for k in range(2, MAX_NODES + 1):
            error = interpolation_bound(features, width / (2 * panels), k)
            if error <= tolerance:
                return panels, k, error
        if panels >= MAX_PANELS:
            raise InputError(
                f"features: {type(features).__name__} features with this slope cannot be interpolated in the reward to"
                f" {tolerance:g}; they must be smooth and bounded (sigmoid, Gaussian, tanh, erf, Morlet, Fourier). Use"
                " JustInTimeCoefficients, or a larger interpolation_tolerance"
            )
        panels *= 2


def interpolation_bound(features: FeatureMap, half_width: float, num_nodes: int) -> float:
    """4Mρ^(1−k)/(ρ − 1), the least over ellipses: M bounds φ on one whose axes sum to ρ half-widths."""
    rho = np.geomspace(1.02, 1e3, 100)
    with np.errstate(over="ignore"):
        size = np.array([features.strip_bound(half_width * (r - 1 / r) / 2) for r in rho])
        return float(np.min(4 * size * rho ** (1 - num_nodes) / (rho - 1)))
