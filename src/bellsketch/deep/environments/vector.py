"""The one shape of environments on the host: several of one name, that take steps together."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Int, UInt8

from bellsketch.core.arrays import Array
from bellsketch.core.errors import InputError
from bellsketch.deep.environments.step import Space, Step


class VectorEnvironments(ABC):
    """An episode's last observation is shown before the next episode starts; see :class:`Step`."""

    space: Space
    max_episode_steps: int | None
    """Steps after which an episode is cut off, or None if none is."""
    starts_anew: ClassVar[bool] = False
    """Whether nothing is left of earlier episodes after ``reset``, so that one evaluation after the other may use them.
    """

    def __init__(self, name: str, num_environments: int):
        if num_environments < 1:
            raise InputError(f"num_environments={num_environments}: there must be at least 1")
        self.name, self.num_environments = name, num_environments
        self._last: Step | None = None

    @final
    def reset(self, seed: int | Sequence[int]) -> Step:
        """Start an episode in each, with a random state of its own: from one seed, or from a seed for each."""
        num = self.num_environments
        seeds = np.random.SeedSequence(seed).generate_state(num) if isinstance(seed, int) else seed
        if len(seeds) != num:
            raise InputError(f"seed has {len(seeds)} entries: pass a number, or one for each of {num}")
        observation = self._reset([int(s) for s in seeds])
        no, zeros = np.zeros(num, bool), np.zeros(num, np.float32)
        self._last = Step(observation, ~no, zeros, zeros + 1, no)
        return self._last

    @final
    def step(self, actions: Int[Array, " e"]) -> Step:
        """A step of each. Where an episode had ended the action is ignored and another starts."""
        if self._last is None:
            raise InputError("step before any episode has started: call reset(seed) first")
        actions = np.asarray(actions, np.int64)
        if actions.shape != (self.num_environments,):
            raise InputError(f"actions of shape {actions.shape}: pass one for each of {self.num_environments}")
        if ((actions < 0) | (actions >= self.space.num_actions)).any():  # ALE would wait for ever
            raise InputError(f"actions={actions.tolist()}: must be at least 0 and below {self.space.num_actions}")
        self._last = self._step(actions, self._last.ended)
        return self._last

    @abstractmethod
    def _reset(self, seeds: list[int]) -> np.ndarray:
        """What is shown first."""

    @abstractmethod
    def _step(self, actions: Int[np.ndarray, " e"], first: Bool[np.ndarray, " e"]) -> Step:
        """Of each; where episodes start the flag is given."""

    @abstractmethod
    def save(self) -> bytes | None:
        """All environments with their random states, or None if they cannot be saved."""

    @abstractmethod
    def restore(self, state: bytes) -> Step:
        """Go on from where :meth:`save` was called. Only pass bytes you trust: they are unpickled."""

    @abstractmethod
    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """The first environment as an image, if it has one."""

    @abstractmethod
    def another(self, num_environments: int) -> "VectorEnvironments":
        """As many, made like these."""

    @abstractmethod
    def close(self) -> None:
        """Free what the environments hold."""
