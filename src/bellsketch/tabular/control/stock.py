"""MDPs whose states remember what has been received: the stock c = Σ γ^k R_k so far, and the time t.

With them E[f(G)] of the whole return is E[f(c + γ^t G')] of the return to come, and what is best can be found from the
end backwards, for any f (Bäuerle & Rieder, 2014).
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.errors import AllocationError, InputError
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.model_input import TERMINAL
from bellsketch.tabular.mrp import MRP

NEGLIGIBLE_DISCOUNT = 1e-3
"""Once γ^t is below this, the stock is forgotten."""
DIGITS = 10
"""Stocks that agree to so many digits are the same."""
MAX_STATES = 200_000


@dataclasses.dataclass(frozen=True)
class StockMDP:
    """An MDP over (state, stock, time), from one start. The first state is the start, and times come in order.

    After ``horizon`` steps the stock is forgotten: the last states are those of the model without it.
    """

    mdp: MDP
    state: Int[np.ndarray, " k"]
    """x, a state of the model without stock."""
    stock: Float[np.ndarray, " k"]
    """c, and 0 where it is forgotten."""
    time: Int[np.ndarray, " k"]
    """t, and ``horizon`` where the stock is forgotten."""
    horizon: int

    @property
    def forgets(self) -> bool:
        """Whether anything goes on after the horizon."""
        return bool(self.time[-1] == self.horizon)

    def layer(self, time: int) -> slice:
        """The states of one time."""
        return slice(*np.searchsorted(self.time, [time, time + 1]))


def with_stock(
    mdp: MDP,
    start: int,
    *,
    horizon: int | None = None,
    resolution: float | None = None,
    max_states: int = MAX_STATES,
) -> StockMDP:
    """The model from one state on, with the stock and the time in its states.

    Args:
      mdp: the model; its rewards must be numbers, or finitely many.
      start: where the return starts.
      horizon: steps after which the stock is forgotten; default: when γ^t falls below 1e-3, if not all has ended then.
      resolution: stocks are remembered as multiples of this. By default exactly, in which case there may be too many.
        Rewards are not rounded: the policy only sees a coarse stock.
      max_states: raise if there are more.
    """
    if not 0 <= start < mdp.num_states:
        raise InputError(f"start={start}: the model has states 0 to {mdp.num_states - 1}")
    if resolution is not None and not resolution > 0:
        raise InputError(f"resolution={resolution}: must be positive, or None for exact stocks")
    if any(not reward.is_finite for reward in mdp.rewards):
        raise InputError(
            "mdp: stocks of continuous rewards cannot be listed; pass"
            " MDP([action.split_rewards('quantiles') for action in mdp.actions]), and a resolution"
        )
    if horizon is None:
        steps = np.log(NEGLIGIBLE_DISCOUNT) / np.log(mdp.discount) if mdp.discount > 0 else 1
        horizon = int(np.ceil(steps))
    if horizon < 1:
        raise InputError(f"horizon={horizon}: must be at least 1")
    return _Unrolling(mdp, horizon, resolution, max_states).run(start)


@dataclasses.dataclass(frozen=True)
class _Steps:
    """Outcomes of one action from one layer of states."""

    source: np.ndarray
    successor: np.ndarray
    """A state without stock, or ``TERMINAL``."""
    probability: np.ndarray
    reward: np.ndarray
    """Its index."""
    stock: np.ndarray
    """Afterwards."""


class _Unrolling:
    """Lists states time by time."""

    def __init__(self, mdp: MDP, horizon: int, resolution: float | None, max_states: int):
        self.actions = [action.split_rewards() for action in mdp.actions]
        self.mdp, self.horizon, self.resolution, self.max_states = mdp, horizon, resolution, max_states
        self.rows: list[list[tuple[np.ndarray, ...]]] = [[] for _ in self.actions]
        """For each action (source, target, probability, reward index) of all layers."""

    def run(self, start: int) -> StockMDP:
        state, stock, first = np.array([start]), np.array([0.0]), 0
        states, stocks, times = [state], [stock], [np.array([0])]
        for time in range(self.horizon):
            steps = [self._steps(action, state, stock, self.mdp.discount**time) for action in self.actions]
            total = first + state.size
            if time == self.horizon - 1:
                state, stock = np.arange(self.mdp.num_states), np.zeros(self.mdp.num_states)
                targets = [np.where(s.successor == TERMINAL, TERMINAL, total + s.successor) for s in steps]
                if all((t == TERMINAL).all() for t in targets):
                    state, stock = state[:0], stock[:0]
            else:
                state, stock, targets = self._merged(steps, total)
            for rows, step, target in zip(self.rows, steps, targets, strict=True):
                rows.append((first + step.source, target, step.probability, step.reward))
            first = total
            if first + state.size > self.max_states:
                raise AllocationError(
                    f"with stock there are more than {self.max_states:,} states after {time + 1} steps: pass a"
                    f" resolution (now {self.resolution}), a horizon below {self.horizon}, or larger max_states"
                )
            if not state.size:
                break
            states.append(state)
            stocks.append(stock)
            times.append(np.full(state.size, time + 1))
        if times[-1][0] == self.horizon:
            self._forget(first)
        arrays = [np.concatenate(parts) for parts in (states, stocks, times)]
        return StockMDP(self._mdp(arrays[0].size), arrays[0], arrays[1], arrays[2], self.horizon)

    def _steps(self, action: MRP, state: np.ndarray, stock: np.ndarray, scale: float) -> _Steps:
        o = action.outcomes
        ends = np.searchsorted(o.state, state, side="right")
        counts = ends - np.searchsorted(o.state, state)
        source = np.repeat(np.arange(state.size), counts)
        outcome = np.arange(counts.sum()) + np.repeat(ends - np.cumsum(counts), counts)
        paid = np.array([reward.mean for reward in action.rewards])[o.reward[outcome]]
        return _Steps(
            source, o.successor[outcome], o.probability[outcome], o.reward[outcome], stock[source] + scale * paid
        )

    def _merged(self, steps: list[_Steps], total: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The states of the next layer, and where each outcome leads."""
        successor, stock = (np.concatenate([getattr(s, name) for s in steps]) for name in ("successor", "stock"))
        goes_on = np.flatnonzero(successor != TERMINAL)
        if self.resolution is None:
            scale = 10.0 ** np.ceil(np.log10(max(np.abs(stock).max(), 1e-300)))
            key = np.round(stock / scale, DIGITS)  # only to compare: the stock itself is not rounded
        else:
            key = stock = np.round(stock / self.resolution) * self.resolution
        pairs = np.stack([successor[goes_on], key[goes_on]])
        _, first, index = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        kept = goes_on[first]
        target = np.full(successor.size, TERMINAL)
        target[goes_on] = total + index.ravel()
        cuts = np.cumsum([s.source.size for s in steps])[:-1]
        return successor[kept], stock[kept], np.split(target, cuts)

    def _forget(self, first: int) -> None:
        """The model without stock, at the end."""
        for rows, action in zip(self.rows, self.actions, strict=True):
            o = action.outcomes
            following = np.where(o.terminal, TERMINAL, first + o.successor)
            rows.append((first + o.state, following, o.probability, o.reward))

    def _mdp(self, num_states: int) -> MDP:
        actions = []
        for rows, action in zip(self.rows, self.actions, strict=True):
            source, target, probability, reward = (np.concatenate(column) for column in zip(*rows, strict=True))
            actions.append(
                MRP._from_arrays(source, target, probability, action.rewards, reward, num_states, self.mdp.discount)
            )
        return MDP(actions)
