"""The one shape of an agent."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.deep.networks import TorsoOptions
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class Agent(ABC):
    """A network, the values it acts by, and its loss: pure functions of one observation or transition.

    The loss is in two parts, since the first changes only with the target network: that of many updates is computed at
    once.
    """

    double: bool = dataclasses.field(default=False, kw_only=True)
    """Whether the online network chooses the action that the target network evaluates."""
    num_steps: int = dataclasses.field(default=1, kw_only=True)
    """n of n-step returns, for whoever samples the transitions."""
    torso: TorsoOptions = dataclasses.field(default=TorsoOptions(), kw_only=True)
    """What the network is like, up to its last layer."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What it predicts, in a few words, and how exact what was computed beforehand is."""

    @abstractmethod
    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        """A network with random parameters."""

    @abstractmethod
    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        """What to be greedy in."""

    @abstractmethod
    def distribution(self, key: jax.Array, network: Any, observation: Any) -> AtomicDistribution:
        """The predicted return distribution of each action, [a, n]. To look at; a sketch's is computed on the host."""

    @abstractmethod
    def goal(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Any:
        """What is to be predicted before a transition, given the online network, if ``double``, and the target one."""

    @abstractmethod
    def error(self, key: jax.Array, network: Any, transition: Transition, goal: Any) -> Float[Array, ""]:
        """How far off the prediction is."""

    @final
    def next_action(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Any:
        """The greedy action after a transition."""
        chooser = network if self.double else target
        return jnp.argmax(self.action_values(key, chooser, transition.next_observation))
