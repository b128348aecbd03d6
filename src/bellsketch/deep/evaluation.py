"""How well a network plays: the returns of whole episodes, acting (almost) greedily."""

import itertools
from collections.abc import Iterable, Iterator
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


def episodes_within(steps: Iterator[Step], shape: tuple[int, int], num_steps: int) -> list[Episodes]:
    """The episodes of each seed that end within ``num_steps`` steps if they are played one after the other.

    They are played side by side on the host, [s, e], for as long as it takes, and count in the order in which they
    start. Those that end first would be short ones more often than those of one stream are.
    """
    seeds = [_InOrder(shape[1]) for _ in range(shape[0])]
    while True:
        step = next(steps)
        for i, seed in enumerate(seeds):
            seed.add(Step(None, *(part[i] for part in step[1:])))
        found = [episodes for seed in seeds if (episodes := seed.within(num_steps)) is not None]
        if len(found) == len(seeds):
            return found


class _InOrder:
    """Episodes of one seed in the order in which they start, whichever environment they are played in."""

    def __init__(self, num_environments: int):
        self._episodes = Episodes(np.zeros(0), np.zeros(0, int), np.zeros(0, bool))
        self._played = np.zeros(num_environments, int)
        """Which of them each environment plays."""
        self._start(np.ones(num_environments, bool))

    def add(self, step: Step) -> None:
        """What each environment brought."""
        if step.first.any():
            self._start(step.first)
        self._episodes.returns[self._played] += step.reward
        self._episodes.lengths[self._played] += ~step.first
        self._episodes.finished[self._played] = step.ended

    def within(self, num_steps: int) -> Episodes | None:
        """Those that end within so many steps, or None if this cannot be told yet."""
        within = np.cumsum(self._episodes.lengths) <= num_steps
        if within.all() or not self._episodes.finished[within].all():
            return None
        return jax.tree.map(lambda x: x[within], self._episodes)

    def _start(self, where: Bool[Array, " e"]) -> None:
        num = where.sum()
        self._played[where] = len(self._episodes.returns) + np.arange(num)
        self._episodes = jax.tree.map(lambda x: np.append(x, np.zeros(num, x.dtype)), self._episodes)


def whole_episodes(steps: Iterable[Step], shape: tuple[int, int], most: int) -> Episodes:
    """An episode in each environment on the host, [s, e], of at most so many steps."""
    none = np.zeros(shape)
    episodes = Episodes(none, none.astype(int), none > 0)
    for step in itertools.islice(steps, most):
        episodes = episodes.after(step)
        if episodes.finished.all():
            break
    return episodes
