"""A bound on the error of a sketch that can be computed without knowing the truth.

The true embedding satisfies U^π = 𝒯_φ U^π + e, where ‖e(x)‖₂ is at most ε_B(x), the largest one-step regression error
over the returns that can follow x (Prop. 1). The sketch at hand satisfies U = 𝒯_φ U − δ. With M the linear part of
𝒯_φ, U − U^π = −(I − M)⁻¹ (e + δ), so that

    sup_x ‖U(x) − U^π(x)‖₂ ≤ max_x Σ_x' ‖[(I − M)⁻¹]_{x x'}‖₂ (ε_B(x') + ‖δ(x')‖₂)       (resolvent)

whenever I − M is invertible. If moreover every backup contracts by ρ < 1, then without inverting anything

    sup_x ‖U(x) − U^π(x)‖₂ ≤ max_x (ε_B(x) + ‖δ(x)‖₂) / (1 − ρ)                           (contraction)
"""

import dataclasses

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bellsketch.core.coefficients import BellmanCoefficients, expected_features
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator

RANGE_POINTS = 10_000
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
    """ε_B, the largest one-step regression error over the returns that can happen, found on a fine grid."""
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
    epsilon = one_step_errors(mrp, coefficients)
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
    return Certificate(bounds[method], rho, "L2", float(epsilon.max()), float(residual.max()), method, reason)


def one_step_errors(mrp: MRP, coefficients: BellmanCoefficients) -> Float[np.ndarray, " s"]:
    """ε_B of Prop. 1 by state: the largest ‖E[φ(R + γg)] − (A φ(g) + c)‖₂ over returns g that can happen.

    An outcome that terminates has no error; the others count with their probability. The maximum is taken on a grid
    over the returns that any state can have.
    """
    least, greatest = mrp.return_bounds
    returns = np.linspace(least.min(), greatest.max(), RANGE_POINTS)
    features = coefficients.features(returns)
    o = mrp.outcomes
    worst = np.zeros(len(mrp.rewards))
    for r in np.unique(o.reward[~o.terminal]):
        matrix, offset = coefficients.at(mrp.rewards[r], mrp.discount)
        target = expected_features(coefficients.features, mrp.rewards[r], mrp.discount)(returns)
        worst[r] = np.linalg.norm(target - features @ matrix.T - offset, axis=1).max()
    return np.bincount(o.state, weights=o.probability * ~o.terminal * worst[o.reward], minlength=mrp.num_states)


def _resolvent_norms(operator: AffineOperator) -> Float[np.ndarray, "s s"]:
    """‖[(I − M)⁻¹]_{x x'}‖₂ for all pairs of states; infinite if I − M is singular."""
    states, m = operator.offset.shape
    try:
        inverse = scipy.linalg.inv(np.eye(states * m) - operator.dense())
    except scipy.linalg.LinAlgError:
        return np.full((states, states), np.inf)
    blocks = inverse.reshape(states, m, states, m).transpose(0, 2, 1, 3)
    return np.asarray(np.linalg.norm(blocks, ord=2, axis=(-2, -1)))
