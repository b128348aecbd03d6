"""The arrays of a state in a directory, as Orbax writes them, and what they were: names, shapes, random keys."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.core.errors import InputError

CHUNK_BYTES = 2**24
"""Arrays are compressed in pieces of this size: on two cores Orbax reads 200 MB in 0.15 s, in one piece in 0.3 s."""

Leaves = dict[str, dict[str, Any]]
"""What each leaf of a state is, by name: its shape and dtype, where its array is, and what kind of key it was."""


def write_arrays(directory: Path, state: Any) -> Leaves:
    """Write the arrays among the leaves of a state; what is needed to read them again, as JSON can hold it."""
    leaves: Leaves = {}
    arrays: dict[str, np.ndarray] = {}
    for name, leaf in _arrays(state).items():
        leaves[name] = _describe(leaf)
        if _is_key(leaf):
            leaves[name]["key"], leaf = str(jax.random.key_impl(leaf)), jax.random.key_data(leaf)
        if leaf.size:  # Orbax refuses empty arrays
            leaves[name]["array"] = str(len(arrays))
            arrays[leaves[name]["array"]] = np.asarray(leaf)
    if arrays:
        with _orbax() as (ocp, checkpointer):
            pieces = {name: ocp.SaveArgs(chunk_byte_size=CHUNK_BYTES) for name in arrays}
            checkpointer.save(directory, args=ocp.args.PyTreeSave(arrays, save_args=pieces))
    return leaves


def read_arrays(directory: Path, saved: Leaves, like: Any) -> Any:
    """The saved arrays in the places of those of ``like``."""
    wanted = _arrays(like)
    if (fault := next(_mismatches(saved, wanted), None)) is not None:
        raise InputError(f"{directory}: {fault}; restore it with the agent and settings that it was saved with")
    arrays = _read(directory, [leaf["array"] for leaf in saved.values() if "array" in leaf])
    restored = []
    for name, target in wanted.items():
        # Popped, so that the host keeps no array longer than needed.
        restored.append(_like(target, _array(saved[name], arrays.pop(saved[name].get("array", ""), None))))
        if restored[-1].dtype != target.dtype:
            raise InputError(
                f"{directory}: JAX has no {target.dtype} for leaf {name}; set jax_enable_x64 as when saving"
            )
    places = iter(restored)
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [next(places) if _is_array(leaf) else leaf for leaf in leaves])


def _arrays(tree: Any) -> dict[str, Any]:
    """The leaves that are arrays, or stand for some, by name."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path) or "state": leaf for path, leaf in leaves if _is_array(leaf)}


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _describe(leaf: Any) -> dict[str, Any]:
    return {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}


def _mismatches(saved: Leaves, wanted: dict[str, Any]) -> Iterator[str]:
    yield from (f"leaf {name} is not an array in `like`" for name in saved if name not in wanted)
    yield from (f"leaf {name} of `like` is not there" for name in wanted if name not in saved)
    for name, leaf in saved.items():
        for key, here in _describe(wanted[name]).items():
            if leaf[key] != here:
                yield f"leaf {name} has {key} {leaf[key]} there, {here} in `like`"


def _array(leaf: dict[str, Any], stored: np.ndarray | None) -> Any:
    """A leaf from what is stored of it, which is nothing if it is empty."""
    if "key" in leaf:
        words = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=leaf["key"]))).shape
        data = np.zeros((*leaf["shape"], *words), np.uint32) if stored is None else stored
        return jax.random.wrap_key_data(jnp.asarray(data), impl=leaf["key"])
    return np.zeros(leaf["shape"], jnp.dtype(leaf["dtype"])) if stored is None else stored


def _like(target: Any, array: Any) -> Any:
    """An array of the kind, and in the place, of another."""
    if isinstance(target, np.generic):
        return array[()]
    if isinstance(target, np.ndarray):
        return array if array.flags.writeable else array.copy()
    chosen = isinstance(target, jax.ShapeDtypeStruct) or target.committed
    return jax.device_put(array, target.sharding if chosen else None)


def _read(directory: Path, names: list[str]) -> dict[str, np.ndarray]:
    if not names:
        return {}
    with _orbax() as (ocp, checkpointer):
        kinds = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
        return dict(checkpointer.restore(directory, args=ocp.args.PyTreeRestore(restore_args=kinds)))


@contextlib.contextmanager
def _orbax() -> Iterator[tuple[Any, Any]]:
    """Its module, which takes a second to import and which only runs with checkpoints need, and a checkpointer."""
    with _leaving_logging_alone():
        import orbax.checkpoint as ocp

        # OCDBT: a dozen files whatever the number of arrays. Compression: made-up sparse frames shrank to 2%.
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=False, use_compression=True)
        with ocp.Checkpointer(handler) as checkpointer:
            yield ocp, checkpointer


@contextlib.contextmanager
def _leaving_logging_alone() -> Iterator[None]:
    """Orbax's logger sets up Python's root logger if nobody has, even on import. That is the user's to do."""
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
