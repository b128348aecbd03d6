import jax
import numpy as np
import pytest
from scipy import stats

import bellsketch as bs
from bellsketch.tabular import ground_truth as module
from bellsketch.tabular.sampling import default_horizon
from cases import model, truth

METHODS = {
    "atoms": {"cycle", "directed_chain", "loopy_tree", "sutton_barto18", "tree"},
    "gaussian mixture": {"cycle_gaussian", "directed_chain_gaussian", "loopy_tree_gaussian", "tree_gaussian"},
    "grid": {"loopy_fork", "loopy_fork_gaussian", "random_chain", "random_chain_gaussian", "rowland23"},
}


@pytest.mark.parametrize("name", bs.environments.NAMES)
def test_moments_agree_with_the_bellman_equations(name):
    result, mrp = truth(name), model(name)
    assert name in METHODS[result.method]
    for distribution in (result.distribution, result.nodes):
        np.testing.assert_allclose(distribution.mean, mrp.value, atol=1e-8)
        np.testing.assert_allclose(distribution.variance, mrp.return_variance, rtol=2e-5, atol=1e-6)


def test_the_tree_by_hand():
    atoms = truth("tree").distribution[0]
    expected = bs.AtomicDistribution(np.array([4.5, -8.1, 8.1]), np.array([0.5, 0.25, 0.25]))
    assert bs.wasserstein(atoms, expected) < 1e-12


def test_the_loopy_tree_by_hand():
    """From state 0: loop k times through state 1, then end in ±10; each loop is two steps and half as likely."""
    k = np.arange(60)
    loops = 0.5 ** (k + 1)
    paid = 5 * 0.9 * (1 - 0.81**k) / (1 - 0.81)
    locations = np.concatenate([paid + sign * 10 * 0.81**k * 0.81 for sign in (-1, 1)])
    expected = bs.AtomicDistribution(locations, np.concatenate([loops, loops]) / 2)
    assert bs.wasserstein(truth("loopy_tree").distribution[0], expected) < 1e-12


@pytest.mark.parametrize("steps", range(5))
def test_the_directed_chain_with_gaussian_reward_in_closed_form(steps):
    state = 4 - steps
    exact = stats.norm(0.9**steps, 0.9**steps)
    x = np.linspace(-3, 4, 41)
    np.testing.assert_allclose(truth("directed_chain_gaussian").distribution[state].cdf(x), exact.cdf(x), atol=2e-3)
    features = bs.Sigmoid(np.linspace(-3, 3, 7), 2.0)
    expected = [exact.expect(lambda z, i=i: features(z)[i]) for i in range(7)]
    np.testing.assert_allclose(truth("directed_chain_gaussian").embedding(features)[state], expected, atol=1e-9)


@pytest.mark.parametrize("name", ["tree", "loopy_tree", "cycle_gaussian", "tree_gaussian"])
def test_the_grid_agrees_with_exact_enumeration(name):
    grid = module._on_grid(model(name))
    span = grid.locations[0, -1] - grid.locations[0, 0]
    assert bs.wasserstein(grid, truth(name).distribution).max() < 1e-3 * span
    features = bs.Sigmoid(np.linspace(grid.locations[0, 0], grid.locations[0, -1], 20), 20 / span)
    on_grid = module.GroundTruth(grid, grid, "grid").embedding(features)
    assert bs.squared_embedding_error(on_grid, truth(name).embedding(features)).max() < 1e-12


def test_a_continuous_reward_that_is_not_gaussian():
    """An exponential reward paid once: the grid's distribution is that exponential."""
    mrp = bs.MRP([[0.0, 1.0], [0.0, 0.0]], [0.0, stats.expon()], 0.9, [0.0, 1.0])
    result = bs.ground_truth(mrp)
    x = np.linspace(0.1, 5, 20)
    np.testing.assert_allclose(result.distribution[1].cdf(x), stats.expon.cdf(x), atol=2e-3)
    np.testing.assert_allclose(result.distribution[0].cdf(x), stats.expon.cdf(x / 0.9), atol=2e-3)


@pytest.mark.parametrize("name", bs.environments.NAMES)
def test_monte_carlo_agrees(name):
    num = 20_000
    sampled = bs.monte_carlo(jax.random.key(0), model(name), num).distribution
    # The Dvoretzky–Kiefer–Wolfowitz bound, at a chance of 1e-6 for each state; rounding may move atoms a little.
    gap = np.sqrt(np.log(2e6) / (2 * num))
    x = np.linspace(sampled.locations.min() - 1, sampled.locations.max() + 1, 301)
    tolerance = 2e-4 * (x[-1] - x[0])
    exact = truth(name).distribution
    assert np.all(sampled.cdf(x) <= exact.cdf(x + tolerance) + gap)
    assert np.all(sampled.cdf(x) >= exact.cdf(x - tolerance) - gap)


def test_monte_carlo_follows_its_key_and_the_papers_horizons():
    mrp = model("loopy_fork")
    first, again, other = (bs.sample_returns(jax.random.key(k), mrp, 50) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    assert default_horizon(mrp) == 110
    assert default_horizon(model("loopy_fork_gaussian")) == 200
    with pytest.raises(bs.InputError, match="num_rollouts=0"):
        bs.sample_returns(jax.random.key(0), mrp, 0)


@pytest.mark.parametrize("name", bs.environments.NAMES)
def test_the_estimated_range_is_sound(name):
    mrp = model(name)
    estimate = bs.estimate_return_range(jax.random.key(0), mrp, 1000)
    least, greatest = mrp.return_bounds
    low, high = least.min(), greatest.max()
    if mrp.terminates:
        assert estimate.low <= 0 <= estimate.high
        low, high = min(low, 0.0), max(high, 0.0)
    assert low - 1e-4 <= estimate.low < estimate.high <= high + 1e-4


def test_a_single_deterministic_return_still_has_a_range():
    estimate = bs.estimate_return_range(jax.random.key(0), bs.MRP([[1.0]], [1.0], 0.5), 10)
    assert estimate.low < 2 < estimate.high
