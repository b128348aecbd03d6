"""Imputation inside programs: fast, jittable, and no finer than sketches that a network predicts deserve.

    minimise ‖Σ_i p_i φ(z_i) − u‖² + μ‖p‖²   over the probability simplex

as in :mod:`bellsketch.core.imputation`, by a fixed number of steps of the alternating direction method of multipliers
(Boyd et al., 2011, Sec. 5.2): in turns the best p of mass 1, which is linear in what it starts from, and the nearest
one without negative entries.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellsketch.core.backups import PRECISE
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.features import FeatureMap
from bellsketch.core.pytree import pytree
from bellsketch.core.ranges import ReturnRange

NUM_ATOMS = 51
TIE_BREAK = 1e-2
"""μ, for sketches that are off by about 0.01 in each feature: with a smaller one noise would decide."""
PENALTY = 1.0
"""ρ of the method: how fast it gets to the solution depends on it, and the solution does not."""
RELAXATION = 1.7
"""Of the method, likewise."""
STEPS = 30
"""After which conditional values at risk of sketches that are off by 0.01 are as good as after 100."""


@pytree
class QuickDecoder:
    """Distributions on one support from sketches of one feature map, of which no feature exceeds 1."""

    support: Float[np.ndarray, " n"]
    """z, sorted."""
    from_sketch: Float[np.ndarray, "n m"]
    """The best p of mass 1 is linear in the sketch,"""
    from_last: Float[np.ndarray, "n n"]
    """and in the last one,"""
    constant: Float[np.ndarray, " n"]
    """but for this."""

    def __call__(self, sketch: Float[Array, "*batch m"]) -> AtomicDistribution:
        """The distribution of each sketch."""
        fixed = jnp.matmul(sketch, self.from_sketch.T, precision=PRECISE) + self.constant

        def step(_: Any, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            last, excess = now
            p = fixed + jnp.matmul(last - excess, self.from_last.T, precision=PRECISE)
            p = RELAXATION * p + (1 - RELAXATION) * last + excess
            last = jnp.maximum(p, 0.0)
            return last, p - last

        even = jnp.full(fixed.shape, 1 / self.support.size, fixed.dtype)
        p, _ = jax.lax.fori_loop(0, STEPS, step, (even, jnp.zeros_like(even)))
        return AtomicDistribution(jnp.asarray(self.support, fixed.dtype), p / p.sum(axis=-1, keepdims=True))


def quick_decoder(features: FeatureMap, span: ReturnRange) -> QuickDecoder:
    """Onto an even support."""
    support = span.points(NUM_ATOMS)
    design = features(support)
    inverse = np.linalg.inv(design @ design.T + (TIE_BREAK + PENALTY) * np.eye(NUM_ATOMS))
    constant = inverse.sum(axis=1) / inverse.sum()
    of_mass_0 = inverse - np.outer(constant, inverse.sum(axis=0))
    arrays = (support, of_mass_0 @ design, PENALTY * of_mass_0, constant)
    return QuickDecoder(*(x.astype(np.float32) for x in arrays))
