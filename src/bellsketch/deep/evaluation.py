"""How well a network plays: the mean return of whole episodes, acting (almost) greedily."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellsketch.deep.agents.base import Agent
from bellsketch.deep.environments.native import NativeEnvironment

PAPER_EPSILON = 0.001


class Episodes(eqx.Module):
    """The first episode of each of several environments."""

    returns: Float[Array, " e"]
    """Not discounted; of episodes that did not finish, what they had collected."""
    finished: Array
    lengths: Array


def play(
    key: jax.Array,
    agent: Agent,
    network: Any,
    environment: NativeEnvironment,
    num_episodes: int,
    max_steps: int,
    epsilon: float = PAPER_EPSILON,
) -> Episodes:
    """One episode in each of ``num_episodes`` environments, cut off after ``max_steps`` steps. Jittable."""
    key_reset, key_steps = jax.random.split(key)
    environments = jax.vmap(environment.reset)(jax.random.split(key_reset, num_episodes))
    none = jnp.zeros(num_episodes)
    start = (environments, Episodes(none, none > 0, none.astype(jnp.int32)))

    def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        environments, so_far = carry
        key_values, key_random, key_choice, key_step = jax.random.split(key, 4)
        values = jax.vmap(agent.action_values, in_axes=(0, None, 0))(
            jax.random.split(key_values, num_episodes), network, environments.step.observation
        )
        random = jax.random.randint(key_random, (num_episodes,), 0, environment.num_actions)
        explores = jax.random.uniform(key_choice, (num_episodes,)) < epsilon
        action = jnp.where(explores, random, jnp.argmax(values, axis=-1))
        following = jax.vmap(environment.step)(jax.random.split(key_step, num_episodes), environments, action)
        playing = ~so_far.finished
        episodes = Episodes(
            so_far.returns + jnp.where(playing, following.step.reward, 0.0),
            so_far.finished | following.step.ended,
            so_far.lengths + playing,
        )
        return (following, episodes), None

    (_, episodes), _ = jax.lax.scan(step, start, jax.random.split(key_steps, max_steps))
    return episodes
