"""The Dirac baseline: classical value prediction, read as a distribution that is certain of its mean."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.pytree import pytree
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator, affine_operator
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous


@pytree
class DiracDP(Algorithm):
    """V ← E[R + γV(X')]. Its state is V, of shape [s, 1]."""

    operator: AffineOperator

    def init(self, key: jax.Array) -> Float[jax.Array, "s 1"]:
        return jnp.zeros(self.operator.offset.shape)

    def step(self, key: jax.Array, state: Float[Array, "s 1"]) -> tuple[Float[jax.Array, "s 1"], Info]:
        updated = self.operator(jnp.asarray(state))
        return updated, Info(jnp.max(jnp.abs(updated - state)))

    def decode(self, state: Float[Array, "s 1"]) -> AtomicDistribution:
        return dirac(np.asarray(state)[:, 0])


def dirac_dp(mrp: MRP) -> DiracDP:
    """Value iteration for the given policy."""
    means = np.array([[r.mean] for r in mrp.rewards])
    matrices = np.full((len(mrp.rewards), 1, 1), mrp.discount)
    return DiracDP(affine_operator(mrp, matrices, means, means).on_device())


@pytree
class DiracTD(TemporalDifference):
    """TD(0): V(x) ← V(x) + α (r + γV(x') − V(x))."""

    discount: Any

    def initial_values(self) -> Float[jax.Array, "s 1"]:
        return jnp.zeros((self.num_states, 1))

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b 1"]:
        target = transition.reward + self.discount * transition.goes_on * transition.following[:, 0]
        return transition.values + step_size * (target[:, None] - transition.values)

    def decode(self, state: TDState) -> AtomicDistribution:
        return dirac(np.asarray(state.values)[:, 0])


def dirac_td(mrp: MRP, step_size: Any, *, mode: str = "synchronous") -> DiracTD:
    """TD(0) on transitions drawn from a model."""
    sampler = transition_sampler(mrp.split_rewards())
    return DiracTD(sampler, as_schedule(step_size), is_synchronous(mode), mrp.discount)
