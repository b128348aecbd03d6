"""Models, truths and solutions that several tests look at, computed once."""

import functools
from math import comb

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import bellsketch as bs

SIX = ("random_chain", "directed_chain", "tree", "loopy_tree", "cycle", "loopy_fork")
DETERMINISTIC = tuple(name for name in bs.environments.NAMES if not name.endswith("_gaussian"))


def environments(*quick: str) -> pytest.MarkDecorator:
    """For a test of all environments, of which those that are not ``quick`` are slow."""
    names = [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in bs.environments.NAMES]
    return pytest.mark.parametrize("name", names)


@functools.cache
def model(name: str) -> bs.MRP:
    return bs.environments.make(name)


@functools.cache
def truth(name: str) -> bs.GroundTruth:
    return bs.ground_truth(model(name))


@functools.cache
def solution(name: str, num_features: int = 50, features: str = "sigmoid") -> bs.Solution:
    return bs.solve(model(name), features=features, num_features=num_features, return_range=return_range(name))


@functools.cache
def return_range(name: str) -> bs.ReturnRange:
    return bs.estimate_return_range(jax.random.key(0), model(name))


def by_hand_moments(mrp: bs.MRP, degree: int) -> np.ndarray:
    """E[G^k] for k = 0 … degree, by solving Sobel's recursion one moment at a time. Deterministic rewards only."""
    o, values = mrp.outcomes, np.array([r.mean for r in mrp.rewards])
    moments = np.zeros((mrp.num_states, degree + 1))
    moments[:, 0] = 1
    transitions = mrp.transitions.toarray()
    for k in range(1, degree + 1):
        known = np.zeros(mrp.num_states)
        for x, y, p, r in zip(o.state, o.successor, o.probability, values[o.reward], strict=True):
            known[x] += p * r**k
            if y >= 0:
                lower = sum(comb(k, j) * r ** (k - j) * mrp.discount**j * moments[y, j] for j in range(1, k))
                known[x] += p * lower
        moments[:, k] = np.linalg.solve(np.eye(mrp.num_states) - mrp.discount**k * transitions, known)
    return moments


def bellman_system(mrp: bs.MRP, coefficients: bs.BellmanCoefficients) -> tuple[sp.csr_array, np.ndarray]:
    """M and b of the fixed point U = M U + b, put together outcome by outcome. Deterministic rewards only."""
    features, o = coefficients.features, mrp.outcomes
    m = features.num_features
    constant, blocks = np.zeros((mrp.num_states, m)), sp.csr_array((mrp.num_states * m, mrp.num_states * m))
    for i, reward in enumerate(mrp.rewards):
        a, c = coefficients.at(reward, mrp.discount)
        this, ends = o.reward == i, o.terminal
        np.add.at(constant, o.state[this & ends], o.probability[this & ends, None] * features(reward.mean))
        np.add.at(constant, o.state[this & ~ends], o.probability[this & ~ends, None] * np.asarray(c))
        place = o.state[this & ~ends], o.successor[this & ~ends]
        chances = sp.coo_array((o.probability[this & ~ends], place), shape=(mrp.num_states, mrp.num_states))
        blocks = blocks + sp.kron(chances, np.asarray(a), format="csr")
    return blocks, constant


def tangled(num_states: int, discount: float = 0.9, seed: int = 0) -> bs.MRP:
    """Reward and successor depend on each other, states have several pairs of both, and some terminate."""
    rng = np.random.default_rng(seed)
    rows = []
    for x in range(num_states):
        kinds = rng.integers(1, 5)
        for p in rng.dirichlet(np.ones(kinds)):
            successor = None if rng.random() < 0.15 else int(rng.integers(num_states))
            rows.append((x, float(p), float(rng.choice([-1.0, 0.0, 0.5])), successor))
    return bs.MRP.from_outcomes(rows, discount, num_states)


def fitted(mrp: bs.MRP, num_features: int) -> bs.BellmanCoefficients:
    """Coefficients of sigmoids over mean ± 4.5 standard deviations."""
    reach = 4.5 * np.sqrt(mrp.return_variance)
    span = bs.ReturnRange(float((mrp.value - reach).min()) - 0.1, float((mrp.value + reach).max()) + 0.1)
    return bs.fit_coefficients(bs.Sigmoid.from_range(span, num_features), span.grid(), mrp.rewards, (mrp.discount, 0.0))


DAYS = 8


def week(
    days: int, safe: float = 10.0, high: float = 30.0, low: float = 2.0, chance: float = 0.3, discount: float = 0.99
) -> bs.MDP:
    """A state for each day, and on each a safe job (action 0) or a risky one (action 1)."""
    following = [*range(1, days), None]
    sure = [(day, 1.0, safe, y) for day, y in enumerate(following)]
    risky = [row for d, y in enumerate(following) for row in ((d, chance, high, y), (d, 1 - chance, low, y))]
    return bs.MDP([bs.MRP.from_outcomes(rows, discount) for rows in (sure, risky)])
