"""What users may write for a model, checked and brought into one form."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bellsketch.core.errors import InputError
from bellsketch.core.rewards import Reward, as_reward

TERMINAL = -1
"""The successor of an outcome that terminates."""

SUM_TOLERANCE = 1e-9


def checked_transitions(transitions: Any) -> sp.coo_array:
    matrix = sp.coo_array(transitions) if sp.issparse(transitions) else np.asarray(transitions, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise InputError(f"transitions: expected a square matrix, got shape {matrix.shape}")
    if not sp.issparse(matrix):
        matrix = sp.coo_array(np.where(np.isnan(matrix), np.inf, matrix))  # keep NaN as an entry to complain about
    return matrix


def checked_terminations(terminations: Any, num_states: int) -> np.ndarray:
    vector = np.asarray(terminations, dtype=np.float64)
    if vector.shape != (num_states,):
        raise InputError(f"terminations has shape {vector.shape}, expected one probability per state: ({num_states},)")
    return vector


def rewards_of_outcomes(
    rewards: Any, termination_rewards: Any, state: np.ndarray, successor: np.ndarray, num_states: int
) -> tuple[list[Reward], np.ndarray]:
    """The distinct rewards, and which of them each outcome pays; from rewards by state or by (state, successor)."""
    count = rewards.shape[0] if sp.issparse(rewards) else len(rewards)
    if count != num_states:
        raise InputError(f"rewards: got {count} entries or rows for {num_states} states")
    if not sp.issparse(rewards) and not all(np.ndim(row) == 1 and not isinstance(row, str) for row in rewards):
        if termination_rewards is not None:
            raise InputError("termination_rewards: leave it out where each state pays one reward")
        distinct, index = _numbered(rewards)
        return distinct, index[state]
    ends = successor == TERMINAL
    if ends.any() and termination_rewards is None:
        raise InputError(
            "termination_rewards: needed where rewards are given by (state, next state) and states terminate"
        )
    table = sp.csr_array(rewards) if sp.issparse(rewards) else np.array([list(row) for row in rewards], dtype=object)
    if table.shape != (num_states, num_states):
        raise InputError(
            f"rewards: expected one per (state, next state), {(num_states, num_states)}, got {table.shape}"
        )
    values = np.empty(state.size, dtype=object)
    values[~ends] = np.asarray(table[state[~ends], successor[~ends]], dtype=object).ravel()
    if ends.any():
        if len(termination_rewards) != num_states:
            raise InputError(f"termination_rewards: got {len(termination_rewards)} for {num_states} states")
        values[ends] = np.array(list(termination_rewards), dtype=object)[state[ends]]
    return _numbered(values)


def _numbered(values: Any) -> tuple[list[Reward], np.ndarray]:
    """The distinct rewards in order of appearance, and the number of each value; fast for plain numbers."""
    try:
        numbers = np.asarray(values, dtype=np.float64) + 0.0 if not np.iscomplexobj(values) else None  # −0 is 0
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or not np.all(np.isfinite(numbers)):  # distributions, or something to complain about
        return number_rewards([as_reward(v) for v in values])
    distinct, first, index = np.unique(numbers.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return [as_reward(v) for v in distinct[order]], np.argsort(order)[index]


def number_rewards(rewards: Sequence[Reward]) -> tuple[list[Reward], np.ndarray]:
    """The distinct rewards in order of appearance, and the number of each given one."""
    numbers: dict[Reward, int] = {}
    index = np.array([numbers.setdefault(reward, len(numbers)) for reward in rewards], dtype=np.int64)
    return list(numbers), index


def check_outcomes(
    state: np.ndarray, successor: np.ndarray, probability: np.ndarray, num_states: int, discount: float
) -> None:
    if not 0 <= discount < 1:
        raise InputError(f"discount={discount}: must lie in [0, 1); for undiscounted episodes try 0.999")
    if np.any((state < 0) | (state >= num_states) | (successor < TERMINAL) | (successor >= num_states)):
        raise InputError(f"outcomes: states must be numbered 0 to {num_states - 1}")
    if not np.all(np.isfinite(probability)):
        raise InputError(
            f"transitions: state {state[~np.isfinite(probability)][0]} has a probability that is not finite"
        )
    lowest = np.zeros(num_states)
    np.minimum.at(lowest, state, probability)
    check_rows("transitions (with terminations)", lowest, np.bincount(state, weights=probability, minlength=num_states))


def check_rows(name: str, lowest: np.ndarray, total: np.ndarray) -> None:
    if (bad := np.flatnonzero(lowest < 0)).size:
        raise InputError(f"{name}: state {bad[0]} has a negative probability, {lowest[bad[0]]}")
    if (bad := np.flatnonzero(~(np.abs(total - 1) <= SUM_TOLERANCE))).size:
        x = bad[0]
        raise InputError(
            f"{name}: the probabilities of state {x} sum to {total[x]:.12g}, not 1. Divide the row by its sum, or put"
            " the missing mass into terminations"
        )
