"""One run on several devices: environments, the replay and batches are split among them, networks are on each.

Programs stay those of one device. They are told where arrays are to lie, and XLA makes of that what each device does
and what must cross between them: transitions that were drawn, and sums of gradients.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bellsketch.core.errors import InputError
from bellsketch.deep.config import TrainingConfig

AXIS = "devices"
"""Of the mesh."""
SPLIT = {"environments": 1, "step": 1, "stacked": 1, "returns": 1, "replay.rows": 2, "failure.batch": 1}
"""Parts of a state of several seeds, and their axis of environments or of transitions. All else is on every device."""


class Devices:
    """Those that a run is on. With one of them nothing is done, and programs are as if this did not exist."""

    def __init__(self, devices: Sequence[Any] = ()):
        self.devices = tuple(devices)
        self._mesh: Any = Mesh(np.array(self.devices), (AXIS,)) if len(self.devices) > 1 else None

    def __len__(self) -> int:
        return max(1, len(self.devices))

    def hold(self, state: Any) -> Any:
        """A state that lies as it should. In a program, as are the next two."""
        if self._mesh is None:
            return state
        return jax.tree_util.tree_map_with_path(
            lambda path, x: _lie(x, self._place(path)) if eqx.is_array(x) else x, state
        )

    def split(self, arrays: Any) -> Any:
        """Arrays of [s, e, …] that are split among devices along e; also of [u, b, …], along b."""
        return arrays if self._mesh is None else _lie(arrays, self._along(1))

    def share_out(self, batches: Any, weights: Any) -> tuple[Any, Any]:
        """The transitions of batches split among devices. All know all weights."""
        if self._mesh is None:
            return batches, weights
        # First everywhere: or XLA also splits the drawing of them, and sends the flags of all rows around for it.
        batches, weights = _lie((batches, weights), self._along(None))
        return self.split(batches), weights

    def shape(self, state: Any) -> Any:
        """The shapes of a state, with where it lies."""
        if self._mesh is None:
            return state
        return jax.tree_util.tree_map_with_path(
            lambda path, x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._place(path)), state
        )

    def one(self, networks: Any) -> Any:
        """What is on every device, as it is on the first."""
        if self._mesh is None:
            return networks
        return jax.tree.map(lambda x: x.addressable_shards[0].data if eqx.is_array(x) else x, networks)

    def _place(self, path: Any) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator=".") + "."
        return self._along(next((axis for part, axis in SPLIT.items() if name.startswith(f"{part}.")), None))

    def _along(self, axis: int | None) -> NamedSharding:
        return NamedSharding(self._mesh, PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, AXIS))


def _lie(arrays: Any, sharding: NamedSharding) -> Any:
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, sharding), arrays)


ONE = Devices()


def find_devices(num: int, config: TrainingConfig) -> Devices:
    """The first few of the kind that JAX computes on, if a run can be split among so many."""
    if num < 1:
        raise InputError(f"devices={num}: a run needs at least 1")
    if num == 1:
        return ONE
    default: Any = jnp.zeros(()).device
    kind = default.platform
    found = jax.local_devices(backend=kind)
    if num > len(found):
        raise InputError(
            f"devices={num}: JAX finds {len(found)} here, of kind {kind}; pass at most so many. To try it on a CPU, set"
            f" XLA_FLAGS=--xla_force_host_platform_device_count={num} and pass --device cpu"
        )
    groups, batch_size = config.groups, config.loop.batch_size
    if (environments := config.loop.num_environments) % (num * groups):
        raise InputError(
            f"devices={num}, num_environments={environments}: each device takes equally many"
            f"{f', of each of {groups} groups' * (groups > 1)}, and {environments} is not a multiple of {num * groups};"
            f" pass --num-environments {_nearest(environments, lambda n: _splits(config, n, num))}, or"
            f" {'fewer --groups, or ' * (environments % num == 0)}another --devices"
        )
    if batch_size % num:
        raise InputError(
            f"devices={num}, batch_size={batch_size}: each device takes equally many, and {batch_size} is not a"
            f" multiple of {num}; pass --batch-size {_nearest(batch_size, lambda n: n % num == 0)}, or another"
            " --devices"
        )
    return Devices(found[:num])


def _splits(config: TrainingConfig, environments: int, num: int) -> bool:
    """Whether a run could have so many environments, and devices equally many of each group that there were then."""
    try:
        loop = dataclasses.replace(config.loop, num_environments=environments)
    except InputError:
        return False
    groups = config.groups_of(loop)
    return environments % (num * groups) == 0 and loop.updates % groups == 0


def _nearest(value: int, works: Callable[[int], bool]) -> str:
    """What works, on either side."""
    below = next((n for n in range(value, 0, -1) if works(n)), None)
    above = next(n for n in itertools.count(value) if works(n))
    return f"{above}" if below is None else f"{below} or {above}"
