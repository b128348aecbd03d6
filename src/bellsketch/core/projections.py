"""Projections onto fixed supports (categorical) and fixed weights (quantile).

NumPy in, NumPy out; JAX in, JAX out.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.checks import increasing
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError

_GAUSS_LEGENDRE = np.polynomial.legendre.leggauss(8)


def categorical_projection(distribution: AtomicDistribution, support: Float[Array, " n"]) -> AtomicDistribution:
    """The ℓ₂ projection onto distributions supported on the sorted points ``support``.

    Each atom's mass is shared linearly between the two neighbouring support points; mass beyond the ends goes to the
    ends. The mean is preserved where no mass is beyond the ends.
    """
    xp = namespace(distribution.locations, support)
    support = xp.asarray(check_support(support))
    z = xp.clip(distribution.locations, support[0], support[-1])
    probabilities = _share_mass(xp, z, distribution.probabilities, support)
    return AtomicDistribution(xp.broadcast_to(support, probabilities.shape), probabilities)


def _share_mass(xp: Any, z: Any, p: Any, support: Any) -> Any:
    if support.shape[0] == 1:
        return p.sum(axis=-1, keepdims=True)
    upper = xp.clip(xp.searchsorted(support, z, side="right"), 1, support.shape[0] - 1)
    share = (z - support[upper - 1]) / (support[upper] - support[upper - 1])
    index = xp.concatenate([upper - 1, upper], axis=-1)
    mass = xp.concatenate([p * (1 - share), p * share], axis=-1)
    if xp is np:
        return _scatter_numpy(index, mass, support.shape[0])
    flat_index, flat_mass = index.reshape(-1, index.shape[-1]), mass.reshape(-1, mass.shape[-1])
    scatter = jax.vmap(lambda i, w: xp.zeros(support.shape[0], mass.dtype).at[i].add(w))
    return scatter(flat_index, flat_mass).reshape(*index.shape[:-1], support.shape[0])


def _scatter_numpy(index: np.ndarray, mass: np.ndarray, num: int) -> np.ndarray:
    rows = int(np.prod(index.shape[:-1]))
    offset = np.arange(rows)[:, None] * num
    flat = np.bincount((index.reshape(rows, -1) + offset).ravel(), weights=mass.ravel(), minlength=rows * num)
    return flat.reshape(*index.shape[:-1], num)


def project_cdf(cdf: Callable[[np.ndarray], np.ndarray], support: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The categorical projection of any distribution, from its CDF: the probabilities of the support points.

    The mass that a point gets is the difference of the mean CDF over the cells on either side.
    """
    x, w = _GAUSS_LEGENDRE
    cells = cdf(support[:-1, None] + np.diff(support)[:, None] * (x + 1) / 2) @ (w / 2)
    return np.diff(cells, prepend=0.0, append=1.0)


def quantile_projection(distribution: AtomicDistribution, num: int) -> AtomicDistribution:
    """The W₁ projection onto ``num`` equally weighted atoms: the quantiles at the midpoints (2i−1)/2m."""
    xp = namespace(distribution.locations)
    levels = midpoint_levels(num)
    locations = distribution.quantile(levels if xp is np else xp.asarray(levels))
    return AtomicDistribution(locations, xp.full(locations.shape, 1 / num))


def midpoint_levels(num: int) -> Float[np.ndarray, " m"]:
    """τ_i = (2i−1)/2m, the paper's levels of quantiles and expectiles."""
    if num < 1:
        raise InputError(f"num={num}: at least one particle, quantile or expectile is needed")
    return (2 * np.arange(num) + 1) / (2 * num)


def check_support(support: Any) -> Any:
    """Raise unless ``support`` is a sorted vector without duplicates (checked only for concrete values)."""
    if isinstance(support, jax.core.Tracer):
        return support
    if not isinstance(support, jax.Array):
        support = np.asarray(support, dtype=np.float64)
    increasing("support", support, at_least=1)
    return support
