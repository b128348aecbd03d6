"""DQN (Mnih et al., 2015): the mean of the return, with Huber's loss."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float

from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import InputError
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.networks import HeadedTorso
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class DQN(Agent):
    """Q(x, a) ≈ r + γ max_a' Q̄(x', a')."""

    huber: float = 1.0
    """The error beyond which the loss is linear. Published: 1, for rewards clipped to [−1, 1]."""

    def __post_init__(self) -> None:
        if not self.huber > 0:
            raise InputError(f"huber={self.huber}: must be positive")

    @property
    def summary(self) -> str:
        return "means of returns"

    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        return HeadedTorso(key, observation_shape, num_actions, 1, self.torso)

    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        return network(observation)[:, 0]

    def distribution(self, key: jax.Array, network: Any, observation: Any) -> AtomicDistribution:
        return dirac(self.action_values(key, network, observation))

    def goal(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, ""]:
        next_action = self.next_action(key, network, target, transition)
        following = target(transition.next_observation)[next_action, 0]
        return transition.reward + transition.discount * following

    def error(self, key: jax.Array, network: Any, transition: Transition, goal: Float[Array, ""]) -> Float[Array, ""]:
        return optax.losses.huber_loss(network(transition.observation)[transition.action, 0], goal, delta=self.huber)
