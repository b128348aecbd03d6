"""Approximate inverses of I − M, with M the linear part of a Bellman operator, that make Krylov methods fast.

Near discount 1 plain iteration crawls: some sketches decay by no more than γ in a step. Two cheap models of M have the
same slow directions and can be inverted:

- ``Kronecker``: every reward has the average A. Then M = P ⊗ A, and with a Schur decomposition of A the system falls
  apart into one sparse system (I − t_k P) for each eigenvalue t_k of A. For chains and walks on a line, where slow
  errors are many and sparse factors cost next to nothing.
- ``Aggregation``: states are gathered into a few groups, and the errors that are constant on groups are removed by a
  small dense system. For all others: the better their transitions mix, the fewer slow errors there are besides.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from bellsketch.tabular.operator import AffineOperator, single_threaded_blas

FACTOR_BYTES = 2e9
"""Sparse factors that may take more memory than this are not computed."""
NARROW = 8
"""With a larger bandwidth (a grid of 100 × 100 has 100) m sparse solves cost more than the backups they save."""
NEGLIGIBLE = 0.2
"""Eigenvalues of A this small need no factors: their errors vanish in a few backups."""
ROWS = 8
COARSE_UNKNOWNS = 2_000
"""Groups × features of an aggregated system."""

Preconditioner = Callable[[np.ndarray], np.ndarray]
"""From a residual [s, m] to an approximate correction."""


def choose_preconditioner(operator: AffineOperator) -> tuple[str, Preconditioner]:
    """The one that suits the model's transitions, and its name."""
    num_states, m = operator.offset.shape
    transitions = total_transitions(operator)
    order = reverse_cuthill_mckee(transitions, symmetric_mode=False)
    place = np.empty(num_states, dtype=np.int64)
    place[order] = np.arange(num_states)
    rows = np.repeat(np.arange(num_states), np.diff(transitions.indptr))
    bandwidth = int(np.abs(place[rows] - place[transitions.indices]).max(initial=0))
    most_entries = num_states * (2.0 * bandwidth + 1)  # what elimination in this order would fill
    if bandwidth <= NARROW and m * most_entries * np.dtype(np.complex64).itemsize <= FACTOR_BYTES:
        return "Kronecker", Kronecker(operator, transitions)
    return "aggregation", Aggregation(operator, place)


def total_transitions(operator: AffineOperator) -> sp.csr_array:
    """P(x' | x), all rewards together."""
    count = operator.owners.size
    collect = sp.csr_array((np.ones(count), (operator.owners, np.arange(count))), shape=operator.mixing.shape[::-1])
    return (collect @ operator.mixing).tocsr()


class Kronecker:
    """(I − P ⊗ A)⁻¹ with A the average over all rewards. Single precision is enough for a preconditioner."""

    def __init__(self, operator: AffineOperator, transitions: sp.csr_array):
        mass = np.array([operator.mixing[start:stop].sum() for _, start, stop in operator.groups])
        chosen = np.asarray(operator.matrices, dtype=np.float64)[[r for r, _, _ in operator.groups]]
        average = np.tensordot(mass / mass.sum(), chosen, axes=1)
        triangle, vectors = scipy.linalg.schur(average, output="complex")
        self._triangle, self._vectors = triangle.astype(np.complex64), vectors.astype(np.complex64)
        self._transitions = transitions.astype(np.complex64)
        identity, sparse = sp.eye_array(transitions.shape[0], format="csc"), transitions.tocsc()
        self._factors = [
            _factors((identity - t * sparse).tocsc()) if abs(t) > NEGLIGIBLE else None for t in np.diag(triangle)
        ]

    def __call__(self, residual: np.ndarray) -> np.ndarray:
        # With A = Z T Z*, rows of W = Z* Uᵀ satisfy W_k = (Z* Bᵀ)_k + P Σ_{j ≥ k} T_kj W_j: from the last row upwards,
        # in blocks of rows, so that most of the sums are matrix products.
        with single_threaded_blas():
            rows = self._vectors.conj().T @ residual.T.astype(np.complex64)
            for first in range((len(rows) - 1) // ROWS * ROWS, -1, -ROWS):
                last = min(first + ROWS, len(rows))
                rows[first:last] += self._coupling(rows, slice(first, last), last)
                for k in range(last - 1, first - 1, -1):
                    rows[k] += self._coupling(rows[:last], k, k + 1)
                    rows[k] = self._solve(k, rows[k])
            return np.ascontiguousarray((self._vectors @ rows).real.T, dtype=residual.dtype)

    def _coupling(self, rows: np.ndarray, of: int | slice, start: int) -> np.ndarray:
        """What the rows from ``start`` on contribute to one or several rows."""
        stop = len(rows)
        return (self._transitions @ (self._triangle[of, start:stop] @ rows[start:]).T).T

    def _solve(self, k: int, right: np.ndarray) -> np.ndarray:
        """(I − t_k P)⁻¹; where there are no factors, the first two terms of its series."""
        factors = self._factors[k]
        return right + self._triangle[k, k] * (self._transitions @ right) if factors is None else factors.solve(right)


def _factors(system: sp.csc_array) -> Any:
    try:
        return splu(system.astype(np.complex64))
    except RuntimeError:  # singular: the average of all rewards may well be where the model itself is not
        return None


class Aggregation:
    """The residual itself, plus a correction that is constant on groups of neighbouring states."""

    def __init__(self, operator: AffineOperator, place: np.ndarray):
        num_states, m = operator.offset.shape
        num_groups = max(1, min(num_states, COARSE_UNKNOWNS // m))
        group = place * num_groups // num_states
        self._spread = sp.csr_array((np.ones(num_states), (np.arange(num_states), group)))
        self._gather = (self._spread / np.bincount(group)).T.tocsr()
        system = np.zeros((num_groups, m, num_groups, m))
        for r, start, stop in operator.groups:
            collected = self._gather[:, operator.owners[start:stop]] @ operator.mixing[start:stop] @ self._spread
            system -= np.einsum("ab,ij->aibj", collected.toarray(), operator.matrices[r])
        size = num_groups * m
        self._factors = scipy.linalg.lu_factor(np.eye(size) + system.reshape(size, size))

    def __call__(self, residual: np.ndarray) -> np.ndarray:
        coarse = scipy.linalg.lu_solve(self._factors, (self._gather @ residual).ravel())
        return residual + (self._spread @ coarse.reshape(-1, residual.shape[1])).astype(residual.dtype)
