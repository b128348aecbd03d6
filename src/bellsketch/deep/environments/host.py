"""Environments that run on the host: any of Gymnasium's with finitely many actions, several of them in step."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, final

import cloudpickle  # type: ignore[import-untyped]
import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Int, UInt8

from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.deep.environments.step import Space, Step
from bellsketch.deep.environments.vector import VectorEnvironments
from bellsketch.deep.networks import is_screen

MOST_CHANNELS = 16
"""That a first axis is taken for, with screens behind it: four frames in colour have 12."""


@final
class HostEnvironments(VectorEnvironments):
    """``num_environments`` Gymnasium environments of one name, one after the other or each in its own process.

    What is not a box of numbers becomes one vector, one-hot where it counts categories. Networks see bytes whose space
    goes up to 255 as fractions of that, and others, such as masks of zeros and ones, as they are; so are those of small
    images, which are codes of cells even if their space goes up to 255, as MiniGrid's does. Bytes stay so where
    networks can tell by the shape; all else becomes single precision.
    """

    def __init__(
        self,
        name: str,
        num_environments: int = 1,
        *,
        options: Mapping[str, Any] | None = None,
        asynchronous: bool = False,
        render: bool = False,
    ):
        """Make them.

        Args:
            name: A registered name, such as ``FrozenLake-v1``; ``module:Name-v0`` imports the module first.
            num_environments: How many.
            options: Arguments of the environment itself, such as ``{"map_name": "8x8"}``.
            asynchronous: Whether each runs in its own process: pays off where a step takes about a millisecond or more.
                A script that asks for it needs an ``if __name__ == "__main__"``: processes import it anew.
            render: Whether :meth:`render` can be called.
        """
        super().__init__(name, num_environments)
        self.options = dict(options or {})
        self._renders = render
        # Spawned, since a fork of a process that runs JAX's threads can hang.
        vector = {"context": "spawn"} if asynchronous else {}
        self._vector: Any = gymnasium.make_vec(  # Gymnasium's annotations leave out half of what it does
            name,
            num_environments,
            vectorization_mode="async" if asynchronous else "sync",
            vector_kwargs={**vector, "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP},
            wrappers=[_Flat(name), _Resumable],
            **({"render_mode": "rgb_array"} if render else {}),
            **self.options,
        )
        actions = self._vector.single_action_space
        if not isinstance(actions, spaces.Discrete):
            self.close()
            raise InputError(
                f"environment {name!r} has actions {actions}: agents here choose among finitely many. Take another "
                "environment, or register one that offers some of these actions as spaces.Discrete (gym:module:Name-v0)"
            )
        self._first_action = int(actions.start)
        box: Any = self._vector.single_observation_space
        dtype, self._divisor = _stored_as(box)
        self.space = Space(box.shape, dtype, int(actions.n))
        self._warned = False
        spec: Any = self._vector.spec
        limit = self.options.get("max_episode_steps", spec.max_episode_steps)
        self.max_episode_steps = None if limit is None or limit < 0 else int(limit)

    @property
    def registered_name(self) -> str:
        """As registered: with its version, and without the module it was imported from."""
        return self._vector.spec.id

    def _reset(self, seeds: list[int]) -> np.ndarray:
        return self._stored(self._vector.reset(seed=seeds)[0])

    def _step(self, actions: Int[np.ndarray, " e"], first: Bool[np.ndarray, " e"]) -> Step:
        observation, reward, terminated, truncated, _ = self._vector.step(actions + self._first_action)
        return Step(
            self._stored(observation),
            first,
            reward.astype(np.float32),
            1 - terminated.astype(np.float32),
            terminated | truncated,
        )

    def save(self) -> bytes | None:
        """All environments with their random states, so that :meth:`restore` goes on exactly from here.

        None, with a warning the first time, where an environment cannot be pickled: a run that is resumed then starts
        new episodes.
        """
        if self._last is None:
            raise InputError("save before any episode has started: call reset(seed) first")
        states = self._vector.get_attr("pickled")
        problem = next((state for state in states if not isinstance(state, bytes)), None)
        if problem is not None:
            if not self._warned:
                warnings.warn(
                    f"environment {self.name!r} cannot be saved ({problem}): a resumed run will start new episodes",
                    BellsketchWarning,
                    stacklevel=2,
                )
            self._warned = True
            return None
        return cloudpickle.dumps((self.registered_name, states, self._last))

    def restore(self, state: bytes) -> Step:
        """Go on from where :meth:`save` was called. Only pass bytes you trust: they are unpickled."""
        name, states, last = cloudpickle.loads(state)
        if (name, len(states)) != (self.registered_name, self.num_environments):
            raise InputError(
                f"state of {len(states)} {name!r} for {self.num_environments} {self.registered_name!r}: make as many "
                "environments of the same name as were saved"
            )
        self._vector.reset()  # makes it forget which episodes had ended
        self._vector.set_attr("pickled", list(states))
        self._last = Step(*last)
        return self._last

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """The first environment as an image; None unless made with ``render=True``."""
        return np.asarray(self._vector.render()[0]) if self._renders else None

    def another(self, num_environments: int) -> "HostEnvironments":
        """As many, made like these, one after the other."""
        return HostEnvironments(self.name, num_environments, options=self.options)

    def close(self) -> None:
        """Free what the environments hold, processes included."""
        self._vector.close()

    def _stored(self, observation: np.ndarray) -> np.ndarray:
        stored = observation.astype(self.space.frame_dtype)
        return stored if self._divisor == 1 else stored / np.float32(self._divisor)


def _stored_as(box: Any) -> tuple[Any, int]:
    """The type of what is stored of observations, and what they are divided by."""
    if box.dtype != np.uint8:
        return np.float32, 1
    is_grid = len(box.shape) == 3 and not is_screen(box.shape)
    is_fraction = bool((box.high == 255).all()) and not is_grid
    if is_fraction == is_screen(box.shape):
        return np.uint8, 1
    return np.float32, 255 if is_fraction else 1


class _Flat:
    """Makes observations boxes of numbers. A class, not a closure, so that it is pickled by name."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, environment: gymnasium.Env) -> Any:
        space = environment.observation_space
        if isinstance(space, spaces.Box) and space.shape:
            self._check_axes(environment, space.shape)
            return environment
        if not _is_flat(space):
            environment.close()
            raise InputError(
                f"environment {self.name!r} has observations {space}: they must be Box, Discrete, MultiBinary, "
                "MultiDiscrete, or Dict or Tuple of those; register one whose are (gym:module:Name-v0)"
            )
        return gymnasium.wrappers.FlattenObservation(environment)

    def _check_axes(self, environment: gymnasium.Env, shape: tuple[int, ...]) -> None:
        """Raise if screens come one after the other, as Gymnasium stacks them, or colour by colour."""
        if len(shape) < 3 or shape[0] > MOST_CHANNELS or not is_screen(shape[1:]):
            return
        environment.close()
        wanted = (*shape[1:3], shape[0] * math.prod(shape[3:]))
        raise InputError(
            f"environment {self.name!r} has observations of shape {shape}, with frames or channels first: these must "
            f"be the last axis, as in {wanted}; register one (gym:module:Name-v0) that moves them there, with "
            "gymnasium.wrappers.TransformObservation"
        )


def _is_flat(space: spaces.Space) -> bool:
    """Whether its elements are so many numbers, always as many."""
    if isinstance(space, spaces.Dict):
        return all(map(_is_flat, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(_is_flat, space.spaces))
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete)


class _Resumable(gymnasium.Wrapper):
    """Can be pickled and put back.

    Whether an episode had ended is part of it: vector environments that run in processes keep that where nobody can
    set it.
    """

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self._ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._ended = False
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._ended:  # only after it was put back: otherwise the vector environment resets it
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._ended = bool(terminated or truncated)
        return observation, reward, terminated, truncated, info

    @property
    def pickled(self) -> bytes | str:
        """The environment, or what is in the way: an exception would end a process and with it the run."""
        if _forgets(self.env):
            return "its pickle holds only the arguments it was made with"
        try:
            state = cloudpickle.dumps((self.env, self._ended))
            cloudpickle.loads(state)
        except Exception as problem:  # anything at all can be raised by somebody's __getstate__
            return f"{type(problem).__name__}: {problem}"
        return state

    @pickled.setter
    def pickled(self, state: bytes) -> None:
        self.env.close()
        self.env, self._ended = cloudpickle.loads(state)


def _forgets(environment: gymnasium.Env) -> bool:
    """Whether something in it is pickled as a fresh copy, as Gymnasium's Box2D and MuJoCo environments are."""
    layer: Any = environment
    while True:
        if getattr(type(layer), "__getstate__", None) is gymnasium.utils.EzPickle.__getstate__:
            return True
        if not isinstance(layer, gymnasium.Wrapper):
            return False
        layer = layer.env
