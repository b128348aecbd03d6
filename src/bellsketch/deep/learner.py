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
        device: Any = jnp.zeros(()).device
        self._at_once = device.platform != "cpu"  # goals of several updates: docs/performance.md
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
        """A step of the optimiser on the mean loss of each batch in turn, of which no part with weight 0 counts.

        The target network is the same for all of them, and copied afterwards if it is time to.
        """
        parameters, rest = eqx.partition(state.network, eqx.is_inexact_array)
        keys_goal, keys_error = _keys(keys, weights.shape[1])
        goals = None
        if not self.agent.double:  # then they do not change from update to update
            goals = self._all_goals(keys_goal, state, batches)

        def mean_loss(parameters: Any, given: Any) -> jax.Array:
            key_goal, key_error, batch, goals, weights, total = given
            network = eqx.combine(parameters, rest)
            goals = self._goals(key_goal, network, state.target, batch) if goals is None else goals
            goals = jax.lax.stop_gradient(goals)
            losses = jax.vmap(self.agent.error, (0, None, 0, 0))(key_error, network, batch, goals)
            return jnp.sum(jnp.where(weights > 0, losses, 0.0) * weights) / jnp.maximum(total, 1.0)

        def step(now: Any, given: Any) -> tuple[Any, LearnerInfo]:
            parameters, optimiser, updates = now
            loss, gradient = jax.value_and_grad(mean_loss)(parameters, given)
            # With nothing to learn from yet, what the loss is of may be anything, and its gradient not a number.
            gradient = jax.tree.map(lambda g: jnp.where(given[-1] > 0, g, 0.0), gradient)
            # Clipped gradients that are finite lead to parameters that are. The norm is needed for clipping anyway, and
            # known before parameters change, so that choosing between them and the old ones takes no pass of its own.
            finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
            changes, optimiser = self._optimiser.update(gradient, optimiser, parameters)
            parameters = optax.apply_updates(parameters, changes)
            return _choose(finite, (parameters, optimiser, updates + 1), now), LearnerInfo(loss, finite)

        # Weights are summed here, not in each step, where devices that share a batch would have to agree on it.
        start = (parameters, state.optimiser, state.updates)
        (parameters, optimiser, updates), info = jax.lax.scan(
            step, start, (keys_goal, keys_error, batches, goals, weights, weights.sum(axis=1))
        )
        network, period = eqx.combine(parameters, rest), self.config.target_period
        target = _choose(updates // period > state.updates // period, network, state.target)
        return LearnerState(network, target, optimiser, updates), info

    def _all_goals(self, keys: Key[Array, "u b"], state: LearnerState, batches: Transition) -> Any:
        """Of all updates at once; on a CPU, where large arrays in between cost more than that saves, one by one."""

        def of_one(given: Any) -> Any:
            keys, batch = given
            return self._goals(keys, state.network, state.target, batch)

        given = (keys, batches)
        return jax.vmap(of_one)(given) if self._at_once else jax.lax.map(of_one, given)

    def _goals(self, keys: Key[Array, " b"], network: Any, target: Any, batch: Transition) -> Any:
        return jax.vmap(self.agent.goal, (0, None, None, 0))(keys, network, target, batch)


def _keys(keys: Key[Array, " u"], batch_size: int) -> tuple[Key[Array, "u b"], Key[Array, "u b"]]:
    """Of goals and of errors, for each transition."""
    each = jax.vmap(lambda key: jax.random.split(key, (2, batch_size)))(keys)
    return each[:, 0], each[:, 1]


def _choose(condition: Bool[Array, ""], if_true: Any, if_false: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b) if eqx.is_array(a) else a, if_true, if_false)
