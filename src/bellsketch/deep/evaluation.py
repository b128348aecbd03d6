"""How well a network plays: the returns of whole episodes, acting (almost) greedily."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bellsketch.core.arrays import Array
from bellsketch.deep.acting import choose_actions
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.environments.step import Step
from bellsketch.deep.environments.vector import VectorEnvironments

MAX_STEPS = 27_000
"""Episodes are cut off here, unless an environment on the host says itself that they may be longer."""


class Episodes(eqx.Module):
    """Several episodes."""

    returns: Float[Array, "*s e"]
    """Not discounted; of episodes that did not finish, what they had collected."""
    lengths: Int[Array, "*s e"]
    finished: Bool[Array, "*s e"]

    def after(self, step: Step) -> "Episodes":
        """With one more step of every environment."""
        playing = ~self.finished
        return Episodes(
            self.returns + playing * step.reward, self.lengths + playing, self.finished | (playing & step.ended)
        )


def play(
    key: jax.Array, agent: Agent, network: Any, environment: NativeEnvironment, num_episodes: int, epsilon: float
) -> Episodes:
    """An episode in each of ``num_episodes`` environments. Jittable."""
    key, key_reset = jax.random.split(key)
    environments, step = jax.vmap(environment.reset)(jax.random.split(key_reset, num_episodes))
    none = jnp.zeros(num_episodes)
    episodes = Episodes(none, none.astype(jnp.int32), none > 0)

    def goes_on(carry: Any) -> jax.Array:
        *_, count, episodes = carry
        return (count < MAX_STEPS) & ~episodes.finished.all()

    def turn(carry: Any) -> Any:
        key, environments, step, count, episodes = carry
        key, key_action, key_step = jax.random.split(key, 3)
        action = choose_actions(key_action, agent, network, step.observation, epsilon)
        keys = jax.random.split(key_step, num_episodes)
        environments, step = jax.vmap(environment.step)(keys, environments, step, action)
        return key, environments, step, count + 1, episodes.after(step)

    return jax.lax.while_loop(goes_on, turn, (key, environments, step, 0, episodes))[-1]


def play_frames(
    key: jax.Array,
    choose: Any,
    network: Any,
    environments: VectorEnvironments,
    seed: int,
    epsilon: float,
    num_steps: int,
) -> Episodes:
    """All episodes that end within ``num_steps`` steps of each environment on the host.

    The steps must be more than an episode can have, or long episodes would count less often than short ones.
    """
    step, seen, none = environments.reset(seed), None, np.zeros(environments.num_environments)
    returns, lengths, ended = none, none.astype(int), []
    for _ in range(num_steps):
        key, actions, seen = choose(key, network, seen, step, epsilon)
        step = environments.step(np.asarray(actions))
        returns, lengths = (np.where(step.first, 0, total) for total in (returns, lengths))
        returns, lengths = returns + step.reward, lengths + ~step.first
        ended += list(zip(returns[step.ended], lengths[step.ended], strict=True))
    both = np.array(ended, float).reshape(-1, 2)
    return Episodes(both[:, 0], both[:, 1].astype(int), np.ones(len(both), bool))


def play_host(
    key: jax.Array, choose: Any, network: Any, environments: VectorEnvironments, seed: int, epsilon: float
) -> Episodes:
    """An episode in each environment on the host.

    ``choose(key, network, seen_before, step, epsilon)`` gives the next key, actions, and what is seen.
    """
    step, seen, none = environments.reset(seed), None, np.zeros(environments.num_environments)
    episodes = Episodes(none, none.astype(int), none > 0)
    while not episodes.finished.all() and episodes.lengths.max() < max(MAX_STEPS, environments.max_episode_steps or 0):
        key, actions, seen = choose(key, network, seen, step, epsilon)
        step = environments.step(np.asarray(actions))
        episodes = episodes.after(step)
    return episodes
