"""How well a network plays: the returns of whole episodes, acting (almost) greedily."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
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


def episodes_within(parts: Sequence[Iterator[Step]], shape: tuple[int, int], num_steps: int) -> list[Episodes]:
    """The episodes of each seed that end within ``num_steps`` steps if they are played one after the other.

    They are played side by side on the host, [s, e] in each part, for as long as it takes, and count in the order in
    which they start. Those that end first would be short ones more often than those of one stream are.
    """
    seeds = [_InOrder(len(parts), shape[1], num_steps) for _ in range(shape[0])]
    under_way = list(range(len(parts)))
    while under_way:
        for part in under_way:
            step = next(parts[part])
            for i, seed in enumerate(seeds):
                seed.add(part, Step(None, *(column[i] for column in step[1:])))
        under_way = [part for part in under_way if any(seed.needs(part) for seed in seeds)]
    return [seed.found for seed in seeds]


class _InOrder:
    """Episodes of one seed in the order in which they start, whichever environment they are played in."""

    def __init__(self, num_parts: int, num_environments: int, num_steps: int):
        self._num_steps = num_steps
        self._episodes = Episodes(np.zeros(0), np.zeros(0, int), np.zeros(0, bool))
        self._played = np.zeros((num_parts, num_environments), int)
        """Which of them each environment plays."""
        for part in range(num_parts):
            self._start(part, np.ones(num_environments, bool))

    def add(self, part: int, step: Step) -> None:
        """What each environment of a part brought."""
        if step.first.any():
            self._start(part, step.first)
        played = self._played[part]
        self._episodes.returns[played] += step.reward
        self._episodes.lengths[played] += ~step.first
        self._episodes.finished[played] = step.ended

    def needs(self, part: int) -> bool:
        """Whether an episode that is played there, or the next one that starts, may count."""
        may_count = self._may_count
        return bool(may_count.all() or (may_count & ~self._episodes.finished)[self._played[part]].any())

    @property
    def found(self) -> Episodes:
        """Those that count, when no part is needed any more."""
        return jax.tree.map(lambda x: x[self._may_count], self._episodes)

    @property
    def _may_count(self) -> Bool[Array, " n"]:
        """Whether each ends within the steps for all that is known."""
        return np.cumsum(self._episodes.lengths) <= self._num_steps

    def _start(self, part: int, where: Bool[Array, " e"]) -> None:
        num = where.sum()
        self._played[part, where] = len(self._episodes.returns) + np.arange(num)
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
