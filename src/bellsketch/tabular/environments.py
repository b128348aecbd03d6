"""The paper's environments, by name. States are numbered from 0; the paper counts from 1.

Each has a variant ``…_gaussian`` in which the rewarding states pay a Gaussian reward of the same mean and unit standard
deviation, except those the paper takes from elsewhere.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import UnknownNameError
from bellsketch.tabular.mrp import MRP

DISCOUNT = 0.9  # everywhere in the paper


def _graph(
    num_states: int, edges: Mapping[int, Mapping[int | None, float] | list[int | None]], rewards: Mapping[int, Any]
) -> Callable[[float, bool], MRP]:
    """A model from each state's successors (None terminates; a list means equal chances) and rewards by state."""

    def build(discount: float, gaussian: bool) -> MRP:
        outcomes = []
        for x in range(num_states):
            nexts = edges[x]
            chances = nexts if isinstance(nexts, Mapping) else {y: 1 / len(nexts) for y in nexts}
            reward = rewards.get(x, 0.0)
            if gaussian and x in rewards:
                reward = stats.norm(reward, 1.0)
            outcomes += [(x, p, reward, y) for y, p in chances.items()]
        return MRP.from_outcomes(outcomes, discount, num_states)

    return build


def _random_chain() -> Callable[[float, bool], MRP]:
    ends = {0: [None, 1], 9: [8, None]}
    return _graph(10, {x: ends.get(x, [x - 1, x + 1]) for x in range(10)}, {9: 1.0})


_TREE: dict[int, list[int | None]] = {0: [1, 2], 1: [None], 2: [3, 4], 3: [None], 4: [None]}
_TREE_REWARDS = {1: 5.0, 3: -10.0, 4: 10.0}

_WITH_GAUSSIAN = {
    "random_chain": _random_chain(),
    "directed_chain": _graph(5, {x: [x + 1] if x < 4 else [None] for x in range(5)}, {4: 1.0}),
    "tree": _graph(5, _TREE, _TREE_REWARDS),
    "loopy_tree": _graph(5, {**_TREE, 1: [0]}, _TREE_REWARDS),
    "cycle": _graph(5, {x: [(x + 1) % 5] for x in range(5)}, {0: 1.0}),
    # Not described in the text; inferred from everything the paper says of it (docs/decisions.md).
    "loopy_fork": _graph(4, {0: [1], 1: {2: 1 / 3, 3: 2 / 3}, 2: [0], 3: [0]}, {2: -1.0, 3: 1.0}),
}
_FIXED = {
    # Rowland et al. (2023), Example 6.5; transition probabilities inferred from its figure (docs/decisions.md).
    "rowland23": _graph(2, {0: {0: 0.6, 1: 0.4}, 1: {0: 0.8, 1: 0.2}}, {0: 2.0, 1: -1.0}),
    # Sutton & Barto (2018), Example 6.4: A → B → terminal, with reward 1 three times out of four.
    "sutton_barto18": _graph(
        2, {0: [1], 1: [None]}, {1: AtomicDistribution(np.array([0.0, 1.0]), np.array([0.25, 0.75]))}
    ),
}

NAMES = tuple(sorted([*_WITH_GAUSSIAN, *(f"{name}_gaussian" for name in _WITH_GAUSSIAN), *_FIXED]))


def make(name: str, discount: float = DISCOUNT) -> MRP:
    """The paper's environment of that name."""
    if name in _FIXED:
        return _FIXED[name](discount, False)
    base = name.removesuffix("_gaussian")
    if base not in _WITH_GAUSSIAN:
        raise UnknownNameError("environment", name, NAMES)
    return _WITH_GAUSSIAN[base](discount, base != name)
