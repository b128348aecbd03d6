"""Environments on the host, everything else on the device, which learns while they play.

A turn records what a step of environments brought and chooses the next actions; those are sent off, and the updates
that are due are made until the environments are done. Updates thus draw from all steps but the one under way and the
one before it, whose next frame is not stored yet, and the next actions are chosen by the network after them.

Environments take turns in groups. With one, they wait while frames go to the device and actions come back, and the
device waits with them; with several, the others play meanwhile. Each turn is followed by its part of the updates. What
is recorded can be drawn when all groups have had their turn.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.deep.acting import choose_actions
from bellsketch.deep.environments.step import Step
from bellsketch.deep.environments.vector import VectorEnvironments
from bellsketch.deep.evaluation import MAX_STEPS, Episodes, episodes_within, whole_episodes
from bellsketch.deep.groups import Group
from bellsketch.deep.loops.loop import Loop, LoopState, over_seeds, seed_of

LARGEST = np.iinfo(np.int32).max
STREAMS, EACH = 64, 16
"""At most so many episodes does an evaluation in frames play side by side, and so many of them stop together when none
can count any more: docs/decisions.md."""


class HostedRunner:
    """All seeds of a run, with a vector environment for each group; states have an axis of seeds in front."""

    def __init__(self, loop: Loop, make: Callable[[int], VectorEnvironments], num_seeds: int):
        self.loop, self._make, self._num_seeds = loop, make, num_seeds
        self._init = jax.jit(self._of_seeds(self._init_one))
        self._choose, self._record, self._turn, self._learn = (
            jax.jit(self._of_seeds(part), donate_argnums=0)
            for part in (loop.choose, self._record_one, self._turn_one, loop.update)
        )
        self._greedy = jax.jit(self._choose_greedily)
        self._groups = [Group(index, loop.groups) for index in range(loop.groups)]
        self._kept: list[VectorEnvironments] = []

    @functools.cached_property
    def environments(self) -> list[VectorEnvironments]:
        """Of each group, all seeds' side by side. Made when they are first needed: to evaluate a run others are."""
        num = self._num_seeds * self.loop.config.num_environments // self.loop.groups
        return [self._make(num) for _ in self._groups]

    def init(self, keys: jax.Array) -> LoopState:
        """Before the first step, from a key for each seed."""
        keys, step = self._start(keys)
        return self._init(keys, step)

    def shape(self, keys: jax.Array) -> LoopState:
        """The shapes of a state."""
        space, shape = self.loop.space, (self._num_seeds, self.loop.config.num_environments)
        truth, number = jax.ShapeDtypeStruct(shape, jnp.bool), jax.ShapeDtypeStruct(shape, jnp.float32)
        observation = jax.ShapeDtypeStruct((*shape, *(space.shown_shape or space.frame_shape)), space.frame_dtype)
        step = Step(observation, truth, number, number, truth)
        return self.loop.devices.shape(jax.eval_shape(self._init, keys, step))

    def explore(self, state: LoopState, vector_steps: int, stopped: threading.Event | None = None) -> LoopState:
        """Steps without learning, unless it is ``stopped`` before, which is a KeyboardInterrupt."""
        return self._play(state, vector_steps, None, stopped)

    def advance(self, state: LoopState, iterations: int, stopped: threading.Event | None = None) -> LoopState:
        """Likewise iterations of steps and updates."""
        acts = self.loop.config.acts
        return self._play(state, iterations * acts, acts, stopped)

    def update(self, state: LoopState) -> LoopState:
        """The updates of an iteration, without its steps."""
        for _ in self._groups:
            state = self._learn(state)
        return state

    def evaluate(
        self,
        keys: jax.Array,
        networks: Any,
        num_episodes: int,
        epsilon: float,
        stopped: threading.Event | None = None,
    ) -> Episodes:
        """Whole episodes of each seed's network, unless it is ``stopped`` before."""
        played = []
        for some, their_networks in self._some_seeds(keys, networks, num_episodes):
            with self._to_evaluate(num_episodes * len(some)) as (environments,):
                steps = self._greedy_steps(some, their_networks, environments, epsilon, stopped)
                most = max(MAX_STEPS, environments.max_episode_steps or 0)
                played.append(whole_episodes(steps, (len(some), num_episodes), most))
        return jax.tree.map(lambda *parts: np.concatenate(parts), *played)

    def evaluate_frames(
        self, keys: jax.Array, networks: Any, frames: int, epsilon: float, stopped: threading.Event | None = None
    ) -> list[Episodes]:
        """All episodes of each seed's network that end within so many frames, unless it is ``stopped`` before."""
        num, streams = frames // self.loop.config.frame_skip, min(STREAMS, self.loop.config.num_environments)
        each, played = min(EACH, streams), []
        for some, their_networks in self._some_seeds(keys, networks, streams):
            with self._to_evaluate(each * len(some), streams // each) as parts:
                steps = [
                    self._greedy_steps(_fold_in(some, part), their_networks, environments, epsilon, stopped)
                    for part, environments in enumerate(parts)
                ]
                played += episodes_within(steps, (len(some), each), num)
        return played

    def close(self) -> None:
        """Let go of the environments."""
        if "environments" in vars(self):
            for environments in self.environments:
                environments.close()
            del self.environments
        self._drop_kept()

    def save_environments(self) -> bytes | None:
        """All of them, or None if they cannot be saved."""
        saved = [environments.save() for environments in self.environments]
        return None if any(part is None for part in saved) else pickle.dumps(saved)

    def restore_environments(self, state: LoopState, saved: bytes | None) -> LoopState:
        """As they were; if they could not be saved, new episodes start, and those under way count as cut off."""
        if saved is not None:
            for environments, part in zip(self.environments, pickle.loads(saved), strict=True):
                environments.restore(part)
            return state
        keys, step = self._start(state.key)
        # The last row has no successor: with no action in it, it is never the start of a transition.
        cut_off = state.step._replace(ended=jnp.ones_like(state.step.ended))
        new = dataclasses.replace(state, step=cut_off, key=keys)
        for group in self._groups:
            after = jax.vmap(group.of)(step)
            new = self._record(new, jnp.zeros(after.first.shape, jnp.int32), after, group=group)
        return dataclasses.replace(new, steps=new.steps - self.loop.config.num_environments)  # nobody took one

    def _start(self, keys: jax.Array) -> tuple[jax.Array, Step]:
        """An episode in each environment. Those of a seed are the same whatever other seeds there are."""
        keys, keys_start = jnp.unstack(jax.vmap(jax.random.split)(keys), axis=1)
        num = self.loop.config.num_environments
        seeds = np.asarray(jax.vmap(lambda key: jax.random.randint(key, (num,), 0, LARGEST))(keys_start))
        steps = [
            _by_seed(environments.reset(seeds[:, i :: self.loop.groups].ravel().tolist()), self._num_seeds)
            for i, environments in enumerate(self.environments)
        ]
        return keys, jax.tree.map(lambda *parts: np.stack(parts, 2).reshape(*seeds.shape, *parts[0].shape[2:]), *steps)

    def _play(
        self, state: LoopState, vector_steps: int, learn_every: int | None, stopped: threading.Event | None
    ) -> LoopState:
        if not vector_steps:
            return state
        # A thread for each group: sending off updates takes the host as long as some of them take the device.
        with concurrent.futures.ThreadPoolExecutor(len(self._groups)) as beside:
            under_way = []
            for group, environments in zip(self._groups, self.environments, strict=True):
                state, action = self._choose(state, group=group)
                under_way.append((action, beside.submit(self._step, environments, action)))
            for taken in range(1, vector_steps + 1):
                if stopped is not None and stopped.is_set():
                    jax.block_until_ready(state)  # or the interpreter may crash when it ends
                    raise KeyboardInterrupt
                for i, group in enumerate(self._groups):
                    action, played = under_way[i]
                    if learn_every is not None and taken % learn_every == 0:
                        state = self._learn(state)
                    if taken < vector_steps:
                        state, action = self._turn(state, action, played.result(), group=group)
                        under_way[i] = action, beside.submit(self._step, self.environments[i], action)
                    else:
                        state = self._record(state, action, played.result(), group=group)
        return state

    def _step(self, environments: VectorEnvironments, action: jax.Array) -> Step:
        """What environments answer, once the device has chosen."""
        return _by_seed(environments.step(np.asarray(action).ravel()), self._num_seeds)

    def _of_seeds(self, part: Callable[..., Any]) -> Callable[..., Any]:
        """For all of them, from what the host gave to a state, or a state and actions, that lie where they should."""
        devices = self.loop.devices

        @functools.wraps(part)
        def together(first: Any, *given: Any, **group: Any) -> Any:
            found = over_seeds(functools.partial(part, **group))(first, *devices.split(given))
            state, *action = (found,) if isinstance(found, LoopState) else found
            return (devices.hold(state), *devices.split(action)) if action else devices.hold(state)

        return together

    def _init_one(self, key: jax.Array, step: Step) -> LoopState:
        return self.loop.init(key, None, self.loop.space.processed(step))

    def _record_one(self, state: LoopState, action: jax.Array, after: Step, group: Group) -> LoopState:
        return self.loop.record(state, action, None, self.loop.space.processed(after), group)

    def _turn_one(self, state: LoopState, action: jax.Array, after: Step, group: Group) -> tuple[LoopState, jax.Array]:
        return self.loop.choose(self._record_one(state, action, after, group), group)

    @contextlib.contextmanager
    def _to_evaluate(self, num: int, parts: int = 1) -> Iterator[list[VectorEnvironments]]:
        """As many, so many times, for one evaluation at a time. While there are some to learn from, those that start
        anew are kept for the next one: nothing else can run while ALE makes a game, which takes it a tenth of a second.
        """
        if [part.num_environments for part in self._kept] != [num] * parts:
            self._drop_kept()
            for _ in range(parts):
                self._kept.append(self._make(num))
        try:
            yield self._kept
        finally:
            if "environments" not in vars(self) or not all(part.starts_anew for part in self._kept):
                self._drop_kept()

    def _drop_kept(self) -> None:
        while self._kept:
            self._kept.pop().close()

    def _some_seeds(self, keys: jax.Array, networks: Any, each: int) -> Iterator[tuple[jax.Array, Any]]:
        """As many seeds at a time as have no more environments, ``each``, than all have to learn from: each may be a
        process of its own.
        """
        networks = self.loop.devices.one(networks)
        at_once = max(1, self._num_seeds * self.loop.config.num_environments // each)
        for start in range(0, len(keys), at_once):
            some = slice(start, start + at_once)
            yield keys[some], seed_of(networks, some)

    def _greedy_steps(
        self,
        keys: jax.Array,
        networks: Any,
        environments: VectorEnvironments,
        epsilon: float,
        stopped: threading.Event | None,
    ) -> Iterator[Step]:
        """What each seed's network meets in its environments, [s, e, …], which are the same whatever other seeds there
        are. The device chooses the next actions while a step is looked at, and while other environments play.
        """
        each = environments.num_environments // len(keys)
        step = _by_seed(environments.reset([int(seed) for key in keys for seed in _seeds(key, each)]), len(keys))
        keys, actions, seen = self._greedy(keys, networks, None, step, epsilon)
        try:
            while stopped is None or not stopped.is_set():
                step = _by_seed(environments.step(np.asarray(actions).ravel()), len(keys))
                keys, actions, seen = self._greedy(keys, networks, seen, step, epsilon)
                yield step
        finally:
            jax.block_until_ready(actions)  # or the interpreter may crash when it ends
        raise concurrent.futures.CancelledError

    def _choose_greedily(
        self, keys: jax.Array, networks: Any, before: Any, step: Step, epsilon: Any
    ) -> tuple[jax.Array, jax.Array, Any]:
        """The next keys, actions after a step, and what was seen."""

        def of_one(key: jax.Array, network: Any, before: Any, step: Step) -> tuple[jax.Array, jax.Array, Any]:
            key, key_action = jax.random.split(key)
            seen = self.loop.space.observe(before, self.loop.space.processed(step))
            return key, choose_actions(key_action, self.loop.agent, network, seen, epsilon), seen

        return over_seeds(of_one)(keys, networks, before, step)


def _by_seed(step: Step, num: int) -> Step:
    """[s e, …] → [s, e, …]; on the host, from where programs take all of it at once."""
    return jax.tree.map(lambda x: np.reshape(x, (num, -1, *x.shape[1:])), step)


def _fold_in(keys: jax.Array, number: int) -> jax.Array:
    """Other keys, of each seed."""
    return jax.vmap(jax.random.fold_in, (0, None))(keys, number)


def _seeds(key: jax.Array, num: int) -> np.ndarray:
    """Of so many environments."""
    return np.random.SeedSequence(int(jax.random.randint(key, (), 0, LARGEST))).generate_state(num)
