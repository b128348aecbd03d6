"""Rewards as values, and their moments, quadrature and sampling tables against SciPy."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import InputError
from bellsketch.core.rewards import as_reward

FROZEN = {
    "norm": stats.norm(1, 2),
    "expon": stats.expon(scale=0.5),
    "uniform": stats.uniform(-1, 3),
    "laplace": stats.laplace(0.3, 0.5),
    "gumbel": stats.gumbel_r(0.2),
    "singular density": stats.gamma(0.3),
    "singular at both ends": stats.beta(0.5, 0.5),
    "bernoulli": stats.bernoulli(0.75),
    "binomial": stats.binom(5, 0.3),
    "poisson": stats.poisson(3),
    "randint": stats.randint(-2, 3),
}
CONTINUOUS = {name: frozen for name, frozen in FROZEN.items() if hasattr(frozen, "pdf")}

frozen_rewards = pytest.mark.parametrize("frozen", FROZEN.values(), ids=FROZEN.keys())
# Quadrature with equal steps in the normal score is exact to rounding, unless the quantile function has a kink.
TOLERANCE = dict.fromkeys(FROZEN.values(), 1e-9) | {FROZEN["laplace"]: 1e-6}

continuous_rewards = pytest.mark.parametrize("frozen", CONTINUOUS.values(), ids=CONTINUOUS.keys())


@frozen_rewards
def test_moments_of_the_reward_and_of_its_atoms(frozen):
    reward = as_reward(frozen)
    assert sum(reward.weights) == pytest.approx(1, abs=1e-12)
    assert (reward.mean, reward.variance) == pytest.approx((frozen.mean(), frozen.var()), abs=1e-12)
    assert reward.distribution.mean == pytest.approx(frozen.mean(), abs=1e-10)
    assert reward.distribution.variance == pytest.approx(frozen.var(), abs=TOLERANCE[frozen])


@continuous_rewards
def test_quadrature_integrates_a_sharp_feature(frozen):
    reward = as_reward(frozen)
    estimate = reward.distribution.expectation(lambda r: special.expit(3 * (r - 0.5)))
    # In the quantile, with either half from its own end: densities may be singular, quantile functions are not.
    halves = [
        integrate.quad(lambda u, inverse=inverse: special.expit(3 * (inverse(u) - 0.5)), 0, 0.5, epsabs=1e-12)[0]
        for inverse in (frozen.ppf, frozen.isf)
    ]
    assert estimate == pytest.approx(sum(halves), abs=TOLERANCE[frozen])


def test_discrete_rewards_are_exact():
    reward = as_reward(stats.binom(3, 0.5))
    assert reward.is_finite
    assert reward.atoms == (0, 1, 2, 3)
    assert reward.weights == pytest.approx((1 / 8, 3 / 8, 3 / 8, 1 / 8))


@frozen_rewards
def test_support_and_cdf(frozen):
    reward = as_reward(frozen)
    low, high = reward.support
    assert frozen.cdf(low - 1e-9) <= 1e-15
    assert frozen.sf(high) <= 1e-14
    points = np.linspace(low - 1, high + 1, 37)
    np.testing.assert_allclose(reward.cdf(points), frozen.cdf(points), atol=1e-14)


@continuous_rewards
def test_equally_likely_atoms_are_means_of_slices(frozen):
    atoms = as_reward(frozen).equally_likely(10)
    np.testing.assert_array_equal(atoms.probabilities, np.full(10, 0.1))
    means = [integrate.quad(frozen.ppf, i / 10, (i + 1) / 10, epsabs=1e-10)[0] * 10 for i in range(10)]
    np.testing.assert_allclose(atoms.locations[1:-1], means[1:-1], atol=1e-8)
    np.testing.assert_allclose(atoms.locations, means, atol=1e-2)  # the outermost slices may be unbounded


@continuous_rewards
def test_sampling_table_holds_quantiles_at_normal_scores(frozen):
    scores, values = as_reward(frozen).sampling_table()
    levels = np.array([1e-12, 1e-6, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-6])
    found = np.interp(stats.norm.ppf(levels), scores, values)
    np.testing.assert_allclose(found, frozen.ppf(levels), rtol=2e-5, atol=2e-5)


def test_what_kind_of_reward_it_is():
    def kinds(value):
        reward = as_reward(value)
        return reward.is_deterministic, reward.is_finite, reward.is_gaussian

    assert kinds(2) == (True, True, False)
    assert kinds(stats.bernoulli(0.5)) == (False, True, False)
    assert kinds(stats.norm(0, 1)) == (False, False, True)
    assert kinds(stats.expon()) == (False, False, False)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (0.0, -0.0),
        (0.5, np.float32(0.5)),
        (2.0, dirac(2.0)),
        (1, stats.bernoulli(1)),
        (stats.bernoulli(0.25), AtomicDistribution([1.0, 0.0], [0.25, 0.75])),
        (AtomicDistribution([1.0, 0.0, 1.0], [0.1, 0.75, 0.15]), AtomicDistribution([0.0, 1.0, 5.0], [0.75, 0.25, 0])),
        (stats.norm(1, 2), stats.norm(scale=2, loc=1)),
        (stats.expon(1, scale=2), stats.expon(1, scale=2)),
    ],
)
def test_equal_rewards_compare_and_hash_alike(left, right):
    assert as_reward(left) == as_reward(right)
    assert hash(as_reward(left)) == hash(as_reward(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1 + 1e-12),
        (0.1, np.float32(0.1)),
        (stats.norm(0, 1), stats.norm(0, 1 + 1e-12)),
        (stats.norm(0, 1), as_reward(stats.norm(0, 1)).distribution),
        (stats.bernoulli(0.5), stats.bernoulli(0.25)),
        (stats.expon(), stats.expon(1)),
    ],
)
def test_different_rewards_differ_and_look_different(left, right):
    assert as_reward(left) != as_reward(right)
    assert as_reward(left).name != as_reward(right).name


def test_a_reward_stays_itself():
    reward = as_reward(stats.expon())
    assert as_reward(reward) is reward


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.inf, "reward inf: rewards must be finite"),
        (np.nan, "reward nan"),
        ("plenty", "reward 'plenty': expected a number"),
        (None, "expected a number"),
        (stats.norm, "frozen"),
        (stats.norm(0, -1), r"norm.*median is nan, check the parameters"),
        (stats.expon(np.nan), r"expon.*check the parameters"),
        (stats.norm([0, 1], 1), r"median is \[0. 1.\]"),
        (AtomicDistribution([[0.0, 1.0]] * 2, [[0.5, 0.5]] * 2), r"\(2,\): expected one distribution, not a batch"),
        (stats.rv_discrete(values=([0, 0.25, 1], [0.5, 0.25, 0.25]))(), "only 0.75 of its mass"),
    ],
    ids=["inf", "nan", "text", "None", "unfrozen", "scale", "location", "batch", "batch of atoms", "half-integers"],
)
def test_bad_rewards_are_named(value, message):
    with pytest.raises(InputError, match=message):
        as_reward(value)
