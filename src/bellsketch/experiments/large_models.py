"""Models of any size to measure with: a random graph, a random walk on a line, and one on a square grid."""

import numpy as np
import scipy.sparse as sp

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.errors import UnknownNameError
from bellsketch.core.families import make_features
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator
from bellsketch.tabular.sampling import returns_within_reach
from bellsketch.tabular.sketch import sketch_operator

REWARDS = (-1.0, 0.0, 1.0)
GRAPHS = ("random", "line", "grid", "joint")


def large_model(graph: str, num_states: int, discount: float, seed: int) -> MRP:
    """States that pay −1, 0 or 1, chosen at random, and move to a random one of their neighbours.

    On a ``random`` graph each has four neighbours anywhere, on a ``line`` two and on a square ``grid`` four; a step
    beyond an edge stays where it is. On a ``joint`` graph, random too, each of the four steps pays a reward of its own.
    """
    rng = np.random.default_rng(seed)
    states = np.arange(num_states)
    if graph in ("random", "joint"):
        neighbours = rng.integers(0, num_states, (num_states, 4))
    elif graph == "line":
        neighbours = np.clip(states[:, None] + [-1, 1], 0, num_states - 1)
    elif graph == "grid":
        side = int(np.sqrt(num_states))
        num_states, states = side**2, states[: side**2]
        row, column = np.divmod(states, side)
        moves = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
        row, column = (np.clip(at[:, None] + moves[:, i], 0, side - 1) for i, at in enumerate((row, column)))
        neighbours = row * side + column
    else:
        raise UnknownNameError("graph", graph, GRAPHS)
    degree = neighbours.shape[1]
    starts = np.arange(0, num_states * degree + 1, degree)
    probabilities = np.full(neighbours.size, 1 / degree)
    transitions = sp.csr_array((probabilities, neighbours.ravel(), starts), shape=(num_states, num_states))
    transitions.sum_duplicates()
    if graph == "joint":
        paid = transitions.copy()
        paid.data = rng.choice(REWARDS, transitions.nnz)
        return MRP(transitions, paid, discount)
    return MRP(transitions, rng.choice(REWARDS, num_states), discount)


def large_operator(mrp: MRP, num_features: int) -> AffineOperator:
    """Sigmoid features over mean ± 4.5 standard deviations of all states' returns."""
    return_range = ReturnRange(*returns_within_reach(mrp))
    features = make_features("sigmoid", return_range, num_features)
    fit = fit_coefficients(features, return_range.grid(), mrp.rewards, (mrp.discount, 0.0))
    return sketch_operator(mrp, fit)
