"""What an environment shows, whether it runs on the device or on the host."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Bool, Float, Shaped

from bellsketch.core.arrays import Array


class Step(NamedTuple):
    """An observation before an action, and what the action before it brought. One of them, or one per environment."""

    observation: Any
    first: Bool[Array, "*e"]
    """Whether an episode starts here; the action before had no effect."""
    reward: Float[Array, "*e"]
    discount: Float[Array, "*e"]
    """0 after termination and after a lost life, else 1, also where an episode was cut off."""
    ended: Bool[Array, "*e"]
    """Whether this is the last observation of an episode. The next action is ignored, and an episode starts."""


class Space(NamedTuple):
    """What a network and a replay need to know of an environment."""

    frame_shape: tuple[int, ...]
    frame_dtype: Any
    """Of what is stored: images of zeros and ones take a byte per pixel."""
    num_actions: int
    stack: int = 1
    """Frames that an agent sees at a time, oldest first along a last axis; 1: the frame itself."""

    shown_shape: tuple[int, ...] | None = None
    """Of what the environment shows, if frames are yet to be made of it."""
    process: Callable[[Any], Any] | None = None
    """Makes frames of it; jittable."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Of what an agent sees."""
        return self.frame_shape if self.stack == 1 else (*self.frame_shape, self.stack)

    def processed(self, step: Step) -> Step:
        """With frames in place of what the environment shows."""
        return step if self.process is None else step._replace(observation=self.process(step.observation))

    def observe(self, before: Shaped[Array, "*e k"] | None, step: Step) -> Any:
        """What an agent sees after a step, given what it saw before; zeros stand for frames before the first."""
        frame = jnp.asarray(step.observation)
        if self.stack == 1:
            return frame
        if before is None:
            before = jnp.zeros((*frame.shape, self.stack), frame.dtype)
        first = jnp.reshape(step.first, (*step.first.shape, *[1] * (before.ndim - step.first.ndim)))
        return jnp.concatenate([jnp.where(first, 0, before[..., 1:]), frame[..., None]], axis=-1)
