"""Structure of Bellman coefficients: forms of a matrix A in which products cost less than with all its m² entries.

For bins A_r has a few entries per row, whatever m is (the paper's App. "Computational properties"): feature i of r + γg
overlaps only the bins near (z_i − r)/γ, and a product takes linear time. A free intercept adds a matrix of rank one to
that, by Sherman and Morrison's formula for the covariance. Narrow bumps come near to it, and smooth features have few
singular values that matter. Overlapping bins do not, against what the paper says: C and C_r are bands, but C⁻¹ is full.

A form may leave out what is small. Its ``error`` bounds ‖A − form‖₂, and that is all a fixed point needs to know: if
U = A U + c, and ρ < 1 bounds the norms of the forms, then U_form − U = A_form (U_form − U) + (A_form − A) U, so that

    ‖U_form − U‖ ≤ error · ‖U‖ / (1 − ρ),

and the same with the largest norm over states for the operator of a model.
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Float

from bellsketch.core.errors import InputError

ROUNDING = 1e-10
"""Forms this near to A, relative to ‖A‖₂, count as exact: the coefficients are no more accurate themselves, as rounding
in the covariance (measured for 1,000 bins: 1.5e-11) is divided by a ridge of 1e-9 when it is inverted."""

BLOCK = 64
"""Rows multiplied at a time: sparse products need them transposed, which is cheap only within the cache."""

# What products cost, in entries per row of a dense product. Measured on one thread of an Intel Xeon with AVX-512, with
# 20,000 rows in float64: GEMM took 0.04 to 0.08 ns per entry; CSR 3.5 to 5 ns for any row of A, mostly for transposing
# and writing, and 0.4 ns per entry; two thin GEMMs as much as 2.1 to 2.4 entries per singular value and 40 to 80 for
# writing. In float32 GEMM gains more than CSR does, so these are rounded up: what is chosen breaks even there at worst.
SPARSE_ROW, SPARSE_ENTRY = 100.0, 9.0
EXTRA_ROW = 20.0
LOW_RANK_ROW, LOW_RANK_VALUE = 60.0, 2.3


@dataclasses.dataclass(frozen=True, eq=False)
class Form(ABC):
    """A matrix A of shape [k, m], kept in a form for products with many rows: ``form(rows)`` is ``rows @ A.T``."""

    name: ClassVar[str]

    error: float
    """A bound on ‖A − form‖₂, computed from what was left out and rounded."""

    @property
    @abstractmethod
    def description(self) -> str:
        """In words, such as "sparse, at most 3 of 400 entries per row"."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """Predicted time of a product with many rows, relative to that of the dense form."""

    @abstractmethod
    def __call__(self, rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n k"]:
        """``rows @ A.T`` in the precision of the rows."""


@dataclasses.dataclass(frozen=True, eq=False)
class Dense(Form):
    """All entries."""

    name = "dense"
    matrix: Float[np.ndarray, "k m"]

    @property
    def description(self) -> str:
        return self.name

    @property
    def cost(self) -> float:
        return 1.0

    def __call__(self, rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n k"]:
        return rows @ self.matrix.T.astype(rows.dtype, copy=False)


@dataclasses.dataclass(frozen=True, eq=False)
class Sparse(Form):
    """A few entries per row, and perhaps a matrix of rank one: A = entries @ [I; extra].

    The multiples of the extra row are one more column of the sparse matrix, and hardly add to its cost.
    """

    name = "sparse"
    entries: Any
    """A SciPy CSR array of shape [k, m], or [k, m + 1] with a rank-one part."""
    extra: Float[np.ndarray, "rank m"]
    """No row, or one."""

    @property
    def entries_per_row(self) -> int:
        """The most that any row has, without those of the rank-one part."""
        return int(np.diff(self.entries[:, : self.extra.shape[1]].indptr).max(initial=0))

    @property
    def description(self) -> str:
        rank_one = " + rank one" if len(self.extra) else ""
        return f"{self.name}, at most {self.entries_per_row} of {self.extra.shape[1]} entries per row{rank_one}"

    @property
    def cost(self) -> float:
        per_row = SPARSE_ROW + SPARSE_ENTRY * self.entries.nnz / self.entries.shape[0] + EXTRA_ROW * len(self.extra)
        return float(per_row / self.extra.shape[1])

    def __call__(self, rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n k"]:
        entries, extra = (part.astype(rows.dtype, copy=False) for part in (self.entries, self.extra))
        result = np.empty((len(rows), entries.shape[0]), dtype=rows.dtype)
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK].T
            result[start : start + BLOCK] = (entries @ np.concatenate([block, extra @ block])).T
        return result


@dataclasses.dataclass(frozen=True, eq=False)
class LowRank(Form):
    """left @ right, from the largest singular values."""

    name = "low rank"
    left: Float[np.ndarray, "k rank"]
    right: Float[np.ndarray, "rank m"]

    @property
    def description(self) -> str:
        return f"{self.name}, {len(self.right)} of {min(len(self.left), self.right.shape[1])}"

    @property
    def cost(self) -> float:
        return (LOW_RANK_ROW + LOW_RANK_VALUE * len(self.right)) / self.right.shape[1]

    def __call__(self, rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n k"]:
        right, left = (part.T.astype(rows.dtype, copy=False) for part in (self.right, self.left))
        return (rows @ right) @ left


def choose_form(matrix: Float[np.ndarray, "k m"], tolerance: float | None = None) -> Form:
    """The form of a matrix that is predicted to be the fastest, among those that are accurate enough.

    Args:
      matrix: A.
      tolerance: on ‖A − form‖₂. None allows for rounding only, 1e-10 ‖A‖₂; more allows small entries or singular values
        to be left out, and the form's ``error`` says how much that was.
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.size == 0 or not np.all(np.isfinite(matrix)):
        raise InputError(f"matrix: expected a matrix of finite numbers, got one of shape {matrix.shape}")
    if tolerance is not None and not (tolerance >= 0 and np.isfinite(tolerance)):
        raise InputError(f"tolerance={tolerance}: must be a finite number ≥ 0, or None to allow for rounding only")
    dense = Dense(0.0, matrix)
    if matrix.shape[1] <= min(SPARSE_ROW, LOW_RANK_ROW):  # nothing else can pay
        return dense
    exact = matrix.astype(np.float64)
    singular = scipy.linalg.svd(exact)
    allowed = ROUNDING * singular[1][0] if tolerance is None else tolerance
    forms = [dense, low_rank(exact, allowed, singular), sparse(exact, allowed), sparse_and_rank_one(exact, allowed)]
    return min((form for form in forms if form.error <= allowed), key=lambda form: form.cost)


def sparse(matrix: Float[np.ndarray, "k m"], tolerance: float) -> Sparse:
    """The entries that have to be kept for an error within the tolerance."""
    kept = truncate(matrix, tolerance)
    return Sparse(norm_bound(matrix - kept), sp.csr_array(kept), np.empty((0, matrix.shape[1])))


def sparse_and_rank_one(matrix: Float[np.ndarray, "k m"], tolerance: float) -> Sparse:
    """The same after subtracting the matrix of rank one that most entries agree on.

    Away from its few entries a row of A is a multiple of one vector. For bins that cover μ evenly this vector is
    constant, and the multiple the row's median. Where they do not, medians of columns correct it, and rows once more.
    """
    extra = _median_ratio(matrix, np.median(matrix, axis=1))
    multiples = _median_ratio(matrix.T, extra)
    rest = matrix - np.outer(multiples, extra)
    kept = truncate(rest, tolerance)
    return Sparse(norm_bound(rest - kept), sp.csr_array(np.column_stack([kept, multiples])), extra[None])


def low_rank(
    matrix: Float[np.ndarray, "k m"],
    tolerance: float,
    singular: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> LowRank:
    """The singular values that have to be kept for an error within the tolerance, in the Frobenius norm."""
    u, values, v = scipy.linalg.svd(matrix) if singular is None else singular
    rest = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1])  # of all singular values from this one on
    rank = int(np.sum(rest > tolerance))
    left, right = u[:, :rank] * values[:rank], v[:rank]
    return LowRank(float(np.linalg.norm(matrix - left @ right)), left, right)


def truncate(matrix: Float[np.ndarray, "k m"], tolerance: float) -> Float[np.ndarray, "k m"]:
    """The matrix without its small entries: as many as can go with :func:`norm_bound` within the tolerance."""
    threshold = tolerance
    while True:
        kept = np.where(np.abs(matrix) > threshold, matrix, 0.0)
        # Once the threshold is this low, so are all sums of rows and columns.
        if threshold * max(matrix.shape) <= tolerance or norm_bound(matrix - kept) <= tolerance:
            return kept
        threshold /= 2


def norm_bound(matrix: Float[np.ndarray, "k m"]) -> float:
    """√(‖E‖₁ ‖E‖_∞) ≥ ‖E‖₂ (Schur's test). Unlike the Frobenius norm it does not grow with m for a band."""
    size = np.abs(matrix)
    return float(np.sqrt(size.sum(axis=0).max() * size.sum(axis=1).max()))


def _median_ratio(matrix: np.ndarray, multiples: np.ndarray) -> np.ndarray:
    """The row that most rows of a matrix are the given multiples of; tiny multiples say nothing about it."""
    telling = np.abs(multiples) > 1e-3 * np.abs(multiples).max()
    if not telling.any():
        return np.zeros(matrix.shape[1])
    return np.asarray(np.median(matrix[telling] / multiples[telling, None], axis=0))
