"""The one shape of an algorithm, and the driver that runs it.

An algorithm is three pure functions over one state: ``init(key)``, ``step(key, state)`` and ``decode(state)``. State is
what the next step needs, Info what a person wants to see.
"""

import dataclasses
import functools
from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import DivergenceError, InputError
from bellsketch.core.pytree import pytree

MAX_SEGMENTS = 50
"""A run is cut into at most this many jitted scans; between them progress is shown and divergence looked for."""
DIVERGED = 1e6
"""A change by this many times the largest number in the algorithm and its initial state is no transient."""


@pytree
class Info:
    """What one step has to say."""

    change: Float[Array, "..."]
    """The largest absolute change of any number the algorithm stores."""


class Algorithm(ABC):
    """A method that learns the return distribution of every state. Implementations are frozen pytrees."""

    @abstractmethod
    def init(self, key: jax.Array) -> Any:
        """The initial state."""

    @abstractmethod
    def step(self, key: jax.Array, state: Any) -> tuple[Any, Info]:
        """One update."""

    @abstractmethod
    def decode(self, state: Any) -> AtomicDistribution:
        """The return distributions of all states, as a batch."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The outcome of :func:`run`. Leaves are NumPy arrays; axes of seeds and varied fields come first."""

    state: Any
    change: Float[np.ndarray, "... t"]
    """``Info.change`` of every step."""
    steps: Int[np.ndarray, " h"]
    """The step counts at which ``history`` was taken."""
    history: Any
    """States after each of ``steps`` (along the first axis), or None."""


def run(
    key: jax.Array,
    algorithm: Algorithm,
    num_steps: int,
    *,
    state: Any = None,
    start: int = 0,
    vary: tuple[str, ...] = (),
    record_every: int | None = None,
    progress: bool = False,
    stop_on_divergence: bool = True,
) -> Run:
    """Iterate an algorithm in float64 under one jitted scan, whatever JAX's precision is.

    Args:
      key: a random key, or a vector of keys to run as many seeds side by side.
      algorithm: what to iterate.
      num_steps: how often.
      state: where to start, default ``algorithm.init(key)``.
      start: the number of steps already taken to reach ``state``; a run cut in two draws the same random numbers.
      vary: names of fields of the algorithm that carry an extra leading axis. The run is vmapped over it, outside the
        axis of seeds: ``replace(td, step_size=Constant(rates)), vary=("step_size",)`` compares step sizes in one scan.
      record_every: keep the state after every so many steps.
      progress: show a bar.
      stop_on_divergence: raise where numbers run away; otherwise go on, for example because other step sizes do not.

    Raises:
      DivergenceError: as soon as stored numbers change by a million times what was there, or are not finite.
    """
    if num_steps < 0:
        raise InputError(f"num_steps={num_steps}: must not be negative")
    if record_every is not None and record_every < 1:
        raise InputError(f"record_every={record_every}: must be at least 1")
    _check_fields(algorithm, vary)
    segment = record_every or max(1, -(-num_steps // MAX_SEGMENTS))
    # JAX remembers by identity that it once rounded an array to float32, if a user's jit closed over it.
    algorithm = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, algorithm)
    with jax.enable_x64(True), _bar(progress) as bar:
        task = bar.add_task(type(algorithm).__name__, total=num_steps)
        axes = (_has_seeds(key), vary)
        if state is None:
            state = _call(_init, None, *axes, key, algorithm)
        changes, history, steps = [], [], []
        scale = _largest_number((state, algorithm))
        for done in range(0, num_steps, segment):
            count = min(segment, num_steps - done)
            state, change = _call(_scan, count, *axes, key, algorithm, state, start + done)
            changes.append(np.asarray(change))
            if stop_on_divergence:
                _check_divergence(changes[-1], start + done, scale)
            if record_every is not None:
                history.append(jax.tree.map(np.asarray, state))
                steps.append(start + done + count)
            bar.update(task, completed=done + count)
        state = jax.tree.map(np.asarray, state)
    return Run(
        state,
        np.concatenate(changes, axis=-1) if changes else np.zeros(0),
        np.array(steps, dtype=np.int64),
        jax.tree.map(lambda *states: np.stack(states), *history) if history else None,
    )


def _init(key: jax.Array, algorithm: Algorithm) -> Any:
    return algorithm.init(key)


def _scan(key: jax.Array, algorithm: Algorithm, state: Any, start: Any, *, count: int) -> tuple[Any, jax.Array]:
    def step(state: Any, t: jax.Array) -> tuple[Any, jax.Array]:
        state, info = algorithm.step(jax.random.fold_in(key, t), state)
        return state, info.change

    return jax.lax.scan(step, state, start + jnp.arange(count))


def _has_seeds(key: jax.Array) -> bool:
    """Whether a key is a vector of keys (typed keys have no axes of their own, raw ones have one)."""
    return key.ndim == (0 if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else 1) + 1


def _check_fields(algorithm: Algorithm, vary: tuple[str, ...]) -> None:
    names = [f.name for f in dataclasses.fields(algorithm)]  # type: ignore[arg-type]
    if unknown := [name for name in vary if name not in names]:
        raise InputError(f"vary: {type(algorithm).__name__} has no field {unknown[0]!r}; it has {', '.join(names)}")


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _call(
    f: Any, count: int | None, seeds: bool, vary: tuple[str, ...], key: jax.Array, algorithm: Any, *rest: Any
) -> Any:
    """f(key, algorithm, …), vmapped over seeds and over varied fields of the algorithm."""
    inner = f if count is None else functools.partial(f, count=count)
    state_axes = (0, None)[: len(rest)]
    if seeds:
        inner = jax.vmap(inner, in_axes=(0, None, *state_axes))
    if vary:
        axes = jax.tree_util.tree_map_with_path(lambda path, _: 0 if path[0].name in vary else None, algorithm)
        inner = jax.vmap(inner, in_axes=(None, axes, *state_axes))
    return inner(key, algorithm, *rest)


def _largest_number(tree: Any) -> float:
    """The size of the largest number in any leaf: rewards and coefficients are among an algorithm's."""
    return max([1.0, *(float(np.abs(np.asarray(leaf)).max(initial=0.0)) for leaf in jax.tree.leaves(tree))])


def _check_divergence(change: np.ndarray, start: int, scale: float) -> None:
    bad = ~(change <= DIVERGED * scale)  # also catches NaN
    if not bad.any():
        return
    step = start + int(np.argmax(bad.reshape(-1, change.shape[-1]).any(axis=0))) + 1
    raise DivergenceError(
        f"the iteration diverged: at step {step} stored numbers change by {change[bad].flat[0]:.3g}, where no reward,"
        f" coefficient or initial number exceeds {scale:.3g}. Try more features or a larger ridge (the operator norm"
        " should be below 1), intercept='free', method='solve', or for TD a smaller step size"
    )


def _bar(enabled: bool) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, disable=not enabled, transient=True)
