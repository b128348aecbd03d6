"""A bound on the error of a sketch that can be computed without knowing the truth.

The true embedding satisfies U^π = 𝒯_φ U^π + e, where ‖e(x)‖₂ is at most ε_B(x), the largest one-step regression error
over the returns that can follow x (Prop. 1). The sketch at hand satisfies U = 𝒯_φ U − δ. With M the linear part of
𝒯_φ, U − U^π = −(I − M)⁻¹ (e + δ), so that

    sup_x ‖U(x) − U^π(x)‖₂ ≤ max_x Σ_x' ‖[(I − M)⁻¹]_{x x'}‖₂ (ε_B(x') + ‖δ(x')‖₂)       (resolvent)

whenever I − M is invertible. If moreover every backup contracts by ρ < 1, then without inverting anything

    sup_x ‖U(x) − U^π(x)‖₂ ≤ max_x (ε_B(x) + ‖δ(x)‖₂) / (1 − ρ)                           (contraction)
"""

import dataclasses
import functools

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bellsketch.core.coefficients import BellmanCoefficients, expected_features
from bellsketch.core.features import FeatureMap
from bellsketch.core.regression import Function
from bellsketch.core.suprema import largest_error
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator

RESOLVENT_UNKNOWNS = 2_000
"""Models with at most this many unknowns (states × features) get the resolvent bound."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A bound on sup_x ‖U(x) − U^π(x)‖, or infinity and why."""

    bound: float
    rho: float
    """ρ: the largest norm of any reward's A."""
    norm: str
    """The norm on ℝ^m in which all of this is meant."""
    epsilon: float
    """ε_B, a bound on the one-step regression error over the returns that can happen."""
    proven: bool
    """Whether ε_B is a bound in the strict sense; if not (jumps under continuous rewards), it is the largest of many."""
    residual: float
    """‖δ‖, what the iteration or the linear solver has left."""
    method: str
    """Which of the two inequalities gives the bound: ``resolvent``, ``contraction`` or ``none``."""
    reason: str
    """Why there is no bound; empty if there is one."""


def certify(
    mrp: MRP, coefficients: BellmanCoefficients, operator: AffineOperator, sketch: Float[np.ndarray, "s m"]
) -> Certificate:
    """Bound the distance of a sketch from the true mean embeddings."""
    rho = max((float(np.linalg.norm(operator.matrices[r], ord=2)) for r, _, _ in operator.groups), default=0.0)
    epsilon, proven = one_step_errors(mrp, coefficients)
    residual = np.linalg.norm(operator(sketch) - sketch, axis=1)
    bounds = {"none": np.inf}
    if rho < 1:
        bounds["contraction"] = float((epsilon + residual).max() / (1 - rho))
    if operator.num_unknowns <= RESOLVENT_UNKNOWNS:
        bounds["resolvent"] = float((_resolvent_norms(operator) @ (epsilon + residual)).max())
    method = min(bounds, key=lambda name: bounds[name])
    reason = ""
    if not np.isfinite(bounds[method]):
        reason = (
            f"the operator norm {rho:.4g} is not below 1, so backups may amplify errors, and"
            + (
                " the fixed point is not unique"
                if "resolvent" in bounds
                else f" {operator.num_unknowns} unknowns are many"
            )
            + ": try intercept='free', more features, a larger ridge or sigmoid features"
        )
    return Certificate(bounds[method], rho, "L2", float(epsilon.max()), proven, float(residual.max()), method, reason)


def one_step_errors(mrp: MRP, coefficients: BellmanCoefficients) -> tuple[Float[np.ndarray, " s"], bool]:
    """ε_B of Prop. 1 by state, and whether it is proven: a bound on ‖E[φ(R + γg)] − (A φ(g) + c)‖₂ over returns g.

    An outcome that terminates has no error; the others count with their probability. Returns range over all that any
    state can have.
    """
    least, greatest = mrp.return_bounds
    interval = float(least.min()), float(greatest.max())
    o, discount, features = mrp.outcomes, mrp.discount, coefficients.features
    worst, proven = np.zeros(len(mrp.rewards)), True
    for r in np.unique(o.reward[~o.terminal]):
        matrix, offset = coefficients.at(mrp.rewards[r], discount)
        target = expected_features(features, mrp.rewards[r], discount)
        error = functools.partial(_error, features, target, matrix, offset)
        bound = largest_error(features, mrp.rewards[r], discount, error, matrix, offset, interval)
        worst[r], proven = bound.value, proven and bound.proven
    each = np.bincount(o.state, weights=o.probability * ~o.terminal * worst[o.reward], minlength=mrp.num_states)
    return each, proven


def _error(features: FeatureMap, target: Function, matrix: np.ndarray, offset: np.ndarray, g: np.ndarray) -> np.ndarray:
    return target(g) - features(g) @ matrix.T - offset


def _resolvent_norms(operator: AffineOperator) -> Float[np.ndarray, "s s"]:
    """‖[(I − M)⁻¹]_{x x'}‖₂ for all pairs of states; infinite if I − M is singular."""
    states, m = operator.offset.shape
    try:
        inverse = scipy.linalg.inv(np.eye(states * m) - operator.dense())
    except scipy.linalg.LinAlgError:
        return np.full((states, states), np.inf)
    blocks = inverse.reshape(states, m, states, m).transpose(0, 2, 1, 3)
    return np.asarray(np.linalg.norm(blocks, ord=2, axis=(-2, -1)))
