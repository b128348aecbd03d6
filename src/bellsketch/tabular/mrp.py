"""Markov reward processes and Markov decision processes with finitely many states.

Whatever form a model is given in, it is kept as a table of outcomes: from state x, with probability p, receive a
reward of some distribution and move to x', or terminate. There are no terminal states and no ``done`` flags: an
outcome that terminates has no successor.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve
from jaxtyping import Float, Int

from bellsketch.core.errors import InputError
from bellsketch.core.rewards import Reward, as_reward

TERMINAL = -1
"""The successor of an outcome that terminates."""

SUM_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """All outcomes of all states, sorted by state."""

    state: Int[np.ndarray, " k"]
    successor: Int[np.ndarray, " k"]
    """x', or ``TERMINAL``."""
    probability: Float[np.ndarray, " k"]
    reward: Int[np.ndarray, " k"]
    """Index into the model's ``rewards``."""

    @property
    def terminal(self) -> Any:
        return self.successor == TERMINAL


class MRP:
    """A Markov reward process.

    Args:
      transitions: P(x' | x) of shape [s, s], dense or SciPy sparse. With ``terminations`` each row sums to 1.
      rewards: what a state pays on leaving it. Either one reward per state (a vector; entries may be numbers, atomic
        distributions or frozen ``scipy.stats`` distributions, drawn independently of X'), or one per (x, x') (a dense
        or sparse matrix of numbers, or nested lists whose entries may be distributions).
      discount: γ in [0, 1).
      terminations: the probability that a state's outcome is to terminate, default 0 everywhere.
      termination_rewards: one reward per state for its terminating outcome. Needed only if ``rewards`` are given per
        (x, x') and some state terminates.

    A model in which reward and successor are drawn jointly is built with :meth:`from_outcomes`.
    """

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        discount: float,
        terminations: Any = None,
        termination_rewards: Any = None,
    ):
        matrix = _checked_transitions(transitions)
        num_states = matrix.shape[0]
        ending = np.zeros(num_states) if terminations is None else _checked_vector(terminations, num_states)
        state = np.concatenate([matrix.row, np.flatnonzero(ending)])
        successor = np.concatenate([matrix.col, np.full(np.count_nonzero(ending), TERMINAL)])
        probability = np.concatenate([matrix.data, ending[ending != 0]])
        given = _rewards_of_outcomes(rewards, termination_rewards, state, successor, num_states)
        self._setup(state, successor, probability, given, num_states, discount)

    @classmethod
    def from_outcomes(
        cls, outcomes: Iterable[tuple[int, float, Any, int | None]], discount: float, num_states: int | None = None
    ) -> "MRP":
        """A model from (state, probability, reward, next state) outcomes; next state None terminates.

        This is the general form P(r, x' | x): reward and successor may depend on each other in any way.
        """
        rows = list(outcomes)
        if not rows:
            raise InputError("outcomes: there are none; a model needs at least one state with an outcome")
        state = np.array([row[0] for row in rows], dtype=np.int64)
        successor = np.array([TERMINAL if row[3] is None else row[3] for row in rows], dtype=np.int64)
        probability = np.array([row[1] for row in rows], dtype=np.float64)
        model = object.__new__(cls)
        count = int(max(state.max(), successor.max())) + 1 if num_states is None else num_states
        model._setup(state, successor, probability, [as_reward(row[2]) for row in rows], count, discount)
        return model

    def _setup(
        self,
        state: np.ndarray,
        successor: np.ndarray,
        probability: np.ndarray,
        rewards: Sequence[Reward],
        num_states: int,
        discount: float,
    ) -> None:
        _check_outcomes(state, successor, probability, num_states, discount)
        order = np.argsort(state, kind="stable")
        order = order[probability[order] > 0]
        distinct = list(dict.fromkeys(rewards[i] for i in order))
        number = {reward: i for i, reward in enumerate(distinct)}
        index = np.array([number[rewards[i]] for i in order], dtype=np.int64)
        self.num_states = num_states
        self.discount = float(discount)
        self.rewards: tuple[Reward, ...] = tuple(distinct)
        """The distinct reward distributions of the model."""
        self.outcomes = Outcomes(state[order], successor[order], probability[order], index)

    def __repr__(self) -> str:
        return f"MRP({self.num_states} states, {len(self.rewards)} rewards, discount {self.discount})"

    @functools.cached_property
    def transitions(self) -> sp.csr_array:
        """P(x' | x) as a sparse matrix; rows sum to one minus the probability of terminating."""
        o = self.outcomes
        go = ~o.terminal
        shape = (self.num_states, self.num_states)
        return sp.csr_array((o.probability[go], (o.state[go], o.successor[go])), shape=shape)

    @functools.cached_property
    def terminations(self) -> Float[np.ndarray, " s"]:
        """P(terminate | x)."""
        o = self.outcomes
        return np.bincount(o.state, weights=o.probability * o.terminal, minlength=self.num_states)

    @property
    def terminates(self) -> bool:
        """Whether any state can terminate."""
        return bool(self.outcomes.terminal.any())

    @functools.cached_property
    def mean_rewards(self) -> Float[np.ndarray, " s"]:
        """E[R | x]."""
        means = np.array([r.mean for r in self.rewards])
        o = self.outcomes
        return np.bincount(o.state, weights=o.probability * means[o.reward], minlength=self.num_states)

    @functools.cached_property
    def value(self) -> Float[np.ndarray, " s"]:
        """V^π, the expected return, by solving the Bellman equation exactly."""
        system = sp.eye_array(self.num_states, format="csc") - self.discount * self.transitions.tocsc()
        return np.atleast_1d(spsolve(system.tocsc(), self.mean_rewards))

    @functools.cached_property
    def return_variance(self) -> Float[np.ndarray, " s"]:
        """The variance of the return, from the Bellman equation of its second moment (Sobel, 1982)."""
        o = self.outcomes
        mean, variance = (np.array(column)[o.reward] for column in zip(*((r.mean, r.variance) for r in self.rewards)))
        following = np.where(o.terminal, 0.0, self.value[o.successor])
        # E[(R + γG)²] = E[R²] + 2γ E[R] E[G] + γ² E[G²], outcome by outcome
        known = o.probability * (variance + mean**2 + 2 * self.discount * mean * following)
        constant = np.bincount(o.state, weights=known, minlength=self.num_states)
        system = sp.eye_array(self.num_states, format="csc") - self.discount**2 * self.transitions.tocsc()
        return np.maximum(np.atleast_1d(spsolve(system.tocsc(), constant)) - self.value**2, 0.0)

    @functools.cached_property
    def return_bounds(self) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The least and the greatest return that can happen from each state (up to invisible tails of the rewards)."""
        o = self.outcomes
        supports = np.array([r.support for r in self.rewards])[o.reward]
        bounds = []
        for extreme, reward in ((np.minimum, supports[:, 0]), (np.maximum, supports[:, 1])):
            value = np.zeros(self.num_states)
            for _ in range(self.horizon(1e-12)):
                backup = reward + self.discount * np.where(o.terminal, 0.0, value[o.successor])
                value = extreme.reduceat(backup, self._starts)
            bounds.append(value)
        return bounds[0], bounds[1]

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """Where each state's outcomes start; every state has at least one."""
        return np.searchsorted(self.outcomes.state, np.arange(self.num_states))

    def horizon(self, tolerance: float) -> int:
        """The number of steps after which the discounted rest of any return is below ``tolerance``, relatively."""
        if self.discount == 0:
            return 1
        return int(np.ceil(np.log(tolerance * (1 - self.discount)) / np.log(self.discount)))

    @property
    def rewards_by_state(self) -> Int[np.ndarray, " s"] | None:
        """Each state's reward index if the reward does not depend on the successor, else None.

        This is the paper's conditional independence R ⊥ X' | X.
        """
        o = self.outcomes
        first = o.reward[self._starts]
        return first if np.array_equal(o.reward, first[o.state]) else None

    def split_rewards(self, *, quadrature: bool = False) -> "MRP":
        """The same model with each finite random reward split into outcomes that pay one number each.

        With ``quadrature`` continuous rewards are split too, into their quadrature nodes. That changes the model, but
        not the expectation of any smooth function of a reward, so the expected sketch operator stays the same.
        """
        o = self.outcomes

        def atoms(reward: Reward) -> list[tuple[float, Any]]:
            if not (reward.is_finite or quadrature):
                return [(1.0, reward)]
            return list(zip(reward.weights, reward.atoms, strict=True))

        return MRP.from_outcomes(
            (
                (int(x), float(p * weight), atom, None if y == TERMINAL else int(y))
                for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True)
                for weight, atom in atoms(self.rewards[r])
            ),
            self.discount,
            self.num_states,
        )


class MDP:
    """A Markov decision process: one :class:`MRP` per action, over the same states and with the same discount."""

    def __init__(self, actions: Sequence[MRP]):
        if not actions:
            raise InputError("actions: an MDP needs at least one action")
        first = actions[0]
        for i, action in enumerate(actions):
            if (action.num_states, action.discount) != (first.num_states, first.discount):
                raise InputError(
                    f"action {i} has {action.num_states} states and discount {action.discount}, action 0 has"
                    f" {first.num_states} and {first.discount}: all actions must share both"
                )
        self.actions = tuple(actions)
        self.num_states, self.num_actions, self.discount = first.num_states, len(actions), first.discount

    @classmethod
    def from_arrays(cls, transitions: Any, rewards: Any, discount: float, terminations: Any = None) -> "MDP":
        """From P[a, s, s'], rewards[a] in any form :class:`MRP` takes, and terminations[a, s]."""
        ends = [None] * len(transitions) if terminations is None else terminations
        if not len(transitions) == len(rewards) == len(ends):
            raise InputError(
                f"{len(transitions)} transition matrices, {len(rewards)} rewards and {len(ends)} terminations:"
                " give one of each per action"
            )
        return cls([MRP(p, r, discount, t) for p, r, t in zip(transitions, rewards, ends, strict=True)])

    def mrp(self, policy: Any) -> MRP:
        """The MRP of following a policy π(a | x) of shape [s, a], or an action per state of shape [s]."""
        policy = np.asarray(policy)
        if policy.ndim == 1 and np.issubdtype(policy.dtype, np.integer):
            if policy.size != self.num_states or np.any((policy < 0) | (policy >= self.num_actions)):
                raise InputError(f"policy: expected {self.num_states} actions from 0 to {self.num_actions - 1}")
            policy = np.eye(self.num_actions)[policy]
        policy = np.asarray(policy, dtype=np.float64)
        if policy.shape != (self.num_states, self.num_actions):
            raise InputError(f"policy has shape {policy.shape}, expected {(self.num_states, self.num_actions)}")
        _check_rows("policy", policy.min(axis=1), policy.sum(axis=1))
        outcomes = [a.outcomes for a in self.actions]
        model = object.__new__(MRP)
        model._setup(
            np.concatenate([o.state for o in outcomes]),
            np.concatenate([o.successor for o in outcomes]),
            np.concatenate([o.probability * policy[o.state, i] for i, o in enumerate(outcomes)]),
            [a.rewards[r] for a in self.actions for r in a.outcomes.reward],
            self.num_states,
            self.discount,
        )
        return model


def _checked_transitions(transitions: Any) -> sp.coo_array:
    matrix = sp.coo_array(transitions) if sp.issparse(transitions) else np.asarray(transitions, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise InputError(f"transitions: expected a square matrix, got shape {matrix.shape}")
    if not sp.issparse(matrix):
        matrix = sp.coo_array(np.where(np.isnan(matrix), np.inf, matrix))  # keep NaN as an entry to complain about
    return matrix


def _checked_vector(terminations: Any, num_states: int) -> np.ndarray:
    vector = np.asarray(terminations, dtype=np.float64)
    if vector.shape != (num_states,):
        raise InputError(f"terminations has shape {vector.shape}, expected one probability per state: ({num_states},)")
    return vector


def _rewards_of_outcomes(
    rewards: Any, termination_rewards: Any, state: np.ndarray, successor: np.ndarray, num_states: int
) -> list[Reward]:
    """The reward of each outcome, from rewards per state or per (state, successor)."""
    if not sp.issparse(rewards):
        rewards = list(rewards)
    if len(rewards) != num_states if isinstance(rewards, list) else rewards.shape[0] != num_states:
        count = len(rewards) if isinstance(rewards, list) else rewards.shape[0]
        raise InputError(f"rewards: got {count} entries or rows for {num_states} states")
    per_pair = sp.issparse(rewards) or all(isinstance(row, list | tuple | np.ndarray) and np.ndim(row) for row in rewards)
    if not per_pair:
        by_state = [as_reward(r) for r in rewards]
        return [by_state[x] for x in state]
    if np.any(successor == TERMINAL) and termination_rewards is None:
        raise InputError("termination_rewards: needed, as rewards are given per (state, next state) and states terminate")
    table = rewards.todok() if sp.issparse(rewards) else None
    return [
        as_reward(termination_rewards[x] if y == TERMINAL else rewards[x][y] if table is None else table[x, y])
        for x, y in zip(state, successor, strict=True)
    ]


def _check_outcomes(
    state: np.ndarray, successor: np.ndarray, probability: np.ndarray, num_states: int, discount: float
) -> None:
    if not 0 <= discount < 1:
        raise InputError(f"discount={discount}: must lie in [0, 1)")
    if np.any((state < 0) | (state >= num_states) | (successor < TERMINAL) | (successor >= num_states)):
        raise InputError(f"outcomes: states must be numbered 0 to {num_states - 1}")
    if not np.all(np.isfinite(probability)):
        raise InputError(f"transitions: state {state[~np.isfinite(probability)][0]} has a probability that is not finite")
    lowest = np.zeros(num_states)
    np.minimum.at(lowest, state, probability)
    _check_rows("transitions (with terminations)", lowest, np.bincount(state, weights=probability, minlength=num_states))


def _check_rows(name: str, lowest: np.ndarray, total: np.ndarray) -> None:
    if (bad := np.flatnonzero(lowest < 0)).size:
        raise InputError(f"{name}: state {bad[0]} has a negative probability, {lowest[bad[0]]}")
    if (bad := np.flatnonzero(~(np.abs(total - 1) <= SUM_TOLERANCE))).size:
        x = bad[0]
        raise InputError(
            f"{name}: the probabilities of state {x} sum to {total[x]:.12g}, not 1. Divide the row by its sum, or put"
            " the missing mass into terminations"
        )
