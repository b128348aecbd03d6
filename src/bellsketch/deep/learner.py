"""The learner: online and target network, an optimiser, and updates."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from bellsketch.deep.agents.base import Agent
from bellsketch.deep.config import LearnerConfig
from bellsketch.deep.transition import Transition


class LearnerState(eqx.Module):
    """What the next update needs."""

    network: Any
    target: Any
    optimiser: Any
    updates: Int[Array, ""]


class LearnerInfo(eqx.Module):
    """What a person wants to see of updates."""

    loss: Float[Array, "*u"]
    finite: Bool[Array, "*u"]
    """False: the loss or a parameter would not have been finite, and nothing was changed."""


class Learner:
    """Updates the network of an agent."""

    def __init__(self, agent: Agent, config: LearnerConfig, num_updates: int):
        self.agent, self.config = agent, config
        final = config.learning_rate if config.learning_rate_final is None else config.learning_rate_final
        rate = optax.schedules.linear_schedule(config.learning_rate, final, num_updates)
        self._optimiser = optax.chain(
            optax.clip_by_global_norm(config.max_gradient_norm),
            optax.adam(rate, eps=config.adam_epsilon),
        )

    def init(self, network: Any) -> LearnerState:
        """Before the first update."""
        optimiser = self._optimiser.init(eqx.filter(network, eqx.is_inexact_array))
        return LearnerState(network, network, optimiser, jnp.zeros((), jnp.int32))

    def update(
        self, keys: Key[Array, " u"], state: LearnerState, batches: Transition, weights: Float[Array, "u b"]
    ) -> tuple[LearnerState, LearnerInfo]:
        """A step of the optimiser on the mean loss of each batch in turn, of which no part with weight 0 counts."""
        arrays, rest = eqx.partition(state, eqx.is_array)

        def step(arrays: Any, given: Any) -> tuple[Any, LearnerInfo]:
            updated, info = self._step(eqx.combine(arrays, rest), *given)
            return eqx.filter(updated, eqx.is_array), info

        arrays, info = jax.lax.scan(step, arrays, (keys, batches, weights))
        return eqx.combine(arrays, rest), info

    def _step(
        self, state: LearnerState, key: Array, batch: Transition, weights: Array
    ) -> tuple[LearnerState, LearnerInfo]:
        def mean_loss(network: Any) -> jax.Array:
            keys = jax.random.split(key, weights.shape[0])
            losses = jax.vmap(lambda k, t: self.agent.loss(k, network, state.target, t))(keys, batch)
            return jnp.sum(jnp.where(weights > 0, losses, 0.0) * weights) / jnp.maximum(weights.sum(), 1.0)

        loss, gradient = eqx.filter_value_and_grad(mean_loss)(state.network)
        # With nothing to learn from yet, what the loss is of may be anything, and its gradient not a number.
        gradient = jax.tree.map(lambda g: jnp.where(jnp.any(weights > 0), g, 0.0), gradient)
        parameters, rest = eqx.partition(state.network, eqx.is_inexact_array)
        changes, optimiser = self._optimiser.update(gradient, state.optimiser, parameters)
        network = eqx.combine(optax.apply_updates(parameters, changes), rest)
        # Whatever is wrong with a gradient is wrong with the parameters that follow from it.
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(eqx.filter(network, eqx.is_inexact_array)))
        updates = state.updates + 1
        target = _choose(updates % self.config.target_period == 0, network, state.target)
        updated = LearnerState(network, target, optimiser, updates)
        return _choose(finite, updated, state), LearnerInfo(loss, finite)


def _choose(condition: Bool[Array, ""], if_true: Any, if_false: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b) if eqx.is_array(a) else a, if_true, if_false)
