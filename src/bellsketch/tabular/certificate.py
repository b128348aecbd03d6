"""A bound on the error of a sketch that can be computed without knowing the truth.

The true embedding satisfies U^π = 𝒯_φ U^π + e, where e(x) is what the regression misses in one step (Prop. 1; see
``one_step``). The sketch at hand satisfies U = 𝒯_φ U − δ. With M the linear part of 𝒯_φ and K = (I − M)⁻¹,

    U^π − U = K (e + δ),   so that   ‖U(x) − U^π(x)‖₂ ≤ sup ‖Σ_x' K_{x x'} e(x')‖₂ + ‖(K δ)(x)‖₂          (resolvent)

whenever I − M is invertible. If every backup contracts by ρ_r < 1 in some norm ‖·‖_W, then without inverting anything
the distance d(x) = ‖U(x) − U^π(x)‖_W satisfies

    d(x) ≤ ε_B(x) + ‖δ(x)‖_W + Σ p ρ_r d(x'),   so that   sup_x d(x) ≤ max_x (ε_B(x) + ‖δ(x)‖_W)/(1 − ρ)   (contraction)

and ‖u‖₂ ≤ ‖W⁻¹‖₂ ‖u‖_W brings it back to L².
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Float

from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap, Indicator
from bellsketch.core.norms import Norm, candidates
from bellsketch.core.readout import Readout
from bellsketch.core.readout_error import mean_readout_error, readout_error
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.one_step import (
    Whereabouts,
    expected_bounds,
    one_step_errors,
    weighted_errors,
    whereabouts,
)
from bellsketch.tabular.operator import AffineOperator

RESOLVENT_UNKNOWNS = 2_000
"""Models with at most this many unknowns (states × features) get the resolvent bound."""
SHARPENING_WORK = 20_000_000
"""Outcomes times steps that lower a contraction bound from its maximum over states: under a second."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A bound on sup_x ‖U(x) − U^π(x)‖₂, or infinity and why."""

    bound: float
    rho: float
    """ρ: the largest norm of any reward's A, in the norm of that name."""
    norm: str
    """The norm on ℝ^m in which ρ, ε_B and δ are meant: ``L2``, ``running sum`` or ``Lyapunov``. The bound is in L²."""
    epsilon: float
    """ε_B, a bound on the one-step regression error over the returns that can happen."""
    proven: bool
    """Whether ε_B is a bound in the strict sense; if not (jumps under continuous rewards), it is the largest seen."""
    residual: float
    """‖δ‖, what the iteration or the linear solver has left."""
    method: str
    """Which of the two inequalities gives the bound: ``resolvent``, ``contraction`` or ``none``."""
    reason: str
    """Why there is no bound, or why it says nothing; empty if there is one that does."""


def certify(
    mrp: MRP, coefficients: BellmanCoefficients, operator: AffineOperator, sketch: Float[np.ndarray, "s m"]
) -> Certificate:
    """Bound the distance of a sketch from the true mean embeddings."""
    returns = whereabouts(mrp, coefficients.features)
    left = np.asarray(operator(sketch) - sketch)
    used = [np.asarray(operator.matrices[r]) for r, _, _ in operator.groups] or [np.zeros((left.shape[1],) * 2)]
    norms = list(candidates(used))
    rates = [max(norm.of_matrix(a) for a in used) for norm in norms]
    errors, proven = one_step_errors(mrp, coefficients, returns, norms)
    found = [
        _contraction(mrp, operator, norm, rate, error + norm(left))
        for norm, rate, error in zip(norms, rates, errors, strict=True)
    ]
    best, least = int(np.argmin(found)), int(np.argmin(rates))
    bound, method = found[best], "contraction"
    if operator.num_unknowns <= RESOLVENT_UNKNOWNS:
        direct, sure = _resolvent(mrp, coefficients, operator, returns, left)
        if direct < bound:
            bound, method, proven, best = direct, "resolvent", sure, least
    if not np.all(np.isfinite(left)):
        bound, method, reason = np.inf, "none", "the sketch is not finite: iterating has diverged; solve for it instead"
    elif np.isfinite(bound):
        reason = _why_useless(bound, rates[best], mrp, coefficients)
    else:
        method, best = "none", least
        reason = _why_none(rates[best], norms[best], operator)
    epsilon, residual = float(errors[best].max()), float(norms[best](left).max())
    return Certificate(bound, rates[best], norms[best].name, epsilon, proven, residual, method, reason)


def _contraction(mrp: MRP, operator: AffineOperator, norm: Norm, rate: float, errors: Float[np.ndarray, " s"]) -> float:
    """sup_x ‖U − U^π‖₂ from d ≤ errors + Q d, Q_{x x'} = Σ p ρ_r: repeated from above, it stays above."""
    if not rate < 1:
        return np.inf
    distance = np.full(mrp.num_states, errors.max() / (1 - rate))
    o = mrp.outcomes
    go = ~o.terminal
    by_reward = np.zeros(len(mrp.rewards))
    for r, _, _ in operator.groups:
        by_reward[r] = norm.of_matrix(np.asarray(operator.matrices[r]))
    entries = (o.probability[go] * by_reward[o.reward[go]], (o.state[go], o.successor[go]))
    mixing = sp.csr_array(entries, shape=(mrp.num_states, mrp.num_states))
    for _ in range(min(1_000, SHARPENING_WORK // max(1, mixing.nnz))):
        distance = errors + mixing @ distance
    return float(norm.factor * distance.max())


def _resolvent(
    mrp: MRP, coefficients: BellmanCoefficients, operator: AffineOperator, returns: Whereabouts, left: np.ndarray
) -> tuple[float, bool]:
    """The resolvent's bound, and whether it is proven; infinite if I − M is singular.

    For the inverse K̃ as computed, U^π − U = K̃(e + δ) + E (U^π − U) with E = I − K̃(I − M), which divides by 1 − ‖E‖.
    """
    states, m = operator.offset.shape
    system = np.eye(states * m) - operator.dense()
    try:
        inverse = scipy.linalg.inv(system)
    except scipy.linalg.LinAlgError:
        return np.inf, False
    missing = (np.eye(states * m) - inverse @ system).reshape(states, m, states, m)
    off = float(np.linalg.norm(missing, axis=(1, 3)).sum(axis=1).max())
    if not off < 1:
        return np.inf, False
    errors, proven = weighted_errors(mrp, coefficients, returns, inverse.reshape(states, m, states, m))
    rest = np.linalg.norm((inverse @ left.ravel()).reshape(states, m), axis=1)
    return float((errors + rest).max() / (1 - off)), proven


def _why_none(rate: float, norm: Norm, operator: AffineOperator) -> str:
    small = operator.num_unknowns <= RESOLVENT_UNKNOWNS
    and_so = "the fixed point is not unique" if small else f"{operator.num_unknowns} unknowns are too many to invert"
    return (
        f"the smallest operator norm found, {rate:.4g} ({norm.name}), is not below 1, so backups may amplify errors,"
        f" and {and_so}: try intercept='free', more features, a larger ridge or sigmoid features"
    )


def _why_useless(bound: float, rate: float, mrp: MRP, coefficients: BellmanCoefficients) -> str:
    """Something to say if one and the same guess for every return would be as near as the bound."""
    low, high = mrp.return_bounds
    values = coefficients.features(np.linspace(low.min(), high.max(), 2_001))
    radius = float(np.linalg.norm(np.ptp(values, axis=0)) / 2)
    if bound < radius or radius == 0:
        return ""
    grows = f"1/(1 − ρ) = {1 / (1 - rate):.3g}" if rate < 1 else f"an operator norm of {rate:.3g}"
    return (
        f"the bound {bound:.2g} exceeds {radius:.2g}, the distance of every embedding from the middle of all, so it"
        f" says nothing: discount {mrp.discount:g} leaves {grows} to multiply the regression error; use more features,"
        " a return_range that covers all possible returns, or a smaller discount"
    )


@dataclasses.dataclass(frozen=True)
class CertifiedExpectation:
    """E[f(G)] of each state as a readout estimates it, and how far off it can be."""

    value: Float[np.ndarray, " s"]
    bound: Float[np.ndarray, " s"]
    """On |E f(G) − value|; infinite if the sketch has no certificate."""
    proven: bool
    """Whether it is a bound in the strict sense."""


def certify_readout(
    certificate: Certificate,
    sketch: Float[np.ndarray, "s m"],
    features: FeatureMap,
    readout: Readout,
    returns: Whereabouts,
    f: Callable[[np.ndarray], Any] | None = None,
    lipschitz: float | None = None,
) -> CertifiedExpectation:
    """|E f(G) − ⟨β, U⟩ − b| ≤ E|f(G) − ⟨β, φ(G)⟩ − b| + ‖β‖₂ sup_x ‖U − U^π‖₂, for the mean if there is no f.

    Gaussian returns are followed 8.5 standard deviations far; the 2e-17 of their mass beyond are left out.
    """
    states = np.arange(len(sketch))
    low, high = returns.within(states)
    if f is None:
        misfit = mean_readout_error(features, readout, low, high)
    else:
        misfit = readout_error(features, readout, f, low, high, lipschitz)
    fit = expected_bounds(misfit.edges, misfit.bounds[None], returns, states)[0]
    size = float(np.linalg.norm(readout.weights))
    bound = fit + (size * certificate.bound if size > 0 else 0.0)
    return CertifiedExpectation(np.asarray(readout(sketch)), bound, misfit.proven and certificate.proven)


def indicator_bound(mrp: MRP, features: FeatureMap) -> float:
    """Prop. 4: (G_max − G_min)(3 + 2γ) / ((1 − γ)m), in the norm (G_max − G_min)/m · Σ_i |u_i|.

    It holds in the limit of many backups, for indicator features with equal bins from G_min = min R/(1 − γ) to
    G_max = max R/(1 − γ), fitted under the uniform distribution on that interval. Where episodes end, 0 counts as a
    reward: it is what is paid from then on.
    """
    if not isinstance(features, Indicator):
        raise InputError(f"features={type(features).__name__}: Prop. 4 is about Indicator features")
    if not all(reward.is_finite for reward in mrp.rewards):
        raise InputError("mrp: Prop. 4 needs bounded rewards, and some are continuous; use solution.certificate")
    values = [atom for reward in mrp.rewards for atom in reward.atoms] + [0.0] * mrp.terminates
    low, high = min(values) / (1 - mrp.discount), max(values) / (1 - mrp.discount)
    if low == high:
        raise InputError(
            f"mrp: all rewards are {low * (1 - mrp.discount):g}, so Prop. 4 has no interval to cut into bins"
        )
    edges = np.asarray(features.edges)
    if not np.allclose(edges, np.linspace(low, high, len(edges)), rtol=0, atol=1e-9 * (high - low)):
        raise InputError(
            f"features: edges from {edges[0]:g} to {edges[-1]:g}; Prop. 4 needs equal bins from min R/(1 − γ) = {low:g}"
            f" to max R/(1 − γ) = {high:g}: Indicator(ReturnRange({low:g}, {high:g}).points(m + 1))"
        )
    return float((high - low) * (3 + 2 * mrp.discount) / ((1 - mrp.discount) * features.num_features))
