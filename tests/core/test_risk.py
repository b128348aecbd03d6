"""Criteria of distributions against formulas that need no maximum."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.risk import MEAN, THRESHOLDS, CVaR, Exceeds, ExponentialUtility
from strategies import distributions


@given(distributions())
def test_of_a_distribution(distribution):
    z, p = distribution.locations, distribution.probabilities
    np.testing.assert_allclose(MEAN.of(distribution), distribution.mean, atol=1e-12)
    np.testing.assert_allclose(Exceeds(0.5).of(distribution), 1 - distribution.cdf(0.5), atol=1e-12)
    np.testing.assert_allclose(ExponentialUtility(0.3).of(distribution), p @ (1 - np.exp(-0.3 * z)) / 0.3, rtol=1e-9)


@pytest.mark.parametrize("level", [0.1, 0.7, 1.0])
@given(distribution=distributions())
def test_cvar_is_too_low_by_no_more_than_it_says(level, distribution):
    gap = 20 / 2 / (THRESHOLDS - 1)
    short = distribution.cvar(level) - CVaR(level, -10.0, 10.0).of(distribution)
    assert -1e-9 <= short <= max(1, 1 / level - 1) * gap + 1e-9


def test_of_a_batch_and_of_jax_arrays():
    z, p = np.array([[-1.0, 2.0], [0.0, 1.0]]), np.array([[0.5, 0.5], [0.25, 0.75]])
    risk = CVaR(0.5, -1.0, 2.0)
    for distribution in (AtomicDistribution(z, p), AtomicDistribution(jnp.asarray(z), jnp.asarray(p))):
        np.testing.assert_allclose(MEAN.of(distribution), [0.5, 0.75])
        np.testing.assert_allclose(risk.of(distribution), [-1.0, 0.5], atol=0.03)
