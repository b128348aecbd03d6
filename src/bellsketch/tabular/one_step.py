"""How far one backup of the sketch can be from the truth: ε_B of Prop. 1, state by state.

The true embedding satisfies U^π = 𝒯_φ U^π + e with e(x) = Σ p E[e_r(G(x'))], over the outcomes (p, r, x') of x that do
not terminate, and e_r(g) the regression error of reward r. What is known of G(x') bounds it:

- It lies between the least and the greatest return that can follow x'.
- Given the path that is taken, Gaussian rewards make it normal, with a variance between that of the least and that of
  the most noisy path. The least is certain: e_r may be averaged over it before its size is taken, so that errors of
  either sign cancel. The rest has a variance of at most s², so it exceeds a with no more than the probability that
  N(0, s²) does. With ε_k the largest error up to a_k beyond the noiseless returns, then,

      E‖e_r(G)‖ ≤ Σ_k P(a_{k−1} < |N(0, s²)| ≤ a_k) ε_k,   since ε_k grows with k.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import special

from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.features import FeatureMap
from bellsketch.core.norms import Norm, euclidean
from bellsketch.core.suprema import RegressionError, largest_over, tabulate
from bellsketch.tabular.mrp import MRP

SHELLS = np.arange(0.5, 9.0, 0.5)
"""a_k/s. Beyond the last there is 2e-17 of a normal's mass."""
SHELL_MASSES = -np.diff(2 * special.ndtr(-np.append(0.0, SHELLS)))
BEYOND = float(2 * special.ndtr(-SHELLS[-1]))
NOISE_LEVELS = 8
"""Models with more different noises than this have them rounded down to as many."""
FEW_ATOMS = 8
"""A reward of more atoms is not averaged with noise: that takes this many times the work."""
TOUCH = 1e-12
"""Intervals of returns are widened by this share of their ends, which are rounded."""


@dataclasses.dataclass(frozen=True)
class Whereabouts:
    """What is known of each state's return: a number in [low, high], plus N(0, noise), plus N(0, at most spread²)."""

    low: Float[np.ndarray, " s"]
    high: Float[np.ndarray, " s"]
    noise: Float[np.ndarray, " s"]
    spread: Float[np.ndarray, " s"]

    def within(self, states: np.ndarray) -> tuple[float, float]:
        """An interval in which all returns of these states lie, up to the last shell."""
        reach = SHELLS[-1] * self.spread[states]
        return float((self.low[states] - reach).min()), float((self.high[states] + reach).max())


def supports(mrp: MRP) -> Whereabouts:
    """Only the extremes: true for every return distribution on them, as in Prop. 1."""
    none = np.zeros(mrp.num_states)
    return Whereabouts(*_widened(*mrp.return_bounds), none, none)


def whereabouts(mrp: MRP, features: FeatureMap) -> Whereabouts:
    """All that is used of the model's own returns."""
    least, greatest = mrp.noise_bounds
    plain = any(len(r.atoms) > FEW_ATOMS and not r.is_gaussian for r in mrp.rewards) or features.breaks is not None
    levels = np.unique(least)
    if levels.size > NOISE_LEVELS:
        levels = np.linspace(0.0, levels[-1], NOISE_LEVELS)
    noise = np.zeros_like(least) if plain else levels[np.searchsorted(levels, least, side="right") - 1]
    return Whereabouts(*_widened(*mrp.noiseless_bounds), noise, np.sqrt(np.maximum(greatest - noise, 0.0)))


def without_cancelling(returns: Whereabouts) -> Whereabouts:
    """The same returns, with all of their noise in the spread: for sizes of what cannot be averaged over noise."""
    spread = np.sqrt(returns.spread**2 + returns.noise)
    return Whereabouts(returns.low, returns.high, np.zeros_like(spread), spread)


def _widened(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    touch = TOUCH * (1 + np.maximum(np.abs(low), np.abs(high)))
    return low - touch, high + touch


def one_step_errors(
    mrp: MRP, coefficients: BellmanCoefficients, returns: Whereabouts | None = None, norms: Sequence[Norm] = ()
) -> tuple[Float[np.ndarray, "k s"], bool]:
    """ε_B by norm (default: L² only) and state, and whether it is proven, for returns of which so much is known.

    An outcome that terminates has no error; the others count with their probability.
    """
    returns = supports(mrp) if returns is None else returns
    norms = norms or (euclidean(coefficients.features.num_features),)
    weights = np.stack([norm.weight for norm in norms])
    o, proven = mrp.outcomes, True
    errors = np.zeros((len(norms), mrp.num_states))
    if mrp.discount == 0:
        return errors, proven
    for r in np.unique(o.reward[~o.terminal]):
        for noise in np.unique(returns.noise):
            chosen = np.flatnonzero((o.reward == r) & ~o.terminal)
            chosen = chosen[returns.noise[o.successor[chosen]] == noise]
            if chosen.size:
                error = _error(mrp, coefficients, int(r), float(noise))
                table = tabulate([error], *returns.within(o.successor[chosen]))
                sizes = error.size(0.0) * np.linalg.norm(weights, ord=2, axis=(1, 2))
                bounds, known = table.bounds(weights), _if_known(sizes)
                each = expected_bounds(table.edges, bounds, returns, o.successor[chosen], known)
                for k, values in enumerate(each):
                    parts = o.probability[chosen] * values
                    errors[k] += np.bincount(o.state[chosen], weights=parts, minlength=mrp.num_states)
                tails = np.isfinite(sizes).all() or not returns.spread[o.successor[chosen]].any()
                proven = proven and table.proven and bool(tails)
    return errors, proven


def weighted_errors(
    mrp: MRP, coefficients: BellmanCoefficients, returns: Whereabouts, weights: Float[np.ndarray, "s m s m"]
) -> tuple[Float[np.ndarray, " s"], bool]:
    """Bounds on ‖Σ_x' K_{x x'} e(x')‖₂ for a kernel K of matrices, by state x, and whether they are proven.

    Errors are put together by the successor y whose return they depend on: H_xy(g) = Σ p K_{x x'} e_r(g) over the
    outcomes (x', p, r, y). Only then is the largest size taken, so that what K or other outcomes cancel does not count.
    """
    o = mrp.outcomes
    total, proven = np.zeros(mrp.num_states), True
    for y in np.unique(o.successor[~o.terminal]) if mrp.discount > 0 else ():
        into = o.successor == y
        errors, parts = [], []
        for r in np.unique(o.reward[into]):
            chosen = into & (o.reward == r)
            errors.append(_error(mrp, coefficients, int(r), float(returns.noise[y])))
            parts.append(np.einsum("xkqm,q->xkm", weights[:, :, o.state[chosen]], o.probability[chosen]))
        table = tabulate(errors, *returns.within(np.array([y])))
        with np.errstate(invalid="ignore"):  # unknown sizes times weights of zero
            sizes = sum(e.size(0.0) * np.linalg.norm(part, axis=(1, 2)) for e, part in zip(errors, parts, strict=True))
        known = _if_known(np.asarray(sizes))
        total += expected_bounds(table.edges, table.bounds(*parts), returns, np.array([y]), known)[:, 0]
        proven = proven and table.proven and bool(np.isfinite(sizes).all() or returns.spread[y] == 0)
    return total, proven


def expected_bounds(
    edges: Float[np.ndarray, " edges"],
    bounds: Float[np.ndarray, "w panels"],
    returns: Whereabouts,
    states: np.ndarray,
    sizes: Float[np.ndarray, " w"] | float = 0.0,
) -> Float[np.ndarray, "w k"]:
    """E of a size over the returns of each of ``states``, from bounds on panels and, beyond the last shell, at all."""
    low, high, spread = returns.low[states], returns.high[states], returns.spread[states]
    if not spread.any():
        return largest_over(edges, bounds, low, high)
    total = BEYOND * np.reshape(sizes, (-1, 1)) * (spread > 0) + np.zeros((len(bounds), 1))
    for shell, mass in zip(SHELLS, SHELL_MASSES, strict=True):
        total = total + mass * largest_over(edges, bounds, low - shell * spread, high + shell * spread)
    return total


def _if_known(sizes: np.ndarray) -> np.ndarray:
    """Without a bound everywhere, what lies beyond the last shell is left out."""
    return np.where(np.isfinite(sizes), sizes, 0.0)


def _error(mrp: MRP, coefficients: BellmanCoefficients, r: int, noise: float) -> RegressionError:
    reward = mrp.rewards[r]
    matrix, offset = coefficients.at(reward, mrp.discount)
    return RegressionError(coefficients.features, reward, mrp.discount, np.asarray(matrix), np.asarray(offset), noise)
