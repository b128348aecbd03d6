"""Readouts of sketches of known distributions, against their expectations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, ToleranceError
from bellsketch.core.features import Polynomial, Sigmoid
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.readout import fit_readout

RANGE = ReturnRange(-3, 3)
MU = RANGE.grid(3_000)
FEATURES = Sigmoid.from_range(RANGE, 50)
TRUTH = stats.truncnorm(-2, 3, loc=0.2, scale=0.9)  # all of it inside the range


def expectation(f):
    return integrate.quad(lambda g: f(g) * TRUTH.pdf(g), *TRUTH.support(), epsabs=1e-13)[0]


@pytest.fixture(scope="module")
def sketch():
    return np.array([expectation(lambda g, z=z: 1 / (1 + np.exp(-FEATURES.slope * (g - z)))) for z in FEATURES.anchors])


@pytest.mark.parametrize(
    "f",
    [lambda g: g, lambda g: g**2, lambda g: np.exp(-0.5 * g), lambda g: np.exp(-np.exp(-g))],
    ids=["mean", "second moment", "exponential utility", "double exponential"],
)
def test_smooth_functions_are_read_out_within_their_reported_error(sketch, f):
    readout = fit_readout(FEATURES, f, MU)
    error = abs(readout(sketch) - expectation(f))
    assert error <= 1e-7
    assert error <= readout.report.max_error <= 1e-3  # an average of errors is no larger than the largest


def test_the_report_warns_of_a_discontinuous_function(sketch):
    """P(G ≤ c): no smooth feature jumps, so the worst error is a half, but its average over G is small."""
    readout = fit_readout(FEATURES, lambda g: g <= 0.5, MU)
    assert 0.4 < readout.report.max_error < 0.6
    assert readout(sketch) == pytest.approx(TRUTH.cdf(0.5), abs=1e-3)
    with pytest.raises(ToleranceError, match=r"exceeds tolerance=0.01"):
        fit_readout(FEATURES, lambda g: g <= 0.5, MU, tolerance=0.01)


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_moments_are_exact_for_polynomial_features(intercept):
    three = AtomicDistribution([-1.0, 0.5, 2.0], [0.2, 0.5, 0.3])
    features = Polynomial(4)
    readout = fit_readout(features, lambda g: g**3 - 2 * g, MU, intercept=intercept, ridge=1e-13)
    sketch = three.probabilities @ features(three.locations)
    assert readout(sketch) == pytest.approx(three.expectation(lambda g: g**3 - 2 * g), abs=1e-9)


def test_batches_and_jax(sketch):
    readout = fit_readout(FEATURES, lambda g: g, MU)
    stack = np.stack([FEATURES(0.3), sketch, FEATURES(-1.0)]).reshape(1, 3, 50)
    values = readout(stack)
    np.testing.assert_allclose(values, [[0.3, expectation(lambda g: g), -1.0]], atol=1e-4)
    compiled = jax.jit(lambda r, u: r(u))(readout, jnp.asarray(stack))
    np.testing.assert_allclose(compiled, values, atol=1e-5)


@pytest.mark.parametrize(
    "f", [lambda g: 1.0, lambda g: g[:, None], lambda g: g[:-1], lambda g: np.where(g > 1, np.inf, g)]
)
def test_f_must_return_one_finite_number_per_return(f):
    with pytest.raises(InputError, match="f must map an array of"):
        fit_readout(FEATURES, f, MU)
