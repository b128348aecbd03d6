"""What every algorithm promises on every environment. Adding an algorithm is adding a row."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.experiments.compare import METHODS
from bellsketch.tabular.categorical import categorical_td
from bellsketch.tabular.dirac import dirac_td
from bellsketch.tabular.expectile import expectile_dp, expectile_td
from bellsketch.tabular.moments import moments_td
from bellsketch.tabular.particles import GaussianMixture, particle_dp, particle_td
from bellsketch.tabular.quantile import quantile_td
from cases import environments, model, return_range, truth

pytestmark = pytest.mark.filterwarnings("ignore:support .* misses part of the returns")

DECAY = bs.schedules.Decay(0.5, 0.8, 50.0)


@dataclasses.dataclass(frozen=True)
class Row:
    make: Callable[..., bs.Algorithm]
    bias: float
    """How far the mean may be from V^π, as a share of the return range."""
    steps: int = 200
    num: int = 12


def sketch_td(mrp, num, span):
    features = bs.Sigmoid.from_range(span, num)
    rewards = mrp.split_rewards("quadrature").rewards
    coefficients = bs.fit_coefficients(features, span.grid(1_000), rewards, (mrp.discount, 0.0))
    return bs.sketch_td(mrp, coefficients, bs.fine_decoder(coefficients, span), DECAY)


def gaussian_particles(mrp, num, span):
    kernel = GaussianMixture(np.array([0.1, 1.0]) * span.width**2)
    return particle_dp(mrp, num, span, bs.schedules.Constant(0.02 * span.width**2), kernel)


def moving(share):
    """A step size in units of return, for methods that move particles."""
    return lambda span: bs.schedules.Decay(share * span.width, 0.8, 50.0)


ROWS = {
    "sketch (fine)": Row(METHODS["sketch (fine)"], 0.02, num=20),
    "sketch (anchors)": Row(METHODS["sketch (anchors)"], 0.03, num=20),
    "categorical": Row(METHODS["categorical"], 0.01),
    "quantile": Row(METHODS["quantile"], 0.15),
    "expectile": Row(METHODS["expectile"], 0.05),
    "expectile (scipy)": Row(lambda mrp, num, span: expectile_dp(mrp, num, imputation="scipy"), 0.15, steps=60, num=3),
    "moments": Row(METHODS["moments"], 0.01),
    "MMD particles": Row(METHODS["MMD particles"], 0.3, steps=1_000),
    "MMD particles (Gaussian)": Row(gaussian_particles, 0.4, steps=1_000),
    "Dirac": Row(METHODS["Dirac"], 1e-7),
    "sketch TD": Row(sketch_td, 0.1, steps=3_000, num=20),
    "categorical TD": Row(lambda mrp, num, span: categorical_td(mrp, span.points(num), DECAY), 0.1, steps=3_000),
    "quantile TD": Row(lambda mrp, num, span: quantile_td(mrp, num, moving(0.2)(span)), 0.2, steps=3_000),
    "expectile TD": Row(lambda mrp, num, span: expectile_td(mrp, num, DECAY), 0.15, steps=1_000, num=5),
    "moments TD": Row(lambda mrp, num, span: moments_td(mrp, 6, span, DECAY), 0.1, steps=3_000),
    "MMD particles TD": Row(lambda mrp, num, span: particle_td(mrp, num, span, moving(0.1)(span)), 0.3, steps=3_000),
    "Dirac TD": Row(lambda mrp, num, span: dirac_td(mrp, DECAY), 0.1, steps=3_000),
}


def leaves_close(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ROWS)
@environments("loopy_fork", "tree_gaussian")
def test_distributions_means_and_seeds(name, method):
    mrp, span, row = model(name), return_range(name), ROWS[method]
    algorithm = row.make(mrp, row.num, span)
    key = jax.random.key(0)
    result = bs.run(key, algorithm, row.steps)
    decoded = algorithm.decode(result.state)
    assert decoded.locations.shape == decoded.probabilities.shape
    assert decoded.locations.shape[0] == mrp.num_states
    np.testing.assert_allclose(decoded.probabilities.sum(axis=1), 1.0, atol=1e-9)
    assert np.all(decoded.probabilities >= 0)
    assert np.abs(decoded.mean - mrp.value).max() <= row.bias * span.width
    leaves_close(bs.run(key, algorithm, row.steps).state, result.state)


@pytest.mark.parametrize("method", ROWS)
@environments("loopy_fork")
def test_jit_is_eager_and_vmap_is_a_loop(name, method):
    row = ROWS[method]
    algorithm = row.make(model(name), row.num, return_range(name))
    key = jax.random.key(0)
    with jax.enable_x64(True):
        keys = jax.random.split(key, 2)
        state = algorithm.init(key)
        eager = algorithm.step(keys[0], state)
        leaves_close(jax.jit(type(algorithm).step)(algorithm, keys[0], state), eager)
        batched = jax.vmap(algorithm.step, in_axes=(0, None))(keys, state)
        leaves_close(jax.tree.map(lambda leaf: leaf[0], batched), eager)
    if method.endswith("TD"):  # other keys, other transitions, unless there is nothing random
        values = bs.run(keys, algorithm, 30).state.values
        assert np.any(values[0] != values[1]) == (truth(name).distribution.variance.max() > 1e-6)


@pytest.mark.parametrize("method", [m for m in ROWS if m != "Dirac" and not m.endswith("TD")])
def test_distributions_are_better_than_a_point_where_returns_are_random(method):
    """The paper's baseline: the Dirac at the mean."""
    name = "loopy_fork"
    mrp, row, exact = model(name), ROWS[method], truth(name).distribution
    algorithm = row.make(mrp, row.num, return_range(name))
    decoded = algorithm.decode(bs.run(jax.random.key(0), algorithm, row.steps).state)
    assert bs.cramer(decoded, exact).max() < 0.3 * bs.cramer(bs.dirac(mrp.value), exact).max()
