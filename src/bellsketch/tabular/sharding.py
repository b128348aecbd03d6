"""Backups of models too large or too slow for one device: the state axis spread over several."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float

from bellsketch.core.errors import InputError
from bellsketch.tabular.operator import AffineOperator, PaddedRows, padded_rows

STATES = "states"
"""The mesh axis that states are spread over."""


def iterate_on_devices(
    operator: AffineOperator,
    start: Float[np.ndarray, "s m"],
    num_iterations: int,
    *,
    devices: Sequence[Any] | None = None,
    precision: str = "float64",
) -> Float[np.ndarray, "s m"]:
    """U ← 𝒯U, ``num_iterations`` times, with the states spread over ``devices`` (default: all there are).

    Each device keeps its share of the sketch, of the transitions and of the constant part; what a backup needs of other
    devices' states is exchanged by XLA. The number of states need not be a multiple of the number of devices. In
    float32 coefficients are rounded too, unlike on the host, and large ones that cancel cost digits.
    """
    if precision not in ("float64", "float32"):
        raise InputError(f"precision={precision!r}: choose float64 or float32")
    if start.shape != operator.offset.shape:
        raise InputError(f"start has shape {start.shape}, expected (states, features) = {operator.offset.shape}")
    with jax.enable_x64(precision == "float64"):
        spread, shares = shard_states(operator.astype(precision), devices)
        num_states = len(start)
        padded = np.zeros(spread.offset.shape, dtype=precision)
        padded[:num_states] = start
        return np.asarray(_repeat(spread, jax.device_put(padded, shares), num_iterations))[:num_states]


def shard_states(
    operator: AffineOperator, devices: Sequence[Any] | None = None
) -> tuple[AffineOperator, NamedSharding]:
    """An operator on the host as one spread over devices, and how its sketches are laid out.

    States are added that no other leads to, until every device has equally many.
    """
    mesh = Mesh(np.array(jax.devices() if devices is None else devices), (STATES,))
    shares, everywhere = NamedSharding(mesh, PartitionSpec(STATES)), NamedSharding(mesh, PartitionSpec())
    rows = padded_rows(operator.mixing)

    def spread(values: np.ndarray, fill: Any = 0) -> jax.Array:
        missing = -len(values) % mesh.size
        return jax.device_put(np.pad(values, ((0, missing), (0, 0)), constant_values=fill), shares)

    with jax.enable_x64(operator.offset.dtype == np.float64):
        mixing = PaddedRows(spread(rows.columns), spread(rows.weights))
        # An added state has no pair but the one that stands for none.
        pairs = spread(operator.pairs.astype(np.int32), operator.mixing.shape[0])
        matrices = jax.device_put(operator.matrices.astype(operator.offset.dtype), everywhere)
        return AffineOperator(mixing, pairs, matrices, spread(operator.offset), operator.groups), shares


@jax.jit
def _repeat(operator: AffineOperator, start: jax.Array, num_iterations: Any) -> jax.Array:
    return jax.lax.fori_loop(0, num_iterations, lambda _, sketch: operator(sketch), start)
