"""How well a network plays: the returns of whole episodes, acting (almost) greedily."""

import itertools
from collections.abc import Iterable
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


def episodes_within(steps: Iterable[Step], shape: tuple[int, int], num_steps: int) -> list[Episodes]:
    """All episodes of each seed that end within ``num_steps`` steps of its environments on the host, [s, e].

    The steps must be more than an episode can have, or long episodes would count less often than short ones.
    """
    returns, lengths, ended = np.zeros(shape), np.zeros(shape, int), []
    for step in itertools.islice(steps, num_steps):
        returns, lengths = (np.where(step.first, 0, total) for total in (returns, lengths))
        returns, lengths = returns + step.reward, lengths + ~step.first
        where = np.nonzero(step.ended)
        ended.append(np.stack([where[0], returns[where], lengths[where]]))
    together = np.concatenate(ended, axis=1)
    of_seeds = [together[1:, together[0] == seed] for seed in range(shape[0])]
    return [Episodes(own[0], own[1].astype(int), np.ones(own.shape[1], bool)) for own in of_seeds]


def whole_episodes(steps: Iterable[Step], shape: tuple[int, int], most: int) -> Episodes:
    """An episode in each environment on the host, [s, e], of at most so many steps."""
    none = np.zeros(shape)
    episodes = Episodes(none, none.astype(int), none > 0)
    for step in itertools.islice(steps, most):
        episodes = episodes.after(step)
        if episodes.finished.all():
            break
    return episodes
