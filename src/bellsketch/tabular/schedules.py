"""Step-size schedules: functions of how often a state has been updated, which JAX can look inside."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.errors import InputError
from bellsketch.core.pytree import pytree


@pytree
class Constant:
    """α."""

    value: Any

    def __call__(self, count: Int[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.broadcast_to(jnp.asarray(self.value), count.shape)


@pytree
class Decay:
    """α_k = initial · (1 + k/after)^−power: constant at first, then a power of the number of updates.

    A power in (½, 1] satisfies the Robbins–Monro conditions.
    """

    initial: Any = 1.0
    power: Any = 0.75
    after: Any = 1.0

    def __call__(self, count: Int[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return self.initial * (1 + count / self.after) ** (-self.power)


def as_schedule(step_size: Any) -> Any:
    """A number as a constant schedule, a plain function as one JAX can pass around; schedules as they are."""
    if isinstance(step_size, Constant | Decay | jax.tree_util.Partial):
        return step_size
    if callable(step_size):
        return jax.tree_util.Partial(step_size)
    if not (step_size > 0 and np.isfinite(step_size)):
        raise InputError(f"step_size={step_size}: must be a positive number, or a function of the number of updates")
    return Constant(float(step_size))
