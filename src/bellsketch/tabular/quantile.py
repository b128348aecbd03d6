"""Quantile DP and TD: m equally weighted particles at the quantiles of levels τ_i = (2i−1)/2m.

Dabney et al. (2018); Rowland et al. (2023).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.projections import midpoint_levels, quantile_projection
from bellsketch.core.pytree import pytree, static
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.backup import DistributionalBackup, distributional_backup
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous


def equally_weighted(particles: Float[Array, "*b m"]) -> AtomicDistribution:
    """Particles as a distribution, on the host."""
    locations = np.asarray(particles)
    return AtomicDistribution(locations, np.full(locations.shape, 1 / locations.shape[-1]))


@pytree
class QuantileDP(Algorithm):
    """θ_i(x) ← the τ_i-quantile of R + γθ_J(X'), J uniform; from θ = 0. Its state is θ, of shape [s, m]."""

    backup: DistributionalBackup
    num: int = static()

    def init(self, key: jax.Array) -> Float[jax.Array, "s m"]:
        return jnp.zeros((self.backup.probability.shape[0], self.num))

    def step(self, key: jax.Array, state: Float[Array, "s m"]) -> tuple[Float[jax.Array, "s m"], Info]:
        updated = quantile_projection(self.backup.of_particles(jnp.asarray(state)), self.num).locations
        return updated, Info(jnp.max(jnp.abs(updated - state)))

    def decode(self, state: Float[Array, "s m"]) -> AtomicDistribution:
        return equally_weighted(state)


def quantile_dp(mrp: MRP, num: int) -> QuantileDP:
    """Quantile DP with ``num`` particles per state."""
    midpoint_levels(num)
    return QuantileDP(distributional_backup(mrp), num)


@pytree
class QuantileTD(TemporalDifference):
    """θ_i(x) ← θ_i(x) + (α/m) Σ_j [τ_i − 1{r + γθ_j(x') < θ_i(x)}]."""

    levels: Float[Array, " m"]
    discount: Any

    def initial_values(self) -> Float[jax.Array, "s m"]:
        return jnp.zeros((self.num_states, self.levels.shape[0]))

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b m"]:
        targets = particle_targets(transition, self.discount)
        below = jnp.mean(targets[:, None, :] < transition.values[:, :, None], axis=-1)
        return transition.values + step_size * (jnp.asarray(self.levels) - below)

    def decode(self, state: TDState) -> AtomicDistribution:
        return equally_weighted(state.values)


def quantile_td(mrp: MRP, num: int, step_size: Any, *, mode: str = "synchronous") -> QuantileTD:
    """Quantile TD on transitions drawn from a model."""
    sampler = transition_sampler(mrp.split_rewards())
    return QuantileTD(sampler, as_schedule(step_size), is_synchronous(mode), midpoint_levels(num), mrp.discount)


def particle_targets(transition: Transition, discount: Any) -> Float[jax.Array, "b m"]:
    """r + γ θ(x'), which is r for every particle where the episode ends."""
    return transition.reward[:, None] + discount * transition.goes_on[:, None] * transition.following
