"""The best of all policies from one state, in any criterion of the whole return: backward induction with stock."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import breadth_first_order

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.risk import Criterion, as_criterion
from bellsketch.tabular.control.evaluation import hull, reach
from bellsketch.tabular.control.policy_iteration import policy_iteration
from bellsketch.tabular.control.stock import MAX_STATES, StockMDP, with_stock
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.model_input import TERMINAL
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.solve import Solution, solve

REST_ATOMS = 32
"""Equally likely returns that stand for what comes after the horizon, which hardly counts."""
BLOCK = 100_000
"""Numbers f(c + γ^t g) computed at once, at most about."""


@dataclasses.dataclass(frozen=True)
class StockControl:
    """The best policy from a start, which may look at the stock and the time."""

    model: StockMDP
    policy: Int[np.ndarray, " k"]
    """The action of each state with stock."""
    value: float
    """The criterion of the return from the start. Exact if stocks are, and if all has ended before the horizon; of
    coarse stocks what they pretend, and ``achieved`` says what comes of it."""
    action_values: Float[np.ndarray, "l a"]
    """The best that can be made of the whole return after each action, for states before the horizon."""
    criterion: Criterion
    num_features: int

    @functools.cached_property
    def solution(self) -> Solution:
        """Sketches of all states that the policy can lead to. The start is the first."""
        mrp = self.model.mdp.mrp(self.policy)
        reached = np.sort(breadth_first_order(mrp.transitions, 0, return_predecessors=False))
        restricted = _restricted(mrp, reached)
        return solve(restricted, num_features=self.num_features, return_range=reach(restricted))

    @functools.cached_property
    def distribution(self) -> AtomicDistribution:
        """Of the return from the start."""
        return self.solution.distribution(0)

    @property
    def achieved(self) -> float:
        """The criterion of ``distribution``."""
        return float(self.criterion.of(self.distribution))

    def action(self, state: int, stock: float, time: int) -> int:
        """What to do in a state at a time: that of the nearest stock that can be reached there."""
        layer = self.model.layer(min(time, self.model.horizon))
        candidates = np.flatnonzero(self.model.state[layer] == state) + layer.start
        if not candidates.size:
            raise InputError(f"state={state}, time={time}: cannot be reached from the start")
        return int(self.policy[candidates[np.abs(self.model.stock[candidates] - stock).argmin()]])


def best_with_stock(
    mdp: MDP,
    criterion: str | Criterion | Callable[[Any], Any],
    start: int,
    *,
    horizon: int | None = None,
    resolution: float | None = None,
    max_states: int = MAX_STATES,
    num_features: int = 50,
) -> StockControl:
    """The policy with the best criterion of the whole return from ``start``, of all that look at the history.

    Expected utilities E[f(G)] are decided from the end backwards: J(x, c, t) = max_a E[J(X', c + γ^t R, t + 1)], with
    J = f(c) where it ends. A criterion max_j E[f_j(G)] is the best over j of that, so that the CVaR is one as well
    (Bäuerle & Ott, 2011). No sketch is needed to choose; sketches say what comes after the horizon, where the policy
    that is best in the mean is followed, and how the return is distributed in the end.

    Args:
      mdp: the model; its rewards must be numbers, or finitely many.
      criterion: as for :func:`policy_iteration`.
      start: where the return starts.
      horizon: steps after which the stock is forgotten; default: when γ^t falls below 1e-3, if not all has ended then.
      resolution: stocks are remembered as multiples of this; default: exactly. Make it finer until ``achieved``
        agrees with ``value``.
      max_states: raise if there are more.
      num_features: m, for the distributions.
    """
    model = with_stock(mdp, start, horizon=horizon, resolution=resolution, max_states=max_states)
    uniform = mdp.mrp(np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions))
    span = reach(uniform)
    rest, policy = np.zeros((mdp.num_states, 1)), np.zeros(model.state.size, dtype=np.int64)
    if model.forgets:
        after = policy_iteration(mdp, num_features=num_features)
        levels = (np.arange(REST_ATOMS) + 0.5) / REST_ATOMS
        rest = after.solution.distributions.quantile(levels)
        policy[model.layer(model.horizon)] = after.policy
        span = hull(span, after.evaluator.return_range)
    chosen = as_criterion(criterion, span)
    values = _induction(model, chosen, rest)
    best = values[..., int(values[0].max(axis=0).argmax())]
    policy[: len(best)] = best.argmax(axis=1)
    return StockControl(model, policy, float(best[0].max()), best, chosen, num_features)


def _induction(model: StockMDP, criterion: Criterion, rest: Float[np.ndarray, "s n"]) -> Float[np.ndarray, "l a j"]:
    """The best E[f_j] after each action in each state before the horizon."""
    following, parts = np.zeros((0, criterion(np.zeros(1)).shape[1])), []
    for time in range(min(int(model.time[-1]), model.horizon - 1), -1, -1):
        layer = model.layer(time)
        values = [_of_action(model, action, layer, criterion, rest, following) for action in model.mdp.actions]
        parts.append(np.stack(values, axis=1))
        following = parts[-1].max(axis=1)
    return np.concatenate(parts[::-1])


def _of_action(
    model: StockMDP, action: MRP, layer: slice, criterion: Criterion, rest: np.ndarray, following: np.ndarray
) -> Float[np.ndarray, "l j"]:
    """E[J(X', c', t + 1)] of an action, for each state of a layer."""
    o = action.outcomes
    here = slice(*np.searchsorted(o.state, [layer.start, layer.stop]))
    scale, time = model.mdp.discount ** int(model.time[layer.start]), int(model.time[layer.start])
    paid = np.array([reward.mean for reward in action.rewards])[o.reward[here]]
    stock = model.stock[o.state[here]] + scale * paid
    successor = o.successor[here]
    forgets = (successor != TERMINAL) & (time == model.horizon - 1)
    after = np.where(forgets[:, None], rest[model.state[np.maximum(successor, 0)]], 0.0)
    known = (successor == TERMINAL) | forgets
    values = np.empty((stock.size, following.shape[1]))
    values[known] = _expected(criterion, stock[known], scale * model.mdp.discount * after[known])
    values[~known] = following[successor[~known] - layer.stop]
    sums = np.zeros((layer.stop - layer.start, values.shape[1]))
    np.add.at(sums, o.state[here] - layer.start, o.probability[here, None] * values)
    return sums


def _expected(
    criterion: Criterion, stock: Float[np.ndarray, " l"], rest: Float[np.ndarray, "l n"]
) -> Float[np.ndarray, "l j"]:
    """E[f_j(c + rest)], over equally likely rests."""
    width = rest.shape[1] * criterion(np.zeros(1)).shape[1]
    rows = max(1, BLOCK // width)
    parts = [np.zeros((0, width // rest.shape[1]))]
    for first in range(0, stock.size, rows):
        total = stock[first : first + rows, None] + rest[first : first + rows]
        parts.append(criterion(total.ravel()).reshape(*total.shape, -1).mean(axis=1))
    return np.concatenate(parts)


def _restricted(mrp: MRP, states: Int[np.ndarray, " l"]) -> MRP:
    """The model of some states that lead to no others."""
    o = mrp.outcomes
    number = np.full(mrp.num_states + 1, TERMINAL)
    number[states] = np.arange(states.size)  # and the last, which is that of TERMINAL, stays
    keep = number[o.state] != TERMINAL
    return MRP._from_arrays(
        number[o.state[keep]],
        number[o.successor[keep]],
        o.probability[keep],
        mrp.rewards,
        o.reward[keep],
        states.size,
        mrp.discount,
    )
