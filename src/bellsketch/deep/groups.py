"""Environments that take turns: while some of them play, the others' frames are on the way to the device.

With k groups, every k-th environment is in the same one, so that devices among which environments are split each have
their part of all groups.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from bellsketch.core.pytree import pytree, static


@pytree
class Group:
    """Some of the environments."""

    index: Int[Array, ""] | int
    num: int = static()
    """Groups that there are."""

    @property
    def is_last(self) -> Any:
        """Whether all have had their turn after this one."""
        return jnp.asarray(self.index == self.num - 1, jnp.int32)

    def of(self, tree: Any) -> Any:
        """Its part of arrays of all environments, [e, …]."""
        return tree if self.num == 1 else jax.tree.map(lambda x: self._split(x, 0)[:, self.index], tree)

    def put(self, tree: Any, part: Any, *at: Any) -> Any:
        """Arrays of all environments, [e, …], or [a, e, …] of which those ``at`` a place, with its part replaced.

        In place where it can be, which takes some care: in a loop XLA copies arrays that change their shape, and for
        ``x.at[…].set`` it moves the axes of places to the front.
        """

        def replaced(x: Any, new: Any) -> Any:
            new = new.astype(x.dtype)
            if self.num == 1:
                return x.at[at].set(new) if at else new
            start = (*at, 0, self.index, *[0] * (x.ndim - len(at) - 1))
            window = jnp.expand_dims(new, (*range(len(at)), len(at) + 1))
            return jax.lax.dynamic_update_slice(self._split(x, len(at)), window, start).reshape(x.shape)

        return jax.tree.map(replaced, tree, part)

    def _split(self, x: Any, axis: int) -> Any:
        """The axis of environments made two, of which the second is that of groups."""
        return x.reshape(*x.shape[:axis], -1, self.num, *x.shape[axis + 1 :])


ALL = Group(0, 1)
