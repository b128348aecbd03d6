"""Coefficients interpolated in the reward: as good as their bound says, everywhere in the interval, and only there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import bellsketch as bs
from bellsketch.core.interpolation import interpolation_bound
from bellsketch.core.measures import Uniform

SPAN = bs.ReturnRange(-2.0, 3.0)
MU = Uniform(*(SPAN.expand(0.2).low, SPAN.expand(0.2).high))
ANALYTIC = ["sigmoid", "gaussian", "tanh", "erf", "morlet", "fourier"]
OPTIONS = {"interpolation_tolerance": 1e-7}


@pytest.mark.parametrize("name", ANALYTIC)
def test_errors_are_within_the_bound(name):
    features = bs.make_features(name, SPAN, 15)
    found = bs.interpolate_coefficients(features, MU, (-1.5, 1.0), 0.9, **OPTIONS)
    assert found.interpolation_error <= 1e-7
    g = np.linspace(SPAN.low, SPAN.high, 301)
    worst = 0.0
    for reward in np.linspace(-1.5, 1.0, 41):
        with jax.enable_x64(True):
            matrix, offset = (np.asarray(x) for x in found.at(reward))
        worst = max(worst, np.abs(features(reward + 0.9 * g) - features(g) @ matrix.T - offset).max())
    assert worst <= found.max_error <= 20 * worst + 1e-4  # which looks a little further than g does


@pytest.mark.parametrize("name", ANALYTIC)
def test_the_strip_bound_bounds(name):
    """|φ| at complex arguments, by NumPy's own complex functions where there are some."""
    features = bs.make_features(name, SPAN, 7)
    x = np.linspace(-6, 6, 401)
    for height in (0.05, 0.1, 0.2):
        z = x[:, None] + 1j * height * np.linspace(0, 1, 5)
        assert np.abs(complex_features(name, features, z)).max() <= features.strip_bound(height) * (1 + 1e-12)


def complex_features(name, features, z):
    if name == "fourier":
        low, high = features.low, features.high
        angle = (
            2 * np.pi / (high - low) * np.arange(1, features.num_features // 2 + 1) * (z[..., None] - (low + high) / 2)
        )
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)
    t = features.slope * (z[..., None] - np.asarray(features.anchors))
    return {
        "sigmoid": lambda: 1 / (1 + np.exp(-t)),
        "gaussian": lambda: np.exp(-(t**2) / 2),
        "tanh": lambda: np.tanh(t),
        "erf": lambda: erf(t),
        "morlet": lambda: np.exp(-(t**2) / 2) * np.cos(2 * t),
    }[name]()


def test_the_interpolation_bound_bounds():
    """Chebyshev interpolation of one sigmoid, against NumPy's."""
    features = bs.Sigmoid([0.0], 2.0)
    for k in (4, 8, 12):
        fit = np.polynomial.Chebyshev.interpolate(lambda x: features(1.5 * x)[:, 0], k - 1)
        x = np.linspace(-1, 1, 2001)
        error = np.abs(fit(x) - features(1.5 * x)[:, 0]).max()
        assert error <= interpolation_bound(features, 1.5, k) <= 1e3 * error


def test_back_up_equals_at_one_by_one_under_jit():
    features = bs.Sigmoid.from_range(SPAN, 10)
    found = bs.interpolate_coefficients(features, MU, (-1.0, 1.0), 0.9, **OPTIONS)
    rng = np.random.default_rng(0)
    rewards, sketches = rng.uniform(-1, 1, 20), rng.uniform(size=(20, 10))
    with jax.enable_x64(True):
        together = jax.jit(lambda c, r, u: c.back_up(r, u))(found, jnp.asarray(rewards), jnp.asarray(sketches))
        for reward, sketch, result in zip(rewards, sketches, together, strict=True):
            matrix, offset = found.at(reward)
            np.testing.assert_allclose(result, matrix @ sketch + offset, atol=1e-12)


def test_never_extrapolates():
    features = bs.Sigmoid.from_range(SPAN, 10)
    found = bs.interpolate_coefficients(features, MU, (-1.0, 1.0), 0.9, **OPTIONS)
    with pytest.raises(bs.InputError, match=r"reward 1\.1 lies outside the interval \[-1, 1\]"):
        found.at(1.1)
    with pytest.raises(bs.InputError, match=r"reward 1\.1 lies outside"):
        found.back_up(jnp.array([0.0, 1.1]), jnp.ones((2, 10)))
    batch = jax.jit(found.back_up)(jnp.array([0.0, 1.1]), jnp.ones((2, 10)))  # where nothing can be raised
    assert np.isfinite(batch[0]).all()
    assert np.isnan(batch[1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": (1.0, 0.0)}, "low < high"),
        ({"interval": (0.0, np.inf)}, "low < high"),
        ({"discount": 0.0}, "discount=0"),
        ({"features": bs.Parabolic.from_range(SPAN, 10)}, "smooth and bounded"),
        ({"tolerance": 1e-12}, "tolerance=1e-12"),
    ],
)
def test_bad_input(options, message):
    arguments = {"features": bs.Sigmoid.from_range(SPAN, 10), "mu": MU, "interval": (0.0, 1.0), "discount": 0.9}
    with pytest.raises((bs.InputError, bs.ToleranceError), match=message):
        bs.interpolate_coefficients(**(arguments | options))


class TestSketchTD:
    """Continuous rewards drawn as they are."""

    def parts(self, interval=None):
        mrp = bs.environments.make("directed_chain_gaussian")
        span = bs.ReturnRange(-3.5, 5.5)
        features = bs.Sigmoid.from_range(span, 30)
        wide = span.expand(0.2)
        found = bs.interpolate_coefficients(features, Uniform(wide.low, wide.high), interval or (-7.5, 9.5), 0.9)
        return mrp, found, bs.anchor_decoder(features, span)

    def test_learns_what_the_truth_is(self):
        mrp, found, decoder = self.parts()
        learner = bs.sketch_td(mrp, found, decoder, bs.schedules.Decay(1.0, 1.0, 1.0))
        outcome = bs.run(jax.random.key(0), learner, 4_000)
        truth = bs.ground_truth(mrp).embedding(found.features)
        # Averages of 4,000 draws of features in [0, 1]: standard errors of at most 0.008 each.
        assert np.abs(outcome.state.values - truth).max() < 0.05

    def test_refuses_what_can_be_drawn_but_not_backed_up(self):
        mrp, found, decoder = self.parts((-1.0, 1.0))
        with pytest.raises(bs.MissingRewardError, match="beyond the interpolated interval"):
            bs.sketch_td(mrp, found, decoder, 0.1)
        mrp = bs.environments.make("directed_chain_gaussian", discount=0.8)
        with pytest.raises(bs.MissingRewardError, match=r"discount 0\.9, the model has 0\.8"):
            bs.sketch_td(mrp, found, decoder, 0.1)
