"""Criteria of distributions against formulas that need no maximum."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import bellsketch as bs
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.risk import MEAN, THRESHOLDS, CVaR, Exceeds, ExponentialUtility, as_criterion, make_criterion
from strategies import distributions


@given(distributions())
def test_of_a_distribution(distribution):
    z, p = distribution.locations, distribution.probabilities
    np.testing.assert_allclose(MEAN.of(distribution), distribution.mean, atol=1e-12)
    np.testing.assert_allclose(Exceeds(0.5).of(distribution), 1 - distribution.cdf(0.5), atol=1e-12)
    np.testing.assert_allclose(
        ExponentialUtility(0.3).of(distribution), p @ (1 - np.exp(-0.3 * z)) / 0.3, rtol=1e-9, atol=1e-12
    )


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


class TestCriterion:
    RETURNS = bs.ReturnRange(-1.0, 3.0)

    @pytest.mark.parametrize(
        ("name", "criterion"),
        [
            ("mean", MEAN),
            ("cvar:0.25", CVaR(0.25, -1.0, 3.0)),
            ("exceeds:-0.5", Exceeds(-0.5)),
            ("utility:2", ExponentialUtility(2.0)),
        ],
    )
    def test_by_name(self, name, criterion):
        assert make_criterion(name, self.RETURNS) == criterion

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("cvr:0.1", "unknown risk 'cvr'. Did you mean 'cvar'"),
            ("cvar", "risk='cvar': write a number after cvar, such as cvar:0.25"),
            ("cvar:", "write a number"),
            ("exceeds:much", "write a number after exceeds"),
            ("cvar:0", "level=0"),
            ("utility:0", "aversion=0"),
            ("mean:3", "mean takes no number"),
            ("exceeds:nan", "risk='exceeds:nan': the number after exceeds must be finite"),
            ("cvar:nan", "must be finite"),
            ("utility:inf", "must be finite"),
        ],
    )
    def test_what_makes_no_sense(self, name, message):
        with pytest.raises(bs.InputError, match=message):
            make_criterion(name, self.RETURNS)

    def test_other_forms(self):
        returns = np.array([-1.0, 0.5, 2.0])
        assert as_criterion("exceeds:1", self.RETURNS) == Exceeds(1.0)
        assert as_criterion(MEAN, self.RETURNS) is MEAN
        np.testing.assert_allclose(as_criterion(lambda g: g**2, self.RETURNS)(returns), returns[:, None] ** 2)
        with pytest.raises(bs.InputError, match="criterion=3: pass a name"):
            as_criterion(3, self.RETURNS)
        with pytest.raises(bs.InputError, match="as many numbers"):
            as_criterion(lambda g: 1.0, self.RETURNS)(returns)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        (lambda g: np.log(g), r"f\(0\) = -inf, and returns may be that: pass an f that is finite"),
        (lambda g: np.sqrt(g - 1), r"f\(0\) = nan"),
        (
            ExponentialUtility(-800.0),
            r"aversion=-800.0: .* overflows at a return of 1; pass an aversion of at most 7.1e",
        ),
    ],
)
def test_values_that_are_not_finite(criterion, message):
    with pytest.raises(bs.InputError, match=message):
        as_criterion(criterion, bs.ReturnRange(0.0, 1.0))(np.array([0.0, 1.0]))


def test_numbers_that_are_not_finite():
    with pytest.raises(bs.InputError, match="threshold=nan: pass a finite number"):
        Exceeds(float("nan"))
    with pytest.raises(bs.InputError, match="pass finite low < high"):
        CVaR(0.1, -np.inf, 1.0)
