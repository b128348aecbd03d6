"""Choosing actions."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from bellsketch.core.arrays import Array
from bellsketch.deep.agents.base import Agent


def choose_actions(
    key: jax.Array, agent: Agent, network: Any, observations: Any, epsilon: Float[Array, ""] | float
) -> Int[jax.Array, " e"]:
    """An action for each of several observations: greedy, or random with probability ``epsilon``."""
    key_values, key_random, key_choice = jax.random.split(key, 3)
    num = observations.shape[0]
    keys = jax.random.split(key_values, num)
    values = jax.vmap(agent.action_values, in_axes=(0, None, 0))(keys, network, observations)
    random = jax.random.randint(key_random, (num,), 0, values.shape[-1])
    explores = jax.random.uniform(key_choice, (num,)) < epsilon
    return jnp.where(explores, random, jnp.argmax(values, axis=-1))
