"""Bounds on the largest regression error are bounds, and not much more than that."""

import numpy as np
import pytest

import bellsketch as bs
from bellsketch.core.coefficients import expected_features
from bellsketch.core.rewards import as_reward
from bellsketch.core.suprema import largest_error

SPAN = bs.ReturnRange(-1.0, 2.0)
FAMILIES = ["sigmoid", "gaussian", "tanh", "erf", "morlet", "fourier", "parabolic", "quartic", "indicator", "bins"]
REWARDS = [0.3, bs.AtomicDistribution(np.array([-0.5, 1.0]), np.array([0.25, 0.75]))]


def bound_and_error(name, num, reward, features=None):
    features = bs.make_features(name, SPAN, num) if features is None else features
    reward = as_reward(reward)
    matrix, offset = bs.fit_coefficients(features, SPAN.grid(2_000), [reward], [0.9]).at(reward, 0.9)
    target = expected_features(features, reward, 0.9)
    error = lambda g: target(g) - features(g) @ matrix.T - offset  # noqa: E731
    return largest_error(features, reward, 0.9, error, matrix, offset, (-1.3, 2.4)), error


@pytest.mark.parametrize("reward", REWARDS, ids=["number", "two atoms"])
@pytest.mark.parametrize("num", [7, 20])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_point_of_a_far_finer_grid_is_above(name, num, reward):
    bound, error = bound_and_error(name, num, reward)
    finest = np.linalg.norm(error(np.linspace(-1.3, 2.4, 200_001)), axis=1).max()
    assert bound.proven
    assert finest <= bound.value <= 1.3 * finest
    assert bound.seen <= bound.value


def test_a_spike_between_coarse_points_is_not_missed():
    """One needle of a feature, a thousandth of the range wide: a grid of 1,000 points looks past it."""
    features = bs.Parabolic([0.12345], 2_000.0)
    bound, error = bound_and_error(None, None, 0.3, features)
    assert np.abs(error(np.linspace(-1.3, 2.4, 1_000))).max() < 0.9
    assert bound.value > 0.99


def test_says_so_where_nothing_is_proven():
    from scipy import stats

    bound, _ = bound_and_error("indicator", 10, stats.norm(0.0, 0.2))
    assert not bound.proven
    assert bound.value == bound.seen
