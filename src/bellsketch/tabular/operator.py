"""Bellman operators that are affine in what a method stores: one linear map per reward, and a constant."""

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jax.experimental import sparse as jsp
from jaxtyping import Float, Int
from scipy.sparse.linalg import LinearOperator, eigs, gmres

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.errors import BellsketchWarning, DivergenceError
from bellsketch.core.pytree import pytree, static
from bellsketch.tabular.mrp import MRP

DENSE_UNKNOWNS = 5_000
"""Linear systems with at most this many unknowns (states × features) are solved by dense LU, larger ones by GMRES."""
DENSE_EIGENVALUES = 1_000
"""Spectral radii of at most this many unknowns are found from all eigenvalues, larger ones by Arnoldi's method."""
DENSE_MIXING = 4_000_000
"""Mixing matrices with at most this many entries are kept dense on the device."""


@pytree
class AffineOperator:
    """U ↦ E[A_R U(X') + c_R | X = x] as one affine map of [s, m] arrays.

    This is the sketch Bellman operator 𝒯_φ, and with other matrices the categorical one. A backup mixes the values of
    successors for each pair (state, reward), applies each reward's A to its pairs, and adds the pairs of each state up.
    If reward and successor are independent there is one pair per state: the paper's conditional-independence form.
    """

    mixing: Any
    """P(reward of the pair, x' | state of the pair), [q, s]: SciPy sparse on the host, dense or BCOO on the device."""
    pairs: Int[Array, "s k"]
    """The pairs of each state, padded with q."""
    matrices: Float[Array, "r m m"]
    offset: Float[Array, "s m"]
    """E[c_R]; for terminating outcomes the value of the last reward, such as E[φ(R)]."""
    groups: tuple[tuple[int, int, int], ...] = static()
    """(reward, first pair, last pair + 1): pairs with the same reward stand together."""

    def __call__(self, sketch: Float[Array, "s m"]) -> Float[Array, "s m"]:
        xp = namespace(sketch)
        mixed = self.mixing @ sketch
        parts = [mixed[start:stop] @ self.matrices[r].T for r, start, stop in self.groups]
        parts.append(xp.zeros_like(sketch[:1]))
        return xp.concatenate(parts)[self.pairs].sum(axis=1) + self.offset

    def on_device(self) -> "AffineOperator":
        """The same operator in arrays that can enter jit."""
        mixing = self.mixing.toarray() if self.is_small else jsp.BCOO.from_scipy_sparse(self.mixing)
        return AffineOperator(mixing, self.pairs, self.matrices, self.offset, self.groups)

    @property
    def is_small(self) -> bool:
        """Whether the mixing matrix is kept dense on the device."""
        return bool(np.prod(self.mixing.shape) <= DENSE_MIXING)

    @property
    def num_unknowns(self) -> int:
        return int(self.offset.size)

    def linear(self, sketch: Float[Array, "s m"]) -> Float[Array, "s m"]:
        """The operator without its constant part."""
        return self(sketch) - self.offset

    def dense(self) -> Float[np.ndarray, "u u"]:
        """The matrix of the linear part, acting on flattened [s, m] sketches."""
        states, m = self.offset.shape
        total = np.zeros((states, m, states, m))
        owner = np.zeros(self.mixing.shape[0] + 1, dtype=np.int64)
        owner[self.pairs] = np.arange(states)[:, None]
        for r, start, stop in self.groups:
            for q in range(start, stop):
                row = self.mixing[[q]].toarray()[0]
                near = np.flatnonzero(row)
                total[owner[q], :, near, :] += row[near, None, None] * self.matrices[r]
        return total.reshape(states * m, states * m)

    def spectral_radius(self) -> float:
        """Of the linear part: below 1, iterating converges."""
        if self.num_unknowns <= DENSE_EIGENVALUES:
            return float(np.abs(scipy.linalg.eigvals(self.dense())).max())
        return float(np.abs(eigs(self._as_linear_operator(), k=1, return_eigenvectors=False, tol=1e-6)).max())

    def fixed_point(self) -> Float[np.ndarray, "s m"]:
        """U = 𝒯_φ U by solving the linear system, which also exists where iterating diverges."""
        if self.num_unknowns <= DENSE_UNKNOWNS:
            system = np.eye(self.num_unknowns) - self.dense()
            return _solve_dense(system, self.offset.ravel()).reshape(self.offset.shape)
        size = self.num_unknowns
        system = LinearOperator((size, size), matvec=lambda u: u - self._flat_linear(u), dtype=np.float64)
        solution, flag = gmres(system, self.offset.ravel(), rtol=1e-12, atol=0.0, restart=50, maxiter=200)
        if flag:
            raise DivergenceError(
                "GMRES did not reach a residual of 1e-12: pass method='iterate', or a smaller discount"
            )
        return solution.reshape(self.offset.shape)

    def _flat_linear(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(self.linear(u.reshape(self.offset.shape))).ravel()

    def _as_linear_operator(self) -> LinearOperator:
        return LinearOperator((self.num_unknowns, self.num_unknowns), matvec=self._flat_linear, dtype=np.float64)


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


def _solve_dense(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", scipy.linalg.LinAlgWarning)
        try:
            solution = scipy.linalg.solve(system, right)
        except scipy.linalg.LinAlgError:
            raise DivergenceError(
                "the fixed point is not unique (the linear system is singular): use intercept='free' or a larger ridge"
            ) from None
    if caught:
        warnings.warn(
            "the linear system of the fixed point is nearly singular and its solution may have few correct digits: use"
            " features of similar size (Polynomial.from_range, not raw powers), fewer of them, or a larger ridge",
            BellsketchWarning,
            stacklevel=4,
        )
    return np.asarray(solution)


def affine_operator(
    mrp: MRP,
    matrices: Float[np.ndarray, "r m m"],
    offsets: Float[np.ndarray, "r m"],
    endings: Float[np.ndarray, "r m"],
) -> AffineOperator:
    """The operator of a model on the host, from A and c of each of its rewards and the value each leaves at the end."""
    o = mrp.outcomes
    go = ~o.terminal
    contribution = np.where(go[:, None], offsets[o.reward], endings[o.reward]) * o.probability[:, None]
    offset = np.zeros((mrp.num_states, offsets.shape[1]))
    np.add.at(offset, o.state, contribution)

    # Number the pairs (reward, state) that go on, reward by reward.
    codes, pair = np.unique(o.reward[go] * mrp.num_states + o.state[go], return_inverse=True)
    reward_of, state_of = codes // mrp.num_states, codes % mrp.num_states
    mixing = sp.csr_array((o.probability[go], (pair, o.successor[go])), shape=(codes.size, mrp.num_states))
    bounds = np.searchsorted(reward_of, np.arange(len(mrp.rewards) + 1))
    groups = tuple((r, int(a), int(b)) for r, (a, b) in enumerate(itertools.pairwise(bounds)) if a < b)

    order = np.argsort(state_of, kind="stable")
    column = np.arange(codes.size) - np.searchsorted(state_of[order], state_of[order])
    table = np.full((mrp.num_states, int(column.max(initial=0)) + 1), codes.size)
    table[state_of[order], column] = order
    return AffineOperator(mixing, table, matrices, offset, groups)
