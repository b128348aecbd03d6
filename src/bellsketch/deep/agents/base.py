"""The one shape of an agent."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellsketch.deep.networks import HIDDEN, HeadedTorso, Torso
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class Agent(ABC):
    """A network, the values it acts by, and its loss: pure functions of one observation or transition."""

    double: bool = dataclasses.field(default=False, kw_only=True)
    """Whether the online network chooses the action that the target network evaluates."""
    num_steps: int = dataclasses.field(default=1, kw_only=True)
    """n of n-step returns, for whoever samples the transitions."""

    @abstractmethod
    def num_outputs(self) -> int:
        """Numbers that the network predicts for each action."""

    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        """A network with random parameters."""
        key_torso, key_head = jax.random.split(key)
        torso = Torso(key_torso, observation_shape)
        return HeadedTorso(key_head, torso, HIDDEN, num_actions, self.num_outputs())

    @abstractmethod
    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        """What to be greedy in."""

    @abstractmethod
    def loss(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, ""]:
        """Of one transition, given the online and the target network."""

    @final
    def next_action(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Any:
        """The greedy action after a transition."""
        chooser = network if self.double else target
        return jnp.argmax(self.action_values(key, chooser, transition.next_observation))
