"""Bellman operators that are affine in what a method stores: one linear map per reward, and a constant."""

import concurrent.futures
import functools
import itertools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jax.experimental import sparse as jsp
from jaxtyping import Float, Int
from scipy.sparse.linalg import LinearOperator, eigs
from threadpoolctl import ThreadpoolController

from bellsketch.core.arrays import Array
from bellsketch.core.pytree import pytree, static
from bellsketch.core.structure import Dense, Form, choose_form
from bellsketch.tabular.mrp import MRP

DENSE_EIGENVALUES = 1_000
"""Spectral radii of at most this many unknowns are found from all eigenvalues, larger ones by Arnoldi's method."""
DENSE_MIXING = 4_000_000
"""Mixing matrices with at most this many entries are kept dense on the device."""
BLOCK_BYTES = 2**21
"""On the host, backups go through the states in blocks of this size, which stay in a processor's cache."""


@pytree
class PaddedRows:
    """A sparse matrix with about equally many entries in each row, for products on the device without intermediates."""

    columns: Int[Array, "q k"]
    weights: Float[Array, "q k"]
    """0 where a row has fewer than k entries."""

    def __matmul__(self, sketch: Float[jax.Array, "s m"]) -> Float[jax.Array, "q m"]:
        columns, weights = jnp.asarray(self.columns), jnp.asarray(self.weights)
        terms = (weights[:, i, None] * sketch[columns[:, i]] for i in range(columns.shape[1]))
        return sum(terms, start=jnp.zeros((), sketch.dtype))  # fused by the compiler into one pass


@pytree
class AffineOperator:
    """U ↦ E[A_R U(X') + c_R | X = x] as one affine map of [s, m] arrays.

    This is the sketch Bellman operator 𝒯_φ, and with other matrices the categorical one. A backup mixes the values of
    successors for each pair (state, reward), applies each reward's A to its pairs, and adds the pairs of each state up.
    If reward and successor are independent there is one pair per state: the paper's conditional-independence form.
    """

    mixing: Any
    """P(reward of the pair, x' | state of the pair), [q, s]: SciPy sparse on the host, on the device dense, padded rows
    or BCOO."""
    pairs: Int[Array, "s k"]
    """The pairs of each state, padded with q."""
    matrices: Float[Array, "r m m"]
    offset: Float[Array, "s m"]
    """E[c_R]; for terminating outcomes the value of the last reward, such as E[φ(R)]."""
    groups: tuple[tuple[int, int, int], ...] = static()
    """(reward, first pair, last pair + 1): pairs with the same reward stand together, ordered by state."""

    def __call__(self, sketch: Float[Array, "s m"]) -> Float[Array, "s m"]:
        if not sp.issparse(self.mixing):
            return self._on_device(jnp.asarray(sketch))
        return self.add_linear(np.asarray(sketch), np.array(self.offset))

    def linear(self, sketch: Float[Array, "s m"]) -> Float[Array, "s m"]:
        """The operator without its constant part, on the host."""
        return self.add_linear(np.asarray(sketch), np.zeros_like(self.offset))

    def residual(self, sketch: Float[np.ndarray, "s m"]) -> Float[np.ndarray, " s"]:
        """‖(𝒯U − U)(x)‖₂ for each state, on the host in float64."""
        backed_up = self(sketch)
        backed_up -= sketch
        return np.sqrt(np.einsum("sm,sm->s", backed_up, backed_up, dtype=np.float64))

    def _on_device(self, sketch: jax.Array) -> jax.Array:
        mixed = self.mixing @ sketch
        # In full precision: accelerators would otherwise round float32 factors to ten bits.
        matrices = jnp.asarray(self.matrices, sketch.dtype)
        parts = [jnp.matmul(mixed[a:b], matrices[r].T, precision="highest") for r, a, b in self.groups]
        parts.append(jnp.zeros_like(sketch[:1]))
        return jnp.concatenate(parts)[jnp.asarray(self.pairs)].sum(axis=1) + self.offset

    def add_linear(self, sketch: Float[np.ndarray, "s m"], total: Float[np.ndarray, "s m"]) -> Float[np.ndarray, "s m"]:
        """Add the linear part at ``sketch`` to ``total`` in place, on the host: a block of states at a time."""
        num_states, m = total.shape
        rows = max(1, BLOCK_BYTES // (m * total.itemsize))

        def block(first: int) -> None:
            states = slice(first, min(first + rows, num_states))
            for (_, start, stop), product in zip(self.groups, self.products, strict=True):
                near = self.owners[start:stop].searchsorted([states.start, states.stop]) + start
                if near[0] == near[1]:
                    continue
                mixed = self.mixing[near[0] : near[1]] @ sketch
                part = product(mixed.astype(self.matrices.dtype, copy=False))
                whole = len(part) == states.stop - states.start
                total[states if whole else self.owners[near[0] : near[1]]] += part

        if num_states <= rows:
            block(0)
            return total
        # One thread per processor, each with a BLAS of its own: blocks are too small to be shared.
        with single_threaded_blas(), concurrent.futures.ThreadPoolExecutor(num_processors()) as pool:
            list(pool.map(block, range(0, num_states, rows)))
        return total

    @functools.cached_property
    def owners(self) -> Int[np.ndarray, " q"]:
        """The state of each pair."""
        owners = np.zeros(self.mixing.shape[0] + 1, dtype=np.int64)
        owners[self.pairs] = np.arange(self.pairs.shape[0])[:, None]
        return owners[:-1]

    @functools.cached_property
    def products(self) -> tuple[Form, ...]:
        """For each group the product with its A, in the form that is the fastest for its structure if rows are many."""
        m = self.matrices.shape[-1]
        return tuple(
            choose_form(matrix) if stop - start >= m else Dense(0.0, matrix)
            for (r, start, stop), matrix in ((group, np.asarray(self.matrices[group[0]])) for group in self.groups)
        )

    def on_device(self) -> "AffineOperator":
        """The same operator in arrays that can enter jit."""
        return AffineOperator(_device_mixing(self.mixing), self.pairs, self.matrices, self.offset, self.groups)

    def astype(self, dtype: Any) -> "AffineOperator":
        """The same operator on the host for sketches in another precision, which take less memory.

        Coefficients stay as they are: their entries are large and cancel, so that rounding them would cost digits.
        """
        return AffineOperator(
            self.mixing.astype(dtype), self.pairs, self.matrices, self.offset.astype(dtype), self.groups
        )

    @property
    def structure(self) -> str:
        """In which form products with the rewards' matrices are taken, in words."""
        return "; ".join(dict.fromkeys(form.description for form in self.products))

    @property
    def is_small(self) -> bool:
        """Whether the mixing matrix is kept dense on the device."""
        return _is_small(self.mixing)

    @property
    def num_unknowns(self) -> int:
        """States × numbers for each."""
        return int(self.offset.size)

    def dense(self) -> Float[np.ndarray, "u u"]:
        """The matrix of the linear part, acting on flattened [s, m] sketches."""
        states, m = self.offset.shape
        total = np.zeros((states, m, states, m))
        for r, start, stop in self.groups:
            for q in range(start, stop):
                row = self.mixing[[q]].toarray()[0]
                near = np.flatnonzero(row)
                total[self.owners[q], :, near, :] += row[near, None, None] * self.matrices[r]
        return total.reshape(states * m, states * m)

    def spectral_radius(self) -> float:
        """Of the linear part: below 1, iterating converges."""
        if self.num_unknowns <= DENSE_EIGENVALUES:
            return float(np.abs(scipy.linalg.eigvals(self.dense())).max())
        return float(np.abs(eigs(self.as_linear_operator(), k=1, return_eigenvectors=False, tol=1e-6)).max())

    def as_linear_operator(self) -> LinearOperator:
        """The linear part on flattened sketches, for SciPy."""
        size, shape = self.num_unknowns, self.offset.shape
        return LinearOperator((size, size), lambda u: self.linear(u.reshape(shape)).ravel(), dtype=self.offset.dtype)


def _is_small(mixing: Any) -> bool:
    return bool(np.prod(mixing.shape) <= DENSE_MIXING)


def _device_mixing(mixing: sp.csr_array) -> Any:
    if _is_small(mixing):
        return mixing.toarray()
    counts = np.diff(mixing.indptr)
    if counts.max() <= 2 * counts.mean():
        return padded_rows(mixing)
    with jax.enable_x64(True):
        return jsp.BCOO.from_scipy_sparse(mixing)


def padded_rows(mixing: sp.csr_array) -> PaddedRows:
    """A SciPy matrix in arrays that can enter jit."""
    counts = np.diff(mixing.indptr)
    place = np.repeat(np.arange(counts.size), counts), np.arange(mixing.nnz) - np.repeat(mixing.indptr[:-1], counts)
    columns = np.zeros((counts.size, counts.max(initial=1)), dtype=np.int32)
    weights = np.zeros(columns.shape, dtype=mixing.dtype)
    columns[place], weights[place] = mixing.indices, mixing.data
    return PaddedRows(columns, weights)


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """A context for many small products, which threads of BLAS would only slow down."""
    return _libraries().limit(limits=1, user_api="blas")


def num_processors() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def iterate(
    operators: Sequence[AffineOperator], starts: Float[np.ndarray, "b s m"], num_iterations: int
) -> Float[np.ndarray, "b s m"]:
    """Repeat the backups of several operators of one model side by side, in one jitted loop.

    Nothing is raised where they diverge; the numbers are just large, or not finite.
    """
    starts = np.array(starts, dtype=np.float64)
    if len(operators) > 1 and not operators[0].is_small:  # sparse matrices do not stack, and gain nothing by it
        return np.concatenate([iterate([o], u[None], num_iterations) for o, u in zip(operators, starts, strict=True)])
    with jax.enable_x64(True):
        ready = [operator.on_device() for operator in operators]
        if len(ready) == 1:
            return np.asarray(_iterate_one(ready[0], starts[0], num_iterations))[None]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *ready)
        return np.asarray(_iterate(stacked, starts, num_iterations))


@jax.jit
def _iterate_one(operator: AffineOperator, start: jax.Array, num_iterations: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, num_iterations, lambda _, sketch: operator(sketch), start)


_iterate = jax.jit(jax.vmap(_iterate_one, in_axes=(0, 0, None)))


def affine_operator(
    mrp: MRP,
    matrices: Float[np.ndarray, "r m m"],
    offsets: Float[np.ndarray, "r m"],
    endings: Float[np.ndarray, "r m"],
) -> AffineOperator:
    """The operator of a model on the host, from A and c of each of its rewards and the value each leaves at the end."""
    o, num_states, num_rewards = mrp.outcomes, mrp.num_states, len(mrp.rewards)
    go = ~o.terminal
    # P(reward, goes on or ends | x) times what each of the two adds
    kind = o.reward + num_rewards * o.terminal
    chances = sp.csr_array((o.probability, (o.state, kind)), shape=(num_states, 2 * num_rewards))
    offset = chances @ np.concatenate([offsets, endings])

    # Number the pairs (reward, state) that go on, reward by reward.
    codes, pair = np.unique(o.reward[go] * num_states + o.state[go], return_inverse=True)
    reward_of, state_of = codes // num_states, codes % num_states
    mixing = sp.csr_array((o.probability[go], (pair, o.successor[go])), shape=(codes.size, num_states))
    bounds = np.searchsorted(reward_of, np.arange(num_rewards + 1))
    groups = tuple((r, int(a), int(b)) for r, (a, b) in enumerate(itertools.pairwise(bounds)) if a < b)

    order = np.argsort(state_of, kind="stable")
    column = np.arange(codes.size) - np.searchsorted(state_of[order], state_of[order])
    table = np.full((num_states, int(column.max(initial=0)) + 1), codes.size)
    table[state_of[order], column] = order
    return AffineOperator(mixing, table, matrices, offset, groups)
