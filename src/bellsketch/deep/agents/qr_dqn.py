"""QR-DQN (Dabney et al., 2018): equally spaced quantiles, with the quantile Huber loss."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from bellsketch.core.backups import PRECISE
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.projections import midpoint_levels
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.networks import HeadedTorso
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class QRDQN(Agent):
    """Quantiles at the midpoints (2i − 1)/2N."""

    num_quantiles: int = 201
    criterion: Criterion = MEAN

    def __post_init__(self) -> None:
        if self.num_quantiles < 1:
            raise InputError(f"num_quantiles={self.num_quantiles}: at least 1 is needed")

    @property
    def summary(self) -> str:
        return f"{self.num_quantiles} quantiles"

    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        return HeadedTorso(key, observation_shape, num_actions, self.num_quantiles, self.torso)

    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        return mean_criterion(self.criterion, network(observation))

    def distribution(self, key: jax.Array, network: Any, observation: Any) -> AtomicDistribution:
        return equally_likely(network(observation))

    def goal(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, " n"]:
        next_action = self.next_action(key, network, target, transition)
        return transition.reward + transition.discount * target(transition.next_observation)[next_action]

    def error(self, key: jax.Array, network: Any, transition: Transition, goal: Float[Array, " n"]) -> Float[Array, ""]:
        quantiles = network(transition.observation)[transition.action]
        return quantile_huber(quantiles, midpoint_levels(self.num_quantiles), goal)


def quantile_huber(
    quantiles: Float[Array, " n"], levels: Float[Array | np.ndarray, " n"], goals: Float[Array, " k"]
) -> Float[Array, ""]:
    """Σ_i mean_j |τ_i − 1{goal_j < θ_i}| huber(goal_j − θ_i), with the threshold 1 of the authors."""
    error, level = goals[None, :] - quantiles[:, None], jnp.asarray(levels)[:, None]
    weight = jnp.where(jax.lax.stop_gradient(error) < 0, 1 - level, level)
    # The mean as a product: of many transitions and seeds at once XLA's own takes ten times as long on the CPU.
    share = jnp.full(goals.shape, 1 / goals.size)
    return jnp.sum(jnp.matmul(weight * optax.losses.huber_loss(error), share, precision=PRECISE))


def mean_criterion(criterion: Criterion, samples: Float[Array, "a n"]) -> Float[Array, " a"]:
    """A criterion of equally likely returns, for each action."""
    return criterion.of(equally_likely(samples))


def equally_likely(samples: Float[Array, "a n"]) -> AtomicDistribution:
    """Each of n returns with probability 1/n."""
    return AtomicDistribution(samples, jnp.full_like(samples, 1 / samples.shape[-1]))
