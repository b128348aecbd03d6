"""IQN (Dabney et al., 2018b): the quantile function itself, at levels that are drawn anew each time."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.projections import midpoint_levels
from bellsketch.core.risk import MEAN, Criterion, CVaR
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.agents.qr_dqn import equally_likely, mean_criterion, quantile_huber
from bellsketch.deep.networks import Torso, TorsoOptions, linear
from bellsketch.deep.transition import Transition

SHOWN_LEVELS = midpoint_levels(64)
"""Of a predicted distribution to look at, which had better not change from one look to the next."""


class QuantileNetwork(eqx.Module):
    """Quantiles of each action at given levels: an embedding of cosines multiplies what goes into the last dense layer.

    That layer and the head are thus applied once for each level, as published; for images it is the only dense one, and
    the product is with the output of the convolutions.
    """

    torso: Torso
    embedding: eqx.nn.Linear
    head: eqx.nn.Linear
    num_cosines: int = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        observation_shape: Sequence[int],
        num_actions: int,
        num_cosines: int,
        options: TorsoOptions,
    ):
        keys = jax.random.split(key, 3)
        self.torso = Torso(keys[0], observation_shape, options)
        self.embedding = eqx.nn.Linear(num_cosines, self.torso.width_before_last, key=keys[1])
        self.head = eqx.nn.Linear(self.torso.width, num_actions, key=keys[2])
        self.num_cosines = num_cosines

    def __call__(self, observation: Any, levels: Float[Array, " n"]) -> Float[Array, "a n"]:
        frequencies = jnp.arange(1, self.num_cosines + 1)
        cosines = jnp.cos(jnp.pi * frequencies * levels[:, None])
        embedded = jax.nn.relu(linear(self.embedding, cosines))
        return linear(self.head, self.torso.last(self.torso.before_last(observation) * embedded)).T


@dataclasses.dataclass(frozen=True)
class IQN(Agent):
    """N = N' = 64 levels in the loss and K = 32 to act by, as published.

    For a CVaR those to act by are all drawn below its own level, of which the mean has no bias.
    """

    num_levels: int = 64
    num_target_levels: int = 64
    num_acting_levels: int = 32
    num_cosines: int = 64
    criterion: Criterion = MEAN

    def __post_init__(self) -> None:
        for name in ("num_levels", "num_target_levels", "num_acting_levels", "num_cosines"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}: at least 1 is needed")

    @property
    def summary(self) -> str:
        return f"quantiles at {self.num_levels} random levels"

    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        return QuantileNetwork(key, observation_shape, num_actions, self.num_cosines, self.torso)

    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        levels = jax.random.uniform(key, (self.num_acting_levels,))
        if isinstance(self.criterion, CVaR):
            return network(observation, self.criterion.level * levels).mean(axis=-1)
        return mean_criterion(self.criterion, network(observation, levels))

    def distribution(self, key: jax.Array, network: Any, observation: Any) -> AtomicDistribution:
        return equally_likely(network(observation, jnp.asarray(SHOWN_LEVELS, jnp.float32)))

    def goal(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, " k"]:
        key_action, key_levels = jax.random.split(key)
        next_action = self.next_action(key_action, network, target, transition)
        levels = jax.random.uniform(key_levels, (self.num_target_levels,))
        return transition.reward + transition.discount * target(transition.next_observation, levels)[next_action]

    def error(self, key: jax.Array, network: Any, transition: Transition, goal: Float[Array, " k"]) -> Float[Array, ""]:
        levels = jax.random.uniform(key, (self.num_levels,))
        quantiles = network(transition.observation, levels)[transition.action]
        return quantile_huber(quantiles, levels, goal)
