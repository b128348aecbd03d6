"""Distances between distributions on the line, and between sketches.

Both arguments may be batches; leading axes broadcast. NumPy in, NumPy out; JAX in, JAX out.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError


def _cdf_steps(p: AtomicDistribution, q: AtomicDistribution) -> tuple[Any, Any]:
    """F_p − F_q on the intervals between the atoms of both, and the lengths of those intervals."""
    xp = namespace(p.locations, q.locations)
    batch = np.broadcast_shapes(p.locations.shape[:-1], q.locations.shape[:-1])
    parts = [
        (p.locations, p.probabilities),
        (q.locations, -q.probabilities),
    ]
    parts = [tuple(xp.broadcast_to(x, (*batch, x.shape[-1])) for x in pair) for pair in parts]
    z = xp.concatenate([pair[0] for pair in parts], axis=-1)
    mass = xp.concatenate([pair[1] for pair in parts], axis=-1)
    order = xp.argsort(z, axis=-1)
    z = xp.take_along_axis(z, order, axis=-1)
    difference = xp.cumsum(xp.take_along_axis(mass, order, axis=-1), axis=-1)
    return difference[..., :-1], xp.diff(z, axis=-1)


def cramer(p: AtomicDistribution, q: AtomicDistribution) -> Float[Array, "..."]:
    """The squared ℓ₂ distance ∫ (F_p − F_q)² dx, which the paper calls the Cramér distance."""
    difference, gaps = _cdf_steps(p, q)
    return (difference**2 * gaps).sum(axis=-1)


class CramerTo:
    """Cramér distances to one fixed batch of distributions F, in time that does not grow with the atoms of F.

    Between neighbouring support points an estimate's CDF is constant, so that ∫(F̂ − F)² follows from the integrals of F
    and F² over each cell. These are tabulated once.
    """

    def __init__(self, target: AtomicDistribution):
        if target.locations.ndim != 2:
            raise InputError(f"target of shape {target.locations.shape}: expected a batch [s, n] of distributions")
        target = target.sorted()
        self._locations = np.asarray(target.locations)
        self._cdf = np.cumsum(target.probabilities, axis=-1)
        gaps = np.diff(self._locations, axis=-1)
        self._integrals = [
            np.cumsum(np.pad(self._cdf[:, :-1] ** power * gaps, ((0, 0), (1, 0))), axis=-1) for power in (1, 2)
        ]

    def __call__(self, support: Float[np.ndarray, " n"], probabilities: Float[np.ndarray, "*b s n"]) -> Any:
        """∫(F̂ − F)² dx of each distribution with these probabilities on a sorted support."""
        widths, of_cdf, of_square, beyond = self._cells(support)
        cdf = np.cumsum(probabilities, axis=-1)[..., :-1]
        return np.maximum((cdf**2 * widths - 2 * cdf * of_cdf + of_square).sum(axis=-1) + beyond, 0.0)

    def of_projection(self, support: Float[np.ndarray, " n"]) -> Float[np.ndarray, " s"]:
        """The least distance on this support, which is that of the categorical projection of F.

        The projection's CDF is the mean of F over each cell.
        """
        widths, of_cdf, of_square, beyond = self._cells(support)
        return np.maximum((of_square - of_cdf**2 / widths).sum(axis=-1) + beyond, 0.0)

    def _cells(self, support: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The cells' widths, the integrals of F and F² over them, and what lies beyond both ends."""
        support = np.asarray(support)
        last = self._locations[:, -1:]
        points = np.concatenate([np.broadcast_to(support, (len(last), support.size)), last], axis=1)
        total, squares = (self._integral(points, i) for i in (0, 1))
        above = (last - points)[:, -2] - 2 * (total[:, -1] - total[:, -2]) + squares[:, -1] - squares[:, -2]
        beyond = squares[:, 0] + np.where(support[-1] < last[:, 0], above, 0.0)
        return np.diff(support), np.diff(total[:, :-1]), np.diff(squares[:, :-1]), beyond

    def _integral(self, points: np.ndarray, which: int) -> np.ndarray:
        """∫ F or ∫ F² from −∞ to each point."""
        result = np.empty_like(points, dtype=np.float64)
        for row, (z, cdf, integral) in enumerate(zip(self._locations, self._cdf, self._integrals[which], strict=True)):
            index = np.searchsorted(z, points[row], side="right") - 1
            inside = index >= 0
            index = np.maximum(index, 0)
            result[row] = np.where(inside, integral[index] + cdf[index] ** (which + 1) * (points[row] - z[index]), 0.0)
        return result


def wasserstein(p: AtomicDistribution, q: AtomicDistribution, order: float = 1) -> Float[Array, "..."]:
    """W_p, the p-Wasserstein distance for p ≥ 1: the L^p distance of the quantile functions."""
    if not 1 <= order < np.inf:
        raise InputError(f"order={order}: the order of a Wasserstein distance must be finite and at least 1")
    if order == 1:
        difference, gaps = _cdf_steps(p, q)
        return (abs(difference) * gaps).sum(axis=-1)
    xp = namespace(p.locations, q.locations)
    p, q = p.sorted(), q.sorted()
    batch = np.broadcast_shapes(p.locations.shape[:-1], q.locations.shape[:-1])
    levels = [xp.cumsum(d.probabilities, axis=-1) for d in (p, q)]
    levels = [xp.broadcast_to(c / c[..., -1:], (*batch, c.shape[-1])) for c in levels]
    knots = xp.sort(xp.concatenate(levels, axis=-1), axis=-1)
    widths = xp.diff(knots, axis=-1, prepend=xp.zeros_like(knots[..., :1]))
    middles = knots - widths / 2  # strictly inside each interval of positive width, so lookups there are unambiguous
    at = []
    for d, c in zip((p, q), levels, strict=True):
        index = xp.minimum((c[..., None, :] < middles[..., :, None]).sum(axis=-1), c.shape[-1] - 1)
        at.append(xp.take_along_axis(xp.broadcast_to(d.locations, c.shape), index, axis=-1))
    return ((abs(at[0] - at[1]) ** order * widths).sum(axis=-1)) ** (1 / order)


def kolmogorov(p: AtomicDistribution, q: AtomicDistribution) -> Float[Array, "..."]:
    """sup_x |F_p(x) − F_q(x)|."""
    difference, gaps = _cdf_steps(p, q)
    # Between two atoms at the same place the running sum is no value of the CDF.
    return (abs(difference) * (gaps > 0)).max(axis=-1)


def squared_embedding_error(sketch: Float[Array, "... m"], truth: Float[Array, "... m"]) -> Float[Array, "..."]:
    """‖U − U^π‖₂², the paper's mean embedding squared error."""
    return ((sketch - truth) ** 2).sum(axis=-1)


def excess_cramer(
    estimate: AtomicDistribution, truth: AtomicDistribution, projected_truth: AtomicDistribution
) -> Float[Array, "..."]:
    """Cramér distance of the estimate, minus that of the best the support allows (the projected truth)."""
    return cramer(estimate, truth) - cramer(projected_truth, truth)
