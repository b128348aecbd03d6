"""Models, truths and solutions that several tests look at, computed once."""

import functools
from math import comb

import jax
import numpy as np

import bellsketch as bs

SIX = ("random_chain", "directed_chain", "tree", "loopy_tree", "cycle", "loopy_fork")


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
