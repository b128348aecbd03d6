"""Imputation: from a sketch u back to a distribution Σ_i p_i δ_{z_i} with E[φ(Z)] ≈ u.

    minimise ‖Σ_i p_i φ(z_i) − u‖² + μ‖p‖²   over the probability simplex

The small tie-break μ makes the answer unique. It matters: with many features the first term is nearly flat in many
directions, and of all its near-minimisers the spread-out ones are closest to the distribution that was sketched.
"""

from typing import Any

import jax
import numpy as np
import piqp
import scipy.sparse as sp
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import DivergenceError, InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.projections import check_support
from bellsketch.core.pytree import freeze, pytree
from bellsketch.core.ranges import ANCHOR_MARGIN, GRID_MARGIN, ReturnRange

TIE_BREAK = 1e-6
"""μ on a coarse support, where what the support cannot show outweighs what the sketch does not know."""
FINE_RATIO = 8
"""Atoms per feature of the fine support."""
MAX_FINE_ATOMS = 800
"""More atoms than this cost much and show little: at the default slope a sketch resolves some 35 directions."""
TOLERANCE = 1e-14
"""Of residuals and duality gap. An error ε of the objective is one of √(ε/μ) of p, so it has to be far below μ."""
FEASIBLE = 1e-8
MAX_ITERATIONS = 100
"""Programs that can be solved to TOLERANCE take 10 to 40 iterations."""
DENSE_TIE_BREAK = 1e-7
"""With a smaller μ, rounding in ΦΦᵀ outweighs it and the dense program stalls."""


@pytree
class Decoder:
    """Imputation of sketches of one feature map onto one support."""

    features: FeatureMap
    support: Float[Array, " n"]
    """z, sorted."""
    tie_break: Any = TIE_BREAK
    """μ."""

    def __post_init__(self) -> None:
        freeze(self, support=np.asarray(check_support(self.support), dtype=np.float64))
        if not self.tie_break >= 0:
            raise InputError(f"tie_break={self.tie_break}: must not be negative")

    def __call__(self, sketch: Float[Array, "*batch m"]) -> AtomicDistribution:
        """The imputed distribution of each sketch in the batch. Computed on the host, in float64."""
        targets = np.asarray(sketch, dtype=np.float64)
        m = self.features.num_features
        if targets.shape[-1] != m:
            raise InputError(f"sketch has {targets.shape[-1]} entries, but the feature map has {m} features")
        rows = targets.reshape(-1, m)
        if (bad := np.flatnonzero(~np.isfinite(rows).all(axis=1))).size:
            raise InputError(f"sketch {bad[0]} of {len(rows)} is not finite: it cannot come from a distribution")
        design = self.features(self.support)
        scale = max(float(np.abs(design).max()), 1e-300)  # so that the tie-break means the same for every family
        weights = _solve_simplex(design / scale, rows / scale, float(self.tie_break))
        weights = weights.reshape(*targets.shape[:-1], -1)
        return AtomicDistribution(np.broadcast_to(self.support, weights.shape), weights)


def fine_decoder(
    coefficients: BellmanCoefficients, return_range: ReturnRange, *, tie_break: float | None = None
) -> Decoder:
    """Onto an even support with several atoms per feature, over the range the coefficients were fitted on.

    A sketch of m numbers holds more than m atoms can show: this is the default. The default tie-break follows from how
    well the sketch is known. Where the coefficients are accurate to ε, distinctions finer than ε² in the squared
    distance are noise, and the tie-break may overrule them; a much larger one would blur atoms (docs/decisions.md).
    """
    features = coefficients.features
    num = max(features.num_features, min(FINE_RATIO * features.num_features, MAX_FINE_ATOMS))
    if tie_break is None:
        tie_break = float(np.clip(0.1 * coefficients.max_norm_error**2, 1e-10, 1e-5))
    return Decoder(features, return_range.expand(GRID_MARGIN).points(num), tie_break)


def anchor_decoder(
    features: FeatureMap, return_range: ReturnRange, key: jax.Array | None = None, *, tie_break: float = TIE_BREAK
) -> Decoder:
    """The paper's: onto the anchors of the features, jittered if a key is given.

    Features without anchors use as many even points, over the range that anchors would have. The jitter is uniform over
    half a step either way, independently for each point: it keeps returns from falling exactly onto anchors.
    """
    anchors = features.anchors
    if anchors is None:
        anchors = return_range.expand(ANCHOR_MARGIN).points(features.num_features)
    support = np.asarray(anchors, dtype=np.float64)
    if key is not None and support.size > 1:
        noise = np.asarray(jax.random.uniform(key, support.shape, minval=-0.5, maxval=0.5), dtype=np.float64)
        support = np.sort(support + noise * np.gradient(support))
    return Decoder(features, support, tie_break)


def _solve_simplex(design: np.ndarray, targets: np.ndarray, tie_break: float) -> np.ndarray:
    """One quadratic program per target; ``design`` is φ(z), of shape [n, m]."""
    n, m = design.shape
    program = _dense_program if n <= 2 * m and tie_break >= DENSE_TIE_BREAK else _sparse_program
    weights = np.empty((len(targets), n))
    for i, (status, x) in enumerate(program(design, targets, tie_break)):
        # Rounding may keep the last digits of TOLERANCE out of reach; a solution short of them is still a solution.
        out_of_digits = status == piqp.PIQP_MAX_ITER_REACHED and abs(x[:n].sum() - 1) < FEASIBLE
        if not (status == piqp.PIQP_SOLVED or out_of_digits):
            raise DivergenceError(
                f"the quadratic program of sketch {i} could not be solved ({status}): raise tie_break={tie_break:g}"
            )
        weights[i] = np.maximum(x[:n], 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _dense_program(design: np.ndarray, targets: np.ndarray, tie_break: float) -> Any:
    """min ½ pᵀ(ΦΦᵀ + μ)p − (Φu)ᵀp: for few atoms."""
    n = len(design)
    solver = _with_tolerances(piqp.DenseSolver())
    hessian = np.asfortranarray(design @ design.T + tie_break * np.eye(n))
    for i, target in enumerate(targets):
        linear = -design @ target
        if i == 0:
            ones = np.asfortranarray(np.ones((1, n)))
            solver.setup(hessian, linear, ones, np.ones(1), x_l=np.zeros(n), x_u=np.full(n, np.inf))
        else:
            solver.update(c=linear)
        yield solver.solve(), solver.result.x


def _sparse_program(design: np.ndarray, targets: np.ndarray, tie_break: float) -> Any:
    """The same with the residual e = Φᵀp − u as extra variables: its factors grow with n·m², not n³."""
    n, m = design.shape
    solver = _with_tolerances(piqp.SparseSolver())
    hessian = sp.diags_array(np.concatenate([np.full(n, tie_break), np.ones(m)]), format="csc")
    constraints = sp.csc_matrix(np.block([[design.T, -np.eye(m)], [np.ones((1, n)), np.zeros((1, m))]]))
    lower = np.concatenate([np.zeros(n), np.full(m, -np.inf)])
    for i, target in enumerate(targets):
        right = np.append(target, 1.0)
        if i == 0:
            solver.setup(sp.csc_matrix(hessian), np.zeros(n + m), constraints, right, x_l=lower)
        else:
            solver.update(b=right)
        yield solver.solve(), solver.result.x


def _with_tolerances(solver: Any) -> Any:
    settings = solver.settings
    settings.max_iter = MAX_ITERATIONS
    settings.eps_abs = settings.eps_rel = TOLERANCE
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = TOLERANCE
    return solver
