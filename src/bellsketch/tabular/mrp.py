"""Markov reward processes with finitely many states.

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
from jaxtyping import Float, Int
from scipy.sparse.linalg import bicgstab, spsolve

from bellsketch.core.errors import InputError
from bellsketch.core.rewards import Reward, as_reward
from bellsketch.tabular.model_input import (
    TERMINAL,
    check_outcomes,
    checked_terminations,
    checked_transitions,
    number_rewards,
    rewards_of_outcomes,
)

DIRECT_STATES = 1_000
"""Larger models' expectations are found by iteration first: sparse factors can fill up."""
BOUND_WORK = 100_000_000
"""Updates of outcomes that looking for an extreme return may take: seconds."""
POLICY_STATES = 2_000
"""Models with at most this many states have their extreme returns found by policy iteration."""


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
        """Whether each outcome terminates."""
        return self.successor == TERMINAL

    @property
    def column(self) -> Any:
        """The place of each outcome among those of its state: (state, column) are indices into a padded table."""
        return np.arange(self.state.size) - np.searchsorted(self.state, self.state)


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
        matrix = checked_transitions(transitions)
        num_states = matrix.shape[0]
        ending = np.zeros(num_states) if terminations is None else checked_terminations(terminations, num_states)
        state = np.concatenate([matrix.row, np.flatnonzero(ending)])
        successor = np.concatenate([matrix.col, np.full(np.count_nonzero(ending), TERMINAL)])
        probability = np.concatenate([matrix.data, ending[ending != 0]])
        distinct, index = rewards_of_outcomes(rewards, termination_rewards, state, successor, num_states)
        self._setup(state, successor, probability, distinct, index, num_states, discount)

    @classmethod
    def from_outcomes(
        cls,
        outcomes: Iterable[tuple[int | np.integer, float, Any, int | np.integer | None]],
        discount: float,
        num_states: int | None = None,
    ) -> "MRP":
        """A model from (state, probability, reward, next state) outcomes; next state None terminates.

        This is the general form P(r, x' | x): reward and successor may depend on each other in any way.
        """
        rows = list(outcomes)
        if not rows:
            raise InputError("outcomes: there are none; a model needs at least one state with an outcome")
        for row in rows:
            if row[0] != int(row[0]) or (row[3] is not None and (row[3] != int(row[3]) or row[3] < 0)):
                raise InputError(f"outcome {row}: states must be whole numbers from 0; a next state of None terminates")
        state = np.array([row[0] for row in rows], dtype=np.int64)
        successor = np.array([TERMINAL if row[3] is None else row[3] for row in rows], dtype=np.int64)
        probability = np.array([row[1] for row in rows], dtype=np.float64)
        count = int(max(state.max(), successor.max())) + 1 if num_states is None else num_states
        rewards, index = number_rewards([as_reward(row[2]) for row in rows])
        return cls._from_arrays(state, successor, probability, rewards, index, count, discount)

    @classmethod
    def _from_arrays(cls, *arrays: Any) -> "MRP":
        model = object.__new__(cls)
        model._setup(*arrays)
        return model

    def _setup(
        self,
        state: np.ndarray,
        successor: np.ndarray,
        probability: np.ndarray,
        rewards: Sequence[Reward],
        reward: np.ndarray,
        num_states: int,
        discount: float,
    ) -> None:
        check_outcomes(state, successor, probability, num_states, discount)
        order = np.argsort(state, kind="stable")
        order = order[probability[order] > 0]
        used, index = np.unique(reward[order], return_inverse=True)
        self.num_states = num_states
        self.discount = float(discount)
        self.rewards: tuple[Reward, ...] = tuple(rewards[i] for i in used)
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
        return self._discounted_sums(self.mean_rewards, self.discount)

    @functools.cached_property
    def return_variance(self) -> Float[np.ndarray, " s"]:
        """The variance of the return, from the Bellman equation of its second moment (Sobel, 1982)."""
        o = self.outcomes
        mean = np.array([r.mean for r in self.rewards])[o.reward]
        variance = np.array([r.variance for r in self.rewards])[o.reward]
        following = np.where(o.terminal, 0.0, self.value[o.successor])
        # E[(R + γG)²] = E[R²] + 2γ E[R] E[G] + γ² E[G²], outcome by outcome
        known = o.probability * (variance + mean**2 + 2 * self.discount * mean * following)
        constant = np.bincount(o.state, weights=known, minlength=self.num_states)
        return np.maximum(self._discounted_sums(constant, self.discount**2) - self.value**2, 0.0)

    def _discounted_sums(self, each_step: Float[np.ndarray, " s"], discount: float) -> Float[np.ndarray, " s"]:
        """E[Σ_t γ^t f(X_t) | x], the solution v of v = f + γ P v, for a function f of the state."""
        system = (sp.eye_array(self.num_states) - discount * self.transitions).tocsc()
        if self.num_states > DIRECT_STATES:
            found, flag = bicgstab(system.tocsr(), each_step, rtol=1e-13, maxiter=2_000)
            if flag == 0:
                return found
        return np.atleast_1d(spsolve(system, each_step))

    @functools.cached_property
    def return_bounds(self) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The least and the greatest return that can happen from each state (up to invisible tails of the rewards).

        Of large models, bounds on them.
        """
        supports = np.array([r.support for r in self.rewards])
        return self._least_and_greatest(supports, self.discount)

    @functools.cached_property
    def noiseless_bounds(self) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """``return_bounds`` with every Gaussian reward replaced by its mean."""
        means = np.array([(r.mean, r.mean) if r.is_gaussian else r.support for r in self.rewards])
        return self._least_and_greatest(means, self.discount)

    @functools.cached_property
    def noise_bounds(self) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"]]:
        """The least and the greatest variance that Gaussian rewards can give a return, over the paths it can take."""
        variances = np.array([[r.variance if r.is_gaussian else 0.0] * 2 for r in self.rewards])
        least, greatest = self._least_and_greatest(variances, self.discount**2)
        return np.maximum(least, 0.0), greatest

    def _least_and_greatest(self, rewards: np.ndarray, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """Outer bounds on the extreme discounted sums of what each reward index pays, at least and at most.

        Value iteration whose last step changed nothing by more than δ is within δγ/(1 − γ) of its limit, so it may stop
        at any time and be widened by that. In small models policy iteration makes δ vanish in a few steps.
        """
        o, ends, bounds = self.outcomes, self.outcomes.terminal, []
        steps = min(self.horizon(1e-12), max(1, BOUND_WORK // o.state.size))
        for extreme, pays, sign in ((np.minimum, rewards[:, 0], -1), (np.maximum, rewards[:, 1], 1)):
            value, backup, change = np.zeros(self.num_states), np.zeros(o.state.size), 0.0
            for step in range(steps):
                if step > 0 and self.num_states <= POLICY_STATES:
                    value = self._following(backup == value[o.state], pays, discount)
                backup = pays[o.reward] + discount * np.where(ends, 0.0, value[o.successor])
                before, value = value, extreme.reduceat(backup, self._starts)
                change = float(np.abs(value - before).max())
                if change <= 1e-14 * np.abs(value).max():
                    break
            bounds.append(value + sign * change * discount / (1 - discount))
        return bounds[0], bounds[1]

    def _following(self, extreme: np.ndarray, pays: np.ndarray, discount: float) -> np.ndarray:
        """The discounted sum of what is paid if in every state the first extreme outcome happens, for ever."""
        o, candidates = self.outcomes, np.flatnonzero(extreme)
        first = candidates[np.searchsorted(o.state[candidates], np.arange(self.num_states))]
        go = ~o.terminal[first]
        entries = (np.full(int(go.sum()), discount), (np.flatnonzero(go), o.successor[first[go]]))
        system = sp.eye_array(self.num_states) - sp.csr_array(entries, shape=(self.num_states, self.num_states))
        return np.atleast_1d(spsolve(system.tocsc(), pays[o.reward[first]]))

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

    def split_rewards(self, continuous: str = "keep") -> "MRP":
        """The same model with each finite random reward split into outcomes that pay one number each.

        Continuous rewards are kept as they are, or replaced by atoms, which changes the model a little: ``quadrature``
        nodes keep the expectation of every smooth function of a reward, so the expected sketch operator stays the
        same; ``quantiles`` are equally likely atoms, for methods that look at the shape of the distribution.
        """
        if continuous not in ("keep", "quadrature", "quantiles"):
            raise InputError(f"continuous={continuous!r}: choose 'keep', 'quadrature' or 'quantiles'")
        if all(r.is_deterministic or (not r.is_finite and continuous == "keep") for r in self.rewards):
            return self

        def parts(reward: Reward) -> list[tuple[Any, float]]:
            if not reward.is_finite and continuous == "keep":
                return [(reward, 1.0)]
            atoms = reward.distribution if reward.is_finite or continuous == "quadrature" else reward.equally_likely()
            return list(zip(atoms.locations.tolist(), atoms.probabilities.tolist(), strict=True))

        split = [parts(reward) for reward in self.rewards]
        o = self.outcomes
        return MRP.from_outcomes(
            (
                (int(x), float(p * weight), atom, None if y == TERMINAL else int(y))
                for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True)
                for atom, weight in split[r]
            ),
            self.discount,
            self.num_states,
        )
