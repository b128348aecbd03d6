"""C51 (Bellemare et al., 2017): probabilities of fixed atoms, with the cross-entropy to the projected target."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellsketch.core.backups import PRECISE
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.projections import categorical_projection
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.networks import HeadedTorso
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class C51(Agent):
    """``num_atoms`` atoms from ``low`` to ``high``."""

    low: float
    high: float
    num_atoms: int = 51
    criterion: Criterion = MEAN

    def __post_init__(self) -> None:
        if not (self.num_atoms >= 2 and self.low < self.high):
            raise InputError(
                f"{self.num_atoms} atoms on [{self.low}, {self.high}]: at least 2 on an interval are needed"
            )
        self.criterion(self.support)  # says so if it is too large for single precision

    @property
    def support(self) -> Float[np.ndarray, " n"]:
        """The atoms."""
        return np.linspace(self.low, self.high, self.num_atoms).astype(np.float32)

    @property
    def summary(self) -> str:
        return f"probabilities of {self.num_atoms} atoms on [{self.low:g}, {self.high:g}]"

    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        return HeadedTorso(key, observation_shape, num_actions, self.num_atoms, self.torso)

    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        probabilities = jax.nn.softmax(network(observation), axis=-1)
        values = jnp.matmul(probabilities, jnp.asarray(self.criterion(self.support)), precision=PRECISE)
        return jnp.max(values, axis=-1)

    def distribution(self, key: jax.Array, network: Any, observation: Any) -> AtomicDistribution:
        return AtomicDistribution(jnp.asarray(self.support), jax.nn.softmax(network(observation), axis=-1))

    def goal(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, " n"]:
        next_action = self.next_action(key, network, target, transition)
        probabilities = jax.nn.softmax(target(transition.next_observation)[next_action])
        moved = transition.reward + transition.discount * self.support
        return categorical_projection(AtomicDistribution(moved, probabilities), self.support).probabilities

    def error(self, key: jax.Array, network: Any, transition: Transition, goal: Float[Array, " n"]) -> Float[Array, ""]:
        logits = network(transition.observation)[transition.action]
        return -jnp.sum(goal * jax.nn.log_softmax(logits))
