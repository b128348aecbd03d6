"""One episode of a trained network, step by step, with the return distribution it predicts for each action."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.deep.acting import choose_actions
from bellsketch.deep.environments.host import HostEnvironments
from bellsketch.deep.environments.make import make_environment
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.environments.step import Step
from bellsketch.deep.loops.hosted import seed_of
from bellsketch.deep.run import Run


@dataclasses.dataclass(frozen=True)
class Moment:
    """What the network sees and expects before an action."""

    observation: np.ndarray
    rendered: np.ndarray | None
    """As the environment itself draws it, if it does."""
    distribution: AtomicDistribution
    """Of the return after each action."""
    values: np.ndarray
    """What it is greedy in, for each action."""
    action: int
    return_so_far: float


def moments(run: Run, *, seed_index: int = 0, seed: int = 0, max_steps: int = 1_000) -> Iterator[Moment]:
    """An episode of one of the run's seeds, cut off after ``max_steps``."""
    if not 0 <= seed_index < run.config.seeds:
        raise InputError(f"seed_index={seed_index}: the run has {run.config.seeds} seeds, counted from 0")
    agent, network = run.setup.agent, seed_of(run.networks, seed_index)
    epsilon = run.config.evaluation.evaluation_epsilon
    player = _Player(run.config.environment, seed)
    choose = eqx.filter_jit(lambda key, observation: choose_actions(key, agent, network, observation[None], epsilon)[0])
    values = eqx.filter_jit(lambda key, observation: agent.action_values(key, network, observation))
    key, step, total = jax.random.key(seed), player.reset(), 0.0
    for _ in range(max_steps):
        key, key_action, key_values = jax.random.split(key, 3)
        observation = jnp.asarray(step.observation)
        action = int(choose(key_action, observation))
        yield Moment(
            np.asarray(observation),
            player.rendered(),
            agent.distribution(key_values, network, observation),
            np.asarray(values(key_values, observation)),
            action,
            total,
        )
        step = player.step(action)
        total += float(step.reward)
        if step.ended:
            break
    player.close()


class _Player:
    """One environment, wherever it runs."""

    def __init__(self, name: str, seed: int):
        environment = make_environment(name)
        self._seed, self._key = seed, jax.random.key(seed)
        self._native = environment if isinstance(environment, NativeEnvironment) else None
        self._host: HostEnvironments | None = None
        if self._native is None:
            environment.close()
            self._host = make_host(name, 1, render=True)
        self._step = jax.jit(environment.step) if self._native is not None else None
        self._inner: Any = None
        self._last: Any = None

    def reset(self) -> Step:
        if self._host is not None:
            return _first(self._host.reset(self._seed))
        self._inner, self._last = self._native.reset(self._next_key())
        return self._last

    def step(self, action: int) -> Step:
        if self._host is not None:
            return _first(self._host.step(np.array([action])))
        self._inner, self._last = self._step(self._next_key(), self._inner, self._last, action)
        return self._last

    def rendered(self) -> np.ndarray | None:
        return None if self._host is None else self._host.render()

    def close(self) -> None:
        if self._host is not None:
            self._host.close()

    def _next_key(self) -> jax.Array:
        self._key, key = jax.random.split(self._key)
        return key


def _first(step: Step) -> Step:
    return jax.tree.map(lambda x: x[0], step)
