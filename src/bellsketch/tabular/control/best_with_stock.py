"""The best of all policies from one state, in any criterion of the whole return: backward induction with stock."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import breadth_first_order

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.risk import Criterion, CVaR, as_criterion
from bellsketch.tabular.control.policy_iteration import policy_iteration
from bellsketch.tabular.control.stock import MAX_STATES, StockMDP, with_stock
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.model_input import TERMINAL
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.sampling import possible_reach
from bellsketch.tabular.solve import Solution, solve

REST_ATOMS = 32
"""Equally likely returns that stand for what comes after the horizon, which hardly counts."""
BLOCK = 100_000
"""Numbers f(c + γ^t g) computed at once, at most about."""
LISTED_TOTALS = 1_000_000
"""If a return can take more values, the thresholds of a CVaR are an even grid of so many instead."""
FIRST_THRESHOLDS, MAX_THRESHOLDS = 33, 2_000
"""Thresholds of a CVaR that are tried at first, and at most."""
THRESHOLD_BLOCK = 10_000_000
"""Thresholds times outcomes computed at once, at most about."""
THRESHOLD_TOLERANCE = 1e-12
"""The threshold is found once no other can be better by more than this share of the range of returns."""


@dataclasses.dataclass(frozen=True)
class StockControl:
    """The best policy from a start, which may look at the stock and the time."""

    model: StockMDP
    policy: Int[np.ndarray, " k"]
    """The action of each state with stock."""
    value: float
    """The criterion of the return from the start. Exact if stocks are, and if all has ended before the horizon, up to
    ``value_error``; of coarse stocks what they pretend, and ``achieved`` says what comes of it."""
    action_values: Float[np.ndarray, "l a"]
    """The best that can be made of the whole return after each action, for states before the horizon; for a CVaR, of
    c − (c − G)⁺/level at the best threshold c."""
    criterion: Criterion
    num_features: int
    value_error: float = 0.0
    """By how much the best may be better than ``value``, because not all thresholds of a CVaR were tried: 0 unless
    there are very many."""

    @functools.cached_property
    def solution(self) -> Solution:
        """Sketches of all states that the policy can lead to. The start is the first."""
        mrp = self.model.mdp.mrp(self.policy)
        reached = np.sort(breadth_first_order(mrp.transitions, 0, return_predecessors=False))
        restricted = _restricted(mrp, reached)
        return solve(restricted, num_features=self.num_features, return_range=possible_reach(restricted))

    @functools.cached_property
    def distribution(self) -> AtomicDistribution:
        """Of the return from the start."""
        return self.solution.distribution(0)

    @property
    def achieved(self) -> float:
        """The criterion of ``distribution``."""
        if isinstance(self.criterion, CVaR):
            return float(self.distribution.cvar(self.criterion.level))
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
    (Bäuerle & Ott, 2011): its best threshold is a value that the return can take, and these are listed. No sketch is
    needed to choose; sketches say what comes after the horizon, where the policy that is best in the mean is followed,
    and how the return is distributed in the end.

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
    rest, policy = np.zeros((mdp.num_states, 1)), np.zeros(model.state.size, dtype=np.int64)
    if model.forgets:
        after = policy_iteration(mdp, num_features=num_features)
        levels = (np.arange(REST_ATOMS) + 0.5) / REST_ATOMS
        rest = after.solution.distributions.quantile(levels)
        policy[model.layer(model.horizon)] = after.policy
    totals = _totals(model, rest)
    pad = 0.0 if totals[0] < totals[-1] else max(abs(totals[0]), 1.0) / 2
    chosen = as_criterion(criterion, ReturnRange(float(totals[0] - pad), float(totals[-1] + pad)))
    tried, error = chosen, 0.0
    if isinstance(chosen, CVaR):
        threshold, error = _best_threshold(model, chosen.level, rest, totals)
        tried = _Shortfall(chosen.level, np.array([threshold]))
    values = np.concatenate(list(_induction(model, tried, rest))[::-1])
    best = values[..., int(values[0].max(axis=0).argmax())]
    policy[: len(best)] = best.argmax(axis=1)
    return StockControl(model, policy, float(best[0].max()), best, chosen, num_features, error)


@dataclasses.dataclass(frozen=True)
class _Shortfall(Criterion):
    """max_c { c − E[(c − G)⁺]/level } over some c."""

    level: float
    thresholds: Float[np.ndarray, " j"]

    def __call__(self, returns: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n j"]:
        return self.thresholds - np.maximum(self.thresholds - returns[:, None], 0.0) / self.level


def _totals(model: StockMDP, rest: Float[np.ndarray, "s n"]) -> Float[np.ndarray, " k"]:
    """What the whole return can be, in order; an even grid over it where that is too much to list."""
    ended, cut = [np.zeros(0)], [np.zeros((0, rest.shape[1]))]
    for action in model.mdp.actions:
        o = action.outcomes
        time = model.time[o.state]
        scale = model.mdp.discount**time
        stock = model.stock[o.state] + scale * np.array([reward.mean for reward in action.rewards])[o.reward]
        ended.append(np.unique(stock[(time < model.horizon) & (o.successor == TERMINAL)]))
        last = (time == model.horizon - 1) & (o.successor != TERMINAL)
        following = rest[model.state[o.successor[last]]]
        cut.append(stock[last, None] + scale[last, None] * model.mdp.discount * following)
    totals = np.unique(np.concatenate([*ended, *(part.ravel() for part in cut)]))
    return totals if totals.size <= LISTED_TOTALS else np.linspace(totals[0], totals[-1], LISTED_TOTALS)


def _best_threshold(
    model: StockMDP, level: float, rest: Float[np.ndarray, "s n"], totals: Float[np.ndarray, " k"]
) -> tuple[float, float]:
    """The c with the greatest V(c) = max { c − E[(c − G)⁺]/level }, and how much greater another may be.

    V rises by at most 1 and falls by at most 1/level − 1 for each unit of c. That bounds it between two c where it is
    known; only where the bound exceeds the best so far are further c tried, halfway.
    """
    block = max(1, THRESHOLD_BLOCK // max(action.outcomes.state.size for action in model.mdp.actions))

    def value(c: np.ndarray) -> np.ndarray:
        parts = np.split(c, range(block, c.size, block))
        return np.concatenate([_at_start(model, _Shortfall(level, part), rest) for part in parts])

    tolerance = THRESHOLD_TOLERANCE * (totals[-1] - totals[0])
    new = np.unique(np.linspace(0, totals.size - 1, FIRST_THRESHOLDS).round().astype(np.int64))
    index, values = np.zeros(0, dtype=np.int64), np.zeros(0)
    while True:
        index, values = np.concatenate([index, new]), np.concatenate([values, value(totals[new])])
        order = np.argsort(index)
        index, values = index[order], values[order]
        bound = (1 - level) * (values[:-1] + np.diff(totals[index])) + level * values[1:]
        unsure = np.flatnonzero((np.diff(index) > 1) & (bound > values.max() + tolerance))
        if not unsure.size or index.size >= MAX_THRESHOLDS:
            break
        unsure = unsure[np.argsort(-bound[unsure])[: MAX_THRESHOLDS - index.size]]
        new = (index[unsure] + index[unsure + 1]) // 2
    error = float((bound[unsure] - values.max()).max(initial=0.0))
    if totals.size == LISTED_TOTALS:  # perhaps a grid
        error += max(1.0, 1 / level - 1) * float(totals[1] - totals[0]) / 2
    return float(totals[index[values.argmax()]]), error


def _induction(
    model: StockMDP, criterion: Criterion, rest: Float[np.ndarray, "s n"]
) -> Iterator[Float[np.ndarray, "_ a j"]]:
    """The best E[f_j] after each action, for the states of each time before the horizon, the last time first."""
    following = np.zeros((0, 0))
    for time in range(min(int(model.time[-1]), model.horizon - 1), -1, -1):
        layer = model.layer(time)
        actions = [_of_action(model, action, layer, criterion, rest, following) for action in model.mdp.actions]
        values = np.stack(actions, axis=1)
        yield values
        following = values.max(axis=1)


def _at_start(model: StockMDP, criterion: Criterion, rest: Float[np.ndarray, "s n"]) -> Float[np.ndarray, " j"]:
    """The best E[f_j] from the start."""
    (values,) = collections.deque(_induction(model, criterion, rest), maxlen=1)
    return values[0].max(axis=0)


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
    ended = _expected(criterion, stock[known], scale * model.mdp.discount * after[known])
    values = np.empty((stock.size, max(ended.shape[1], following.shape[1])))
    if known.any():
        values[known] = ended
    if not known.all():
        values[~known] = following[successor[~known] - layer.stop]
    sums = np.zeros((layer.stop - layer.start, values.shape[1]))
    np.add.at(sums, o.state[here] - layer.start, o.probability[here, None] * values)
    return sums


def _expected(
    criterion: Criterion, stock: Float[np.ndarray, " l"], rest: Float[np.ndarray, "l n"]
) -> Float[np.ndarray, "l j"]:
    """E[f_j(c + rest)], over equally likely rests; of no columns if there are no stocks."""
    parts, first, rows = [np.zeros((0, 0))], 0, 1
    while first < stock.size:
        total = stock[first : first + rows, None] + rest[first : first + rows]
        parts.append(criterion(total.ravel()).reshape(*total.shape, -1).mean(axis=1))
        first, rows = first + rows, max(1, BLOCK // (rest.shape[1] * parts[-1].shape[1]))
    return np.concatenate(parts[1:] or parts)


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
