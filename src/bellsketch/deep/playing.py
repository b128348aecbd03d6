"""One episode of a trained network, step by step, with the return distribution it predicts for each action."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.deep.acting import choose_actions
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.environments.step import Step
from bellsketch.deep.environments.vector import VectorEnvironments
from bellsketch.deep.loops.loop import seed_of
from bellsketch.deep.run import Run
from bellsketch.deep.setup import environments

ACTIONS = 2**32 - 1
"""Folded into keys of actions. To fold in i may give the same as to split and take the i-th: no split has so many."""


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
    if max_steps < 1:
        raise InputError(f"max_steps={max_steps}: must be at least 1")
    return _moments(run, seed_index, seed, max_steps)


def _moments(run: Run, seed_index: int, seed: int, max_steps: int) -> Iterator[Moment]:
    agent, network = run.setup.agent, seed_of(run.networks, seed_index)
    epsilon = run.config.evaluation.evaluation_epsilon
    player = _player(run.config, seed)
    choose = eqx.filter_jit(lambda key, observation: choose_actions(key, agent, network, observation[None], epsilon)[0])
    values = eqx.filter_jit(lambda key, observation: agent.action_values(key, network, observation))
    # Not the key that the environment starts from.
    key, step, total = jax.random.fold_in(jax.random.key(seed), ACTIONS), player.reset(), 0.0
    space, observation = run.setup.runner.loop.space, None
    observe = jax.jit(lambda before, step: space.observe(before, space.processed(step)))
    for _ in range(max_steps):
        key, key_action, key_values = jax.random.split(key, 3)
        observation = observe(observation, step)
        action = int(choose(key_action, observation))
        yield Moment(
            np.asarray(observation),
            player.render(),
            agent.distribution(key_values, network, observation),
            np.asarray(values(key_values, observation)),
            action,
            total,
        )
        step = player.step(action)
        total += float(step.reward)
        if step.ended:
            break


class _NativePlayer:
    """One environment on the device."""

    def __init__(self, environment: NativeEnvironment, seed: int):
        self._key = jax.random.key(seed)
        self._reset, self._step = jax.jit(environment.reset), jax.jit(environment.step)
        self._now: Any = None

    def reset(self) -> Step:
        self._now = self._reset(self._next_key())
        return self._now[1]

    def step(self, action: int) -> Step:
        self._now = self._step(self._next_key(), *self._now, action)
        return self._now[1]

    def render(self) -> np.ndarray | None:
        return None

    def _next_key(self) -> jax.Array:
        self._key, key = jax.random.split(self._key)
        return key


class _HostPlayer:
    """One environment on the host."""

    def __init__(self, environments: VectorEnvironments, seed: int):
        self._environments, self._seed = environments, seed

    def reset(self) -> Step:
        return _first(self._environments.reset(self._seed))

    def step(self, action: int) -> Step:
        return _first(self._environments.step(np.array([action])))

    def render(self) -> np.ndarray | None:
        return self._environments.render()


def _player(config: TrainingConfig, seed: int) -> _NativePlayer | _HostPlayer:
    make = functools.partial(environments, config)
    environment = make()
    if isinstance(environment, NativeEnvironment):
        return _NativePlayer(environment, seed)
    if (drawing := _drawing(make, config.environment)) is None:
        return _HostPlayer(environment, seed)
    environment.close()
    return _HostPlayer(drawing, seed)


def _drawing(make: Callable[..., Any], name: str) -> VectorEnvironments | None:
    """An environment on the host that draws itself; None, with a warning, if it does not."""
    try:
        environment = make(render=True)
        environment.reset(0)
        environment.render()
    except Exception as problem:  # anything at all can be raised by somebody's render
        warnings.warn(
            f"environment {name!r} does not draw itself ({str(problem) or type(problem).__name__}): what the network"
            " sees is shown instead",
            BellsketchWarning,
            stacklevel=2,
        )
        return None
    return environment


def _first(step: Step) -> Step:
    return jax.tree.map(lambda x: x[0], step)
