"""What an uncertain return is worth to somebody with an exponential utility, without any sketch."""

import numpy as np
from jaxtyping import Float

from bellsketch.core.errors import InputError
from bellsketch.core.rewards import Reward
from bellsketch.tabular.mrp import MRP

SMALL = 1e-3
"""Where the aversion times the spread of returns is below this, mean and variance say all there is to say."""


def entropic_risk(mrp: MRP, aversion: float) -> Float[np.ndarray, " s"]:
    """−log E[e^{−kG}] / k of each state, for the aversion k; for a negative one, what a risk is worth to who seeks it.

    With L_t(x) = log E[e^{−kγᵗG}], which is a backup of L_{t+1}, from a t on where kγᵗ is so small that mean and
    variance give it. Sums are made on a logarithmic scale: nothing overflows, and no tail is cut but that of continuous
    rewards beyond their quadrature.
    """
    if not (np.isfinite(aversion) and aversion != 0):
        raise InputError(f"aversion={aversion}: pass a finite number other than 0; 0 would be the mean")
    spread = float(np.sqrt(mrp.return_variance.max()))
    steps = _steps(abs(aversion) * spread, mrp.discount)
    outcomes = mrp.outcomes
    with np.errstate(divide="ignore"):
        log_probability = np.log(outcomes.probability)
    last = aversion * mrp.discount**steps
    found = -last * mrp.value + last**2 * mrp.return_variance / 2
    for t in reversed(range(steps)):
        rewards = np.array([_log_mgf(reward, -aversion * mrp.discount**t) for reward in mrp.rewards])
        following = np.where(outcomes.terminal, 0.0, found[outcomes.successor])
        found = _log_sums(outcomes.state, log_probability + rewards[outcomes.reward] + following, mrp.num_states)
    return -found / aversion


def _steps(size: float, discount: float) -> int:
    """Until size · γᵗ is small."""
    if size <= SMALL:
        return 0
    return 1 if discount == 0 else int(np.ceil(np.log(SMALL / size) / np.log(discount)))


def _log_mgf(reward: Reward, s: float) -> float:
    """log E[e^{sR}]."""
    if reward.is_gaussian:
        return s * reward.mean + s**2 * reward.variance / 2
    return float(np.logaddexp.reduce(np.log(reward.weights) + s * np.array(reward.atoms)))


def _log_sums(state: np.ndarray, logs: np.ndarray, num_states: int) -> Float[np.ndarray, " s"]:
    """log Σ e^{…} over each state's outcomes."""
    top = np.full(num_states, -np.inf)
    np.maximum.at(top, state, logs)
    return top + np.log(np.bincount(state, weights=np.exp(logs - top[state]), minlength=num_states))
