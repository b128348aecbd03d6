"""AtomicDistribution: finitely many atoms on the real line, for NumPy and JAX arrays alike.

Functions here follow their input: NumPy arrays are computed with NumPy (in float64, on the host), JAX arrays with
JAX (so they work under jit and vmap).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from bellsketch.core.arrays import Array, as_floats, namespace
from bellsketch.core.errors import InputError
from bellsketch.core.pytree import freeze, pytree

MASS_TOLERANCE = 1e-6
"""How far from 1 the probabilities of an atomic distribution may sum; float32 sums of many atoms need this much."""


@pytree
class AtomicDistribution:
    """Σ_i p_i δ_{z_i}, or a batch of such distributions along leading axes. Atoms need not be sorted."""

    locations: Float[Array, "*batch n"]
    probabilities: Float[Array, "*batch n"]

    def __post_init__(self) -> None:
        xp = namespace(self.locations, self.probabilities)
        z, p = as_floats(xp, self.locations), as_floats(xp, self.probabilities)
        if z.shape[-1:] != p.shape[-1:] or z.ndim == 0:
            raise InputError(
                f"locations of shape {z.shape}, probabilities of shape {p.shape}: give one of each for every atom"
            )
        z, p = xp.broadcast_arrays(z, p)
        freeze(self, locations=z, probabilities=p)
        if xp is np:
            _check_atoms(z, p)

    def __getitem__(self, index: Any) -> "AtomicDistribution":
        """Select from the batch."""
        if self.locations.ndim == 1:
            raise InputError("this is a single distribution, not a batch: there is nothing to index")
        return AtomicDistribution(self.locations[index], self.probabilities[index])

    @property
    def mean(self) -> Float[Array, "*batch"]:
        """E[Z]."""
        return self.expectation(lambda z: z)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        """E[(Z − E Z)²]."""
        deviation = self.locations - self.mean[..., None]
        return namespace(deviation).sum(self.probabilities * deviation**2, axis=-1)

    @property
    def std(self) -> Float[Array, "*batch"]:
        """The square root of the variance."""
        return self.variance**0.5

    def expectation(self, f: Callable[[Array], Any]) -> Float[Array, "*batch"]:
        """E[f(Z)] for a scalar function of the location."""
        xp = namespace(self.locations)
        return xp.sum(self.probabilities * f(self.locations), axis=-1)

    def sorted(self) -> "AtomicDistribution":
        """The same distribution with its atoms in increasing order."""
        xp = namespace(self.locations)
        order = xp.argsort(self.locations, axis=-1)
        return AtomicDistribution(
            xp.take_along_axis(self.locations, order, axis=-1),
            xp.take_along_axis(self.probabilities, order, axis=-1),
        )

    def cdf(self, x: Any) -> Float[Array, "..."]:
        """P(Z ≤ x), with the shape of the batch followed by that of x."""
        xp = namespace(self.locations, x)
        points = as_floats(xp, x)
        z = self.locations.reshape(self.locations.shape[:-1] + (1,) * points.ndim + self.locations.shape[-1:])
        p = self.probabilities.reshape(z.shape)
        return xp.sum(xp.where(z <= points[..., None], p, 0), axis=-1)

    def quantile(self, level: Any) -> Float[Array, "..."]:
        """The smallest atom z with P(Z ≤ z) ≥ level, with the shape of the batch followed by that of level."""
        xp = namespace(self.locations, level)
        levels = as_floats(xp, level)
        _check_levels("level", levels, closed=True)
        order = self.sorted()
        cumulative = xp.cumsum(order.probabilities, axis=-1)
        # A level that equals an atom's exact cumulative probability must find that atom in spite of rounding, and
        # neither level 0 nor level 1 may find an atom without mass.
        info = xp.finfo(cumulative.dtype)
        slack = info.eps * (max(8, cumulative.shape[-1]) if xp is np else 8)  # NumPy adds one by one, JAX in a tree
        target = xp.clip(levels.reshape(-1) - slack, info.tiny, cumulative[..., -1:])
        index = xp.sum(cumulative[..., None, :] < target[..., :, None], axis=-1)
        found = xp.take_along_axis(order.locations, index, axis=-1)
        return found.reshape(self.locations.shape[:-1] + levels.shape)

    def cvar(self, level: float) -> Float[Array, "*batch"]:
        """Conditional value at risk: the mean of the worst (smallest) ``level`` share of outcomes, 0 < level ≤ 1."""
        xp = namespace(self.locations)
        _check_levels("level", np.asarray(level), closed=False)
        order = self.sorted()
        before = xp.cumsum(order.probabilities, axis=-1) - order.probabilities
        share = xp.clip(level - before, 0, order.probabilities)
        return xp.sum(share * order.locations, axis=-1) / xp.sum(share, axis=-1)

    def sample(self, key: jax.Array, shape: tuple[int, ...] = ()) -> Float[jax.Array, "..."]:
        """Draws of the given shape for each distribution of the batch: batch axes first."""
        logits = jnp.log(jnp.asarray(self.probabilities))
        batch = self.locations.shape[:-1]
        index = jax.random.categorical(key, logits, axis=-1, shape=shape + batch)
        index = jnp.moveaxis(index.reshape(-1, *batch), 0, -1)
        return jnp.take_along_axis(jnp.asarray(self.locations), index, axis=-1).reshape(batch + shape)

    def push_forward(self, f: Callable[[Array], Any]) -> "AtomicDistribution":
        """The distribution of f(Z). ``lambda g: r + gamma * g`` is one Bellman step of a deterministic transition."""
        return AtomicDistribution(f(self.locations), self.probabilities)

    def mixture(self, weights: Float[Array, "k b"]) -> "AtomicDistribution":
        """For a batch of b distributions: the k mixtures Σ_b weights[k, b] · self[b], each over all b·n atoms."""
        xp = namespace(self.locations, weights)
        if self.locations.ndim != 2:
            raise InputError(f"mixture needs a batch with one axis, got locations of shape {self.locations.shape}")
        num = weights.shape[0]
        locations = xp.broadcast_to(self.locations.reshape(-1), (num, self.locations.size))
        return AtomicDistribution(locations, (weights[:, :, None] * self.probabilities).reshape(num, -1))


def dirac(location: Any) -> AtomicDistribution:
    """δ at each location, one distribution per entry."""
    xp = namespace(location)
    points = as_floats(xp, location)[..., None]
    return AtomicDistribution(points, xp.ones_like(points))


def _check_atoms(z: np.ndarray, p: np.ndarray) -> None:
    if not np.all(np.isfinite(z)):
        raise InputError("locations: all atoms must be finite numbers")
    if not np.all(p >= 0):  # also catches NaN
        raise InputError(f"probabilities must not be negative or NaN, the smallest is {p.min()}")
    total = p.sum(axis=-1)
    if np.any(bad := np.abs(total - 1) > MASS_TOLERANCE):
        raise InputError(f"probabilities must sum to 1, but sum to {total[bad].flat[0]}: divide by the sum")


def _check_levels(name: str, levels: Any, *, closed: bool) -> None:
    if isinstance(levels, jax.core.Tracer):
        return
    values: Bool[np.ndarray, ...] = np.asarray(levels)
    if np.any(~(values <= 1)) or np.any(values < 0) or (not closed and np.any(values <= 0)):
        raise InputError(f"{name}={levels}: must lie in {'[' if closed else '('}0, 1]")
