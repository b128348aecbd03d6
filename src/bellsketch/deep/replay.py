"""Replay memory on the device. Every frame is stored once; observations are stacked and put into pairs when sampled.

A row holds what one vector step saw: a frame of each environment, the action taken there, its reward, and the discount
that followed. Where an episode has ended, the row after its last action holds the last frame and no action (``acted``
is false): environments are reset one step later, which keeps the rows of all environments in step.

Environments may take turns, in groups: a row is then written in as many parts, and is there when it has all of them. So
that nothing is lost before that, there is room for one row more than are kept.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bellsketch.core.errors import InputError
from bellsketch.core.pytree import pytree, static
from bellsketch.deep.groups import ALL, Group
from bellsketch.deep.transition import Transition

TRIES = 4
"""Rows drawn for each place in a batch, of which the first usable one is taken."""


@pytree
class Row:
    """One vector step of e environments."""

    frame: Any
    """[e, …], before acting."""
    first: Bool[Array, "*rows e"]
    """Whether an episode starts here."""
    acted: Bool[Array, "*rows e"]
    """Whether there is an action, a reward and a next frame."""
    action: Int[Array, "*rows e"]
    reward: Float[Array, "*rows e"]
    discount: Float[Array, "*rows e"]
    """0 if the episode terminated or a life was lost, else 1, also where it was cut off."""


@pytree
class Replay:
    """A ring of rows."""

    rows: Row
    """With an axis of ``capacity`` + 1 in front."""
    written: Int[Array, ""]
    """Whole rows written so far, those that were overwritten included."""
    stack: int = static()
    """Frames in an observation, oldest first along its last axis; 1: the frame itself."""

    @property
    def capacity(self) -> int:
        """Rows that are kept."""
        return self._places - 1

    @property
    def size(self) -> Int[Array, ""]:
        """Rows there are."""
        return jnp.minimum(self.written, self.capacity)

    def insert(self, row: Row, group: Group = ALL) -> "Replay":
        """The memory with one more row, or the part of it that a group wrote, in place of the oldest if it is full."""
        rows = group.put(self.rows, row, self.written % self._places)
        return Replay(rows, self.written + group.is_last, self.stack)

    def sample(
        self, key: jax.Array, batch_size: int, discount: float, num_steps: int = 1
    ) -> tuple[Transition, Float[Array, " b"]]:
        """A batch of transitions over ``num_steps`` steps, and a weight for each.

        The weight is 0 where none usable was drawn. There a copy of a usable one stands, if there is any: what is not
        one may have a loss without a gradient, and that times 0 is not 0.
        """
        key_age, key_environment = jax.random.split(key)
        shape = (batch_size, TRIES)
        # Ages count backwards from the newest row, so that the ring's seam is never inside a window.
        ages = jax.random.randint(key_age, shape, num_steps, jnp.maximum(self.size - self.stack + 1, num_steps + 1))
        environments = jax.random.randint(key_environment, shape, 0, self.rows.first.shape[1])
        usable = jax.vmap(jax.vmap(lambda age, e: self._usable(age, e, num_steps)))(ages, environments)
        place, found = jnp.arange(batch_size), usable.any(axis=1)
        place = jnp.where(found, place, jnp.argmax(found))
        first = jnp.argmax(usable[place], axis=1)
        transitions = jax.vmap(lambda age, e: self._transition(age, e, discount, num_steps))(
            ages[place, first], environments[place, first]
        )
        return transitions, found.astype(jnp.float32)

    @property
    def _places(self) -> int:
        return int(self.rows.first.shape[0])

    def _at(self, age: Any) -> Any:
        return (self.written - 1 - age) % self._places

    def _usable(self, age: Any, e: Any, num_steps: int) -> Bool[Array, ""]:
        """Whether all steps are there up to the last or to termination, none of them cut off in between."""
        steps = self._at(age - jnp.arange(num_steps))
        acted, goes_on = self.rows.acted[steps, e], self.rows.discount[steps, e] > 0
        alive = jnp.cumprod(jnp.concatenate([jnp.ones(1), goes_on[:-1]])) > 0
        return jnp.all(acted | ~alive) & (age < self.size)

    def _transition(self, age: Any, e: Any, discount: float, num_steps: int) -> Transition:
        steps = self._at(age - jnp.arange(num_steps))
        goes_on = self.rows.discount[steps, e]
        alive = jnp.cumprod(jnp.concatenate([jnp.ones(1), goes_on[:-1]]))
        weights = discount ** jnp.arange(num_steps) * alive
        return Transition(
            self.observation(age, e),
            self.rows.action[steps[0], e],
            jnp.sum(weights * self.rows.reward[steps, e]),
            discount**num_steps * jnp.prod(goes_on),
            self.observation(age - num_steps, e),
        )

    def observation(self, age: Any, e: Any) -> Any:
        """The last ``stack`` frames of an episode; zeros before its first."""
        if self.stack == 1:
            return self.rows.frame[self._at(age), e]
        ages = age + jnp.arange(self.stack)  # newest first
        frames, first = self.rows.frame[self._at(ages), e], self.rows.first[self._at(ages), e]
        seen = jnp.cumsum(first) - first == 0
        frames = jnp.where(seen.reshape(-1, *[1] * (frames.ndim - 1)), frames, 0)
        return jnp.moveaxis(frames[::-1], 0, -1)


def empty_replay(
    capacity: int, num_environments: int, frame_shape: Sequence[int], frame_dtype: Any, stack: int = 1
) -> Replay:
    """Room for ``capacity`` rows."""
    if capacity < stack + 2:
        raise InputError(f"capacity={capacity}: a replay needs room for at least {stack + 2} rows")
    shape = (capacity + 1, num_environments)
    rows = Row(
        jnp.zeros((*shape, *frame_shape), frame_dtype),
        jnp.zeros(shape, bool),
        jnp.zeros(shape, bool),
        jnp.zeros(shape, jnp.int32),
        jnp.zeros(shape),
        jnp.zeros(shape),
    )
    return Replay(rows, jnp.zeros((), jnp.int32), stack)
