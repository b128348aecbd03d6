"""Norms ‖u‖_W = ‖W u‖₂ on ℝ^m in which backups contract, though they may not in L².

A matrix A can have ‖A‖₂ > 1 and yet shrink every vector in a norm that fits it. Three kinds are tried: L² itself; the
L² norm of the running sum, in which bumps (Gaussians, bins) become steps; and norms found from Lyapunov's inequality.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

RATES = (0.75, 0.5, 0.25)
"""Lyapunov norms are looked for at contraction rates this share of the way down from 1 to the spectral radius."""
EIGENVALUE_WORK = 5e7
"""m³ times the number of eigendecompositions that the search may take: a fraction of a second."""
WORST_CONDITION = 1e12
"""Of WᵀW: beyond it, ‖W A W⁻¹‖ has too few correct digits to be believed."""


@dataclasses.dataclass(frozen=True)
class Norm:
    """‖u‖_W = ‖W u‖₂."""

    name: str
    weight: Float[np.ndarray, "m m"]
    """W, invertible."""

    @functools.cached_property
    def inverse(self) -> Float[np.ndarray, "m m"]:
        """W⁻¹."""
        return np.linalg.inv(self.weight)

    @functools.cached_property
    def factor(self) -> float:
        """The least number with ‖u‖₂ ≤ factor · ‖u‖_W."""
        return float(np.linalg.norm(self.inverse, ord=2))

    def __call__(self, vectors: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "..."]:
        return np.asarray(np.linalg.norm(vectors @ self.weight.T, axis=-1))

    def of_matrix(self, matrix: Float[np.ndarray, "m m"]) -> float:
        """sup ‖A u‖_W / ‖u‖_W."""
        return float(np.linalg.norm(self.weight @ matrix @ self.inverse, ord=2))


def euclidean(num_features: int) -> Norm:
    """L²."""
    return Norm("L2", np.eye(num_features))


def running_sum(num_features: int) -> Norm:
    """The L² norm of (v_1, v_1 + v_2, …) and of Σ u_i, for v = u − mean(u).

    Where features are like densities, differences of embeddings sum to zero, and this is a distance of distribution
    functions. What they sum to otherwise counts by itself: an intercept takes it out of every backup.
    """
    weight = np.tri(num_features) - np.arange(1, num_features + 1)[:, None] / num_features
    weight[-1] = 1.0  # the running sum of v ends at 0
    return Norm("running sum", weight)


def candidates(matrices: Sequence[Float[np.ndarray, "m m"]]) -> Iterator[Norm]:
    """Norms in which all of the matrices may contract. Whether they do is for :meth:`Norm.of_matrix` to say."""
    m = matrices[0].shape[0]
    yield euclidean(m)
    yield running_sum(m)
    radius = max(float(np.abs(np.linalg.eigvals(a)).max()) for a in matrices)
    if radius < 1:
        steps = int(EIGENVALUE_WORK / (m**3 * len(matrices) * len(RATES)))
        found = (lyapunov(matrices, 1 - share * (1 - radius), min(steps, 30)) for share in RATES if steps > 0)
        yield from (norm for norm in found if norm is not None)


def lyapunov(matrices: Sequence[Float[np.ndarray, "m m"]], rate: float, num_steps: int = 30) -> Norm | None:
    """A norm in which every matrix contracts by about ``rate``, or None if none is found.

    ‖A u‖_W ≤ ρ ‖u‖_W for all u says that AᵀVA ⪯ ρ²V, with V = WᵀW. The least V ⪰ I that satisfies it for one matrix is
    Σ_k ρ⁻²ᵏ (Aᵏ)ᵀAᵏ. For several, start above all of those and repeat V ← upper bound of V and every ρ⁻² A_rᵀVA_r; this
    only grows, and stops if there is such a norm. Nothing is promised of the result: measure it.
    """
    v = _upper_bound([_series(a / rate) for a in matrices])
    for _ in range(num_steps if len(matrices) > 1 else 0):
        if not np.trace(v) < WORST_CONDITION:  # V ⪰ I, so its trace is at least its condition
            return None
        grown = _upper_bound([v, *(a.T @ v @ a / rate**2 for a in matrices)])
        if np.linalg.norm(grown - v) <= 1e-6 * np.linalg.norm(v):
            break
        v = grown
    if not np.trace(v) < WORST_CONDITION:
        return None
    values, vectors = np.linalg.eigh(v)
    return Norm("Lyapunov", np.sqrt(np.maximum(values, 1.0))[:, None] * vectors.T)


def _series(a: np.ndarray) -> np.ndarray:
    """Σ_k (Aᵏ)ᵀAᵏ, by doubling the number of terms until the rest is invisible or nothing is."""
    total, power = np.eye(len(a)), a
    for _ in range(30):
        more = power.T @ total @ power
        total = total + more
        if not 1e-16 * np.trace(total) < np.trace(more) < WORST_CONDITION:
            break
        power = power @ power
    return total


def _upper_bound(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """A symmetric matrix above all of the given ones: X ⊔ Y = Y + (X − Y)₊, one after another."""
    bound = matrices[0]
    if not all(np.isfinite(other).all() for other in matrices):
        return np.full_like(bound, np.inf)
    for other in matrices[1:]:
        values, vectors = np.linalg.eigh(bound - other)
        bound = other + (vectors * np.maximum(values, 0.0)) @ vectors.T
        bound = (bound + bound.T) / 2
    return bound
