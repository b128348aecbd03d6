"""NumPy on the host, JAX on the device: a name for arrays that may be either, and the library to compute with."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    Array = Any  # the two libraries' arrays share their operators, but no static type
else:
    Array = jax.Array | np.ndarray | np.floating  # NumPy's reductions return scalars


def namespace(*arrays: Any) -> ModuleType:
    """``jax.numpy`` if any argument is a JAX array, else ``numpy``."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def as_floats(xp: ModuleType, values: Any) -> Any:
    """``values`` as an array of floats: float64 in NumPy, JAX's default kind in JAX unless they are floats already."""
    if xp is np:
        return np.asarray(values, dtype=np.float64)
    values = jnp.asarray(values)
    return values.astype(jnp.result_type(values, float))
