"""Atomic distributions against SciPy, against definitions spelled out, and NumPy against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import InputError
from strategies import QUANTA, distributions, samples

cheap = settings(max_examples=50, deadline=None)

LOCATIONS = np.array([2, -1, 5, 3])
PROBABILITIES = np.array([0.4, 0.1, 0.2, 0.3])
SINGLE = AtomicDistribution(LOCATIONS, PROBABILITIES)
BATCH = AtomicDistribution(
    np.array([[2.0, -1.0, 5.0, 3.0], [0.0, 0.0, 1.0, -7.0], [4.0, 3.0, 2.0, 1.0]]),
    np.array([[0.4, 0.1, 0.2, 0.3], [0.25, 0.25, 0.5, 0.0], [0.0, 0.0, 1.0, 0.0]]),
)
ON_DEVICE = jax.tree.map(jnp.asarray, BATCH)


def test_agrees_with_scipy():
    reference = stats.rv_discrete(values=(LOCATIONS, PROBABILITIES))
    points = np.arange(-3, 8) / 1.0
    levels = np.array([0.01, 0.1, 0.25, 0.5, 0.65, 0.9, 1])
    np.testing.assert_allclose(SINGLE.cdf(points), reference.cdf(points), atol=1e-15)
    np.testing.assert_array_equal(SINGLE.quantile(levels), reference.ppf(levels))
    assert SINGLE.mean == pytest.approx(reference.mean())
    assert SINGLE.variance == pytest.approx(reference.var())
    assert SINGLE.std == pytest.approx(reference.std())
    assert SINGLE.expectation(lambda z: z**3) == pytest.approx(reference.moment(3))
    assert SINGLE.expectation(lambda z: z <= 2) == pytest.approx(reference.cdf(2))


@cheap
@given(distributions())
def test_moments_are_those_of_equally_likely_samples(distribution):
    draws = samples(distribution)
    assert distribution.mean == pytest.approx(draws.mean(), abs=1e-12)
    assert distribution.variance == pytest.approx(draws.var(), abs=1e-12)


@cheap
@given(distributions(), st.integers(1, QUANTA))
def test_cvar_is_the_mean_of_the_worst_samples(distribution, count):
    assert distribution.cvar(count / QUANTA) == pytest.approx(samples(distribution)[:count].mean(), abs=1e-12)


def test_cvar_splits_an_atom():
    coin = AtomicDistribution([1.0, 0.0], [0.5, 0.5])
    assert coin.cvar(0.8) == pytest.approx(0.3 / 0.8)


@cheap
@given(distributions(), st.integers(0, 2 * QUANTA), st.floats(-11, 11, width=32))
def test_quantile_and_cdf_are_a_galois_connection(distribution, numerator, x):
    """q(u) ≤ x exactly if u ≤ F(x): what defines the quantile function."""
    level = numerator / (2 * QUANTA)
    points = np.append(distribution.locations, x)
    if level > 0:
        np.testing.assert_array_equal(distribution.quantile(level) <= points, level <= distribution.cdf(points))


@cheap
@given(distributions(), st.floats(0, 1))
def test_quantiles_are_atoms_with_mass(distribution, level):
    assert distribution.quantile(level) in samples(distribution)
    assert distribution.quantile(0) == samples(distribution)[0]
    assert distribution.quantile(1) == samples(distribution)[-1]


def test_extreme_quantiles_skip_atoms_without_mass():
    padded = AtomicDistribution([9.0, 1.0, 0.0, -5.0], [0.0, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(padded.quantile([0.0, 1e-30, 0.5, 1.0]), [0, 0, 0, 1])


@pytest.mark.parametrize("num", [10, 1_000, 10_000])
def test_exact_levels_find_their_atom_in_spite_of_rounding(num):
    even = AtomicDistribution(np.arange(num) / 1.0, np.full(num, 1 / num))
    np.testing.assert_array_equal(even.quantile(np.arange(1, num + 1) / num), np.arange(num))


def test_sorting_keeps_the_distribution():
    ordered = SINGLE.sorted()
    np.testing.assert_array_equal(ordered.locations, [-1, 2, 3, 5])
    np.testing.assert_array_equal(ordered.probabilities, [0.1, 0.4, 0.3, 0.2])


# ---------------------------------------------------------------------------------------------------------------------
# Batches, JAX
# ---------------------------------------------------------------------------------------------------------------------

STATISTICS = {
    "mean": lambda d: d.mean,
    "variance": lambda d: d.variance,
    "cvar": lambda d: d.cvar(0.3),
    "expectation": lambda d: d.expectation(abs),
    "cdf at a point": lambda d: d.cdf(1.0),
    "cdf": lambda d: d.cdf([[-8.0, -1.0, 0.0], [0.5, 3.0, 9.0]]),
    "quantile": lambda d: d.quantile(0.5),
    "quantiles": lambda d: d.quantile([[0.0, 0.05], [0.6, 1.0]]),
    "sorted": lambda d: d.sorted().probabilities,
    "push forward": lambda d: d.push_forward(lambda z: 1 + 0.5 * z).locations,
}
statistics = pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS.keys())


@statistics
def test_batch_equals_loop(statistic):
    loop = np.stack([statistic(BATCH[i]) for i in range(3)])
    np.testing.assert_allclose(statistic(BATCH), loop, atol=1e-15)


@statistics
def test_numpy_jax_jit_and_vmap_agree(statistic):
    assert isinstance(statistic(BATCH), np.ndarray)
    assert statistic(BATCH).dtype == np.float64
    eager = statistic(ON_DEVICE)
    assert isinstance(eager, jax.Array)
    np.testing.assert_allclose(eager, statistic(BATCH), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(statistic)(ON_DEVICE), eager, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jax.vmap(statistic)(ON_DEVICE), eager, rtol=1e-6, atol=1e-7)


def test_levels_and_points_may_be_traced():
    inverse = jax.jit(ON_DEVICE.quantile)(jnp.array([0.2, 0.7]))
    np.testing.assert_array_equal(inverse, BATCH.quantile([0.2, 0.7]))
    np.testing.assert_allclose(jax.jit(SINGLE.cdf)(jnp.array([2.0, 4.0])), [0.5, 0.8], rtol=1e-6)


def test_integers_become_floats():
    for distribution in (AtomicDistribution([0, 1], [0, 1]), AtomicDistribution(jnp.array([0, 1]), jnp.array([0, 1]))):
        assert distribution.mean == 1.0
        assert np.issubdtype(distribution.locations.dtype, np.floating)


# ---------------------------------------------------------------------------------------------------------------------
# Sampling
# ---------------------------------------------------------------------------------------------------------------------


def test_samples_follow_the_probabilities():
    draws = np.asarray(SINGLE.sample(jax.random.key(0), (100, 200)))
    assert draws.shape == (100, 200)
    observed = [(draws == z).sum() for z in LOCATIONS]
    assert sum(observed) == draws.size
    assert stats.chisquare(observed, PROBABILITIES * draws.size).pvalue > 1e-4


def test_samples_of_a_batch_come_batch_first():
    draws = np.asarray(BATCH.sample(jax.random.key(1), (5000,)))
    assert draws.shape == (3, 5000)
    assert -7 not in draws[1]  # an atom without mass
    standard_error = BATCH.std / np.sqrt(5000)
    assert np.all(abs(draws.mean(axis=1) - BATCH.mean) <= 5 * standard_error)


def test_sampling_is_a_function_of_the_key():
    one, same, other = (SINGLE.sample(jax.random.key(k), (50,)) for k in (0, 0, 1))
    assert jnp.array_equal(one, same)
    assert not jnp.array_equal(one, other)
    assert SINGLE.sample(jax.random.key(0)).shape == ()


# ---------------------------------------------------------------------------------------------------------------------
# Making distributions from distributions
# ---------------------------------------------------------------------------------------------------------------------


def test_push_forward_is_the_distribution_of_the_image():
    image = SINGLE.push_forward(lambda g: 1 + 0.9 * g)
    np.testing.assert_allclose(image.locations, [2.8, 0.1, 5.5, 3.7])
    np.testing.assert_array_equal(image.probabilities, PROBABILITIES)


@pytest.mark.parametrize("batch", [BATCH, ON_DEVICE], ids=["numpy", "jax"])
def test_mixture_mixes_cdfs(batch):
    weights = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    mixed = batch.mixture(weights)
    assert mixed.locations.shape == (2, 12)
    points = np.linspace(-8, 6, 29)
    np.testing.assert_allclose(mixed.cdf(points), weights @ BATCH.cdf(points), atol=1e-6)


def test_dirac_has_one_atom_per_entry():
    deltas = dirac([[1.0, 2.0]])
    assert deltas.locations.shape == (1, 2, 1)
    np.testing.assert_array_equal(deltas.mean, [[1, 2]])
    np.testing.assert_array_equal(deltas.variance, [[0, 0]])


# ---------------------------------------------------------------------------------------------------------------------
# Bad input
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AtomicDistribution([0.0, 1.0], [1.0]), r"\(2,\), probabilities of shape \(1,\): give one of each"),
        (lambda: AtomicDistribution(1.0, 1.0), r"locations of shape \(\)"),
        (lambda: AtomicDistribution([], []), "sum to 0"),
        (lambda: AtomicDistribution([0.0, np.inf], [0.5, 0.5]), "locations: all atoms must be finite"),
        (lambda: AtomicDistribution([0.0, 1.0], [1.5, -0.5]), "smallest is -0.5"),
        (lambda: AtomicDistribution([0.0, 1.0], [np.nan, 1.0]), "negative or NaN"),
        (lambda: AtomicDistribution([0.0, 1.0], [1.0, 2.0]), "sum to 1, but sum to 3.0: divide by the sum"),
        (lambda: AtomicDistribution([0.0, 1.0], [[0.5, 0.5], [0.5, 0.6]]), "sum to 1.1"),
        (lambda: SINGLE[0], "nothing to index"),
        (lambda: SINGLE.mixture(np.ones((1, 1))), "mixture needs a batch"),
        (lambda: BATCH.mixture(np.full((1, 3), 0.5)), "sum to 1.5"),
        (lambda: SINGLE.quantile(1.1), r"level=1.1: must lie in \[0, 1\]"),
        (lambda: SINGLE.quantile([0.5, -0.1]), "level="),
        (lambda: SINGLE.quantile(np.nan), "level=nan"),
        (lambda: SINGLE.cvar(0), r"level=0: must lie in \(0, 1\]"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
