"""Bounds on the largest regression error are bounds, and not much more than that."""

import itertools

import numpy as np
import pytest
from scipy import stats

import bellsketch as bs
from bellsketch.core.rewards import as_reward
from bellsketch.core.suprema import RegressionError, largest_over, tabulate

SPAN = bs.ReturnRange(-1.0, 2.0)
FAMILIES = [
    "sigmoid",
    "gaussian",
    "tanh",
    "erf",
    "morlet",
    "fourier",
    "parabolic",
    "quartic",
    "indicator",
    "bins",
    "polynomial",
]
REWARDS = [0.3, bs.AtomicDistribution(np.array([-0.5, 1.0]), np.array([0.25, 0.75]))]


def largest_error(error, low, high):
    """A bound on sup ‖e(g)‖₂ over an interval, and whether it is proven."""
    table = tabulate([error], low, high)
    return float(table.bounds(np.eye(len(error.offset))[None]).max()), table.proven


def regression_error(name, num, reward, features=None, noise=0.0):
    features = bs.make_features(name, SPAN, num) if features is None else features
    reward = as_reward(reward)
    matrix, offset = bs.fit_coefficients(features, SPAN.grid(2_000), [reward], [0.9]).at(reward, 0.9)
    return RegressionError(features, reward, 0.9, matrix, offset, noise)


@pytest.mark.parametrize("reward", REWARDS, ids=["number", "two atoms"])
@pytest.mark.parametrize("num", [7, 20])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_point_of_a_far_finer_grid_is_above(name, num, reward):
    error = regression_error(name, num, reward)
    bound, proven = largest_error(error, -1.3, 2.4)
    finest = np.linalg.norm(error(np.linspace(-1.3, 2.4, 200_001)), axis=1).max()
    assert proven
    # 1.15 and 1.09 for the points; polynomials have no error but rounding.
    assert finest - 1e-12 <= bound <= 1.2 * finest + 1e-12


def test_the_bounds_of_each_panel_hold_on_it_in_any_weighting():
    errors = [regression_error("gaussian", 15, reward) for reward in (0.0, 0.3)]
    table = tabulate(errors, -1.3, 2.4)
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 4, 15))
    bounds = table.bounds(first, second)
    for i, (low, high) in enumerate(itertools.pairwise(table.edges)):
        g = np.linspace(low, high, 500)
        for k in range(3):
            sizes = np.linalg.norm(errors[0](g) @ first[k].T + errors[1](g) @ second[k].T, axis=1)
            assert sizes.max() <= bounds[k, i] * (1 + 1e-9)


def test_largest_of_any_range_of_panels():
    table = tabulate([regression_error("tanh", 20, 0.3)], -1.3, 2.4)
    rng = np.random.default_rng(0)
    bounds = rng.uniform(size=(2, table.num_panels))
    low, high = np.sort(rng.uniform(-1.3, 2.4, (2, 50)), axis=0)
    found = largest_over(table.edges, bounds, low, high)
    for q in range(50):
        meets = (table.edges[1:] >= low[q]) & (table.edges[:-1] <= high[q])
        np.testing.assert_array_equal(found[:, q], bounds[:, meets].max(axis=1))


def test_noise_is_averaged_over():
    """Against the average over many draws."""
    plain, noisy = (regression_error("sigmoid", 10, 0.3, noise=noise) for noise in (0.0, 0.04))
    z = 0.2 * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    np.testing.assert_allclose(noisy(np.array([0.7]))[0], plain(0.7 + z).mean(axis=0), atol=1e-6)
    assert largest_error(noisy, -1.0, 2.0)[0] < largest_error(plain, -1.5, 2.5)[0]


def test_a_spike_between_coarse_points_is_not_missed():
    """One needle of a feature, a thousandth of the range wide: a grid of 1,000 points looks past it."""
    error = regression_error(None, None, 0.3, bs.Parabolic([0.125], 2_000.0))
    assert np.abs(error(np.linspace(-1.3, 2.4, 1_000))).max() < 0.1
    assert largest_error(error, -1.3, 2.4)[0] > 0.99


def test_says_so_where_nothing_is_proven():
    assert not largest_error(regression_error("indicator", 10, stats.norm(0.0, 0.2)), -1.3, 2.4)[1]
    assert not largest_error(regression_error("sigmoid", 10, stats.uniform(0.0, 0.2)), -1.3, 2.4)[1]
    assert largest_error(regression_error("sigmoid", 10, stats.norm(0.0, 0.2)), -1.3, 2.4)[1]
