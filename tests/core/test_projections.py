"""Projections against the optimisation problems they solve in closed form."""

from itertools import combinations_with_replacement, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import InputError
from bellsketch.core.projections import categorical_projection, check_support, project_cdf, quantile_projection
from strategies import distributions

cheap = settings(max_examples=50, deadline=None)

SUPPORT = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])


def random_distribution(seed, n=6, scale=1.5):
    rng = np.random.default_rng(seed)
    return AtomicDistribution(rng.normal(scale=scale, size=n), rng.dirichlet(np.ones(n)))


def project_by_quadratic_program(distribution, support):
    """min over the simplex of ∫ (F − F_q)² dx, by SLSQP on the intervals between all atoms."""
    knots = np.unique(np.concatenate([distribution.locations, support]))
    gaps, left = np.diff(knots), knots[:-1]
    truth = distribution.probabilities @ (distribution.locations[:, None] <= left)
    steps = (support[:, None] <= left) / 1.0

    def objective(q):
        error = q @ steps - truth
        return error**2 @ gaps, 2 * steps @ (error * gaps)

    start = np.full(support.size, 1 / support.size)
    simplex = {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": np.ones_like}
    bounds = [(0, 1)] * support.size
    return optimize.minimize(
        objective, start, jac=True, bounds=bounds, constraints=simplex, options={"ftol": 1e-15, "maxiter": 1000}
    ).x


@pytest.mark.parametrize("seed", range(6))
def test_categorical_projection_is_the_l2_projection(seed):
    distribution = random_distribution(seed)
    expected = project_by_quadratic_program(distribution, SUPPORT)
    np.testing.assert_allclose(categorical_projection(distribution, SUPPORT).probabilities, expected, atol=1e-6)


@cheap
@given(distributions())
def test_categorical_projection_averages_the_cdf_over_each_cell(distribution):
    """The closed form of the same problem: F_q on [s_j, s_{j+1}) is the mean of F there."""
    cumulative = np.cumsum(categorical_projection(distribution, SUPPORT).probabilities)
    for j, (a, b) in enumerate(pairwise(SUPPORT)):
        mean_cdf = distribution.expectation(lambda z, a=a, b=b: b - np.clip(z, a, b)) / (b - a)
        assert cumulative[j] == pytest.approx(mean_cdf, abs=1e-12)
    assert cumulative[-1] == pytest.approx(1)


@cheap
@given(distributions())
def test_mean_is_preserved_inside_the_support(distribution):
    projected = categorical_projection(distribution, np.linspace(-10, 10, 8))
    assert projected.mean == pytest.approx(distribution.mean, abs=1e-12)


def test_mass_beyond_the_ends_goes_to_the_ends():
    outside = AtomicDistribution([-9.0, 0.5, 7.0], [0.2, 0.3, 0.5])
    projected = categorical_projection(outside, np.array([0.0, 1.0]))
    np.testing.assert_allclose(projected.probabilities, [0.2 + 0.15, 0.15 + 0.5])


def test_atoms_on_the_support_stay():
    masses = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    projected = categorical_projection(AtomicDistribution(SUPPORT, masses), SUPPORT)
    np.testing.assert_allclose(projected.probabilities, masses, atol=1e-15)


def test_one_support_point_takes_everything():
    projected = categorical_projection(random_distribution(0), np.array([2.0]))
    assert projected.probabilities == pytest.approx([1])


def test_a_continuous_cdf_is_projected_like_many_atoms():
    truth = stats.norm(0.2, 0.8)
    atoms = AtomicDistribution(truth.ppf((np.arange(20_000) + 0.5) / 20_000), np.full(20_000, 1 / 20_000))
    expected = categorical_projection(atoms, SUPPORT).probabilities
    np.testing.assert_allclose(project_cdf(truth.cdf, SUPPORT), expected, atol=2e-5)


@cheap
@given(distributions(max_atoms=4), st.integers(1, 3))
def test_quantile_projection_is_nearest_in_wasserstein_1(distribution, num):
    """Some best choice of equally weighted points is among the atoms, so all of those are tried."""

    def distance(points):
        return stats.wasserstein_distance(
            np.asarray(points), distribution.locations, v_weights=distribution.probabilities
        )

    best = min(distance(points) for points in combinations_with_replacement(distribution.locations, num))
    projected = quantile_projection(distribution, num)
    np.testing.assert_array_equal(projected.probabilities, np.full(num, 1 / num))
    assert distance(projected.locations) == pytest.approx(best, abs=1e-9)


def test_quantile_projection_takes_midpoint_quantiles():
    even = AtomicDistribution(np.arange(1, 11) / 1.0, np.full(10, 0.1))
    np.testing.assert_array_equal(quantile_projection(even, 5).locations, [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(quantile_projection(dirac(2.0), 3).locations, [2, 2, 2])


PROJECTIONS = {
    "categorical": lambda d: categorical_projection(d, SUPPORT).probabilities,
    "quantile": lambda d: quantile_projection(d, 4).locations,
}


@pytest.mark.parametrize("project", PROJECTIONS.values(), ids=PROJECTIONS.keys())
def test_batches_jax_and_jit(project):
    single = [random_distribution(seed) for seed in range(6)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves).reshape(2, 3, 6), *single)
    expected = np.stack([project(d) for d in single]).reshape(2, 3, -1)
    assert isinstance(project(batch), np.ndarray)
    np.testing.assert_allclose(project(batch), expected, atol=1e-15)
    on_device = jax.tree.map(jnp.asarray, batch)
    assert isinstance(project(on_device), jax.Array)
    for run in (project, jax.jit(project), jax.vmap(project)):
        np.testing.assert_allclose(run(on_device), expected, atol=1e-5)


def test_support_may_be_traced():
    distribution = jax.tree.map(jnp.asarray, random_distribution(0))
    traced = jax.jit(lambda s: categorical_projection(distribution, s).probabilities)(jnp.asarray(SUPPORT))
    np.testing.assert_allclose(traced, PROJECTIONS["categorical"](distribution), atol=1e-6)


@pytest.mark.parametrize("support", [[0.0, 0.0, 1.0], [1.0, 0.0], [0.0, np.nan]], ids=str)
def test_unsorted_supports_raise(support):
    for array in (np.array(support), jnp.array(support)):
        with pytest.raises(
            InputError, match=r"support must be sorted without duplicates.*np\.unique|all entries must be finite"
        ):
            categorical_projection(dirac(0.0), array)


@pytest.mark.parametrize("support", [[], [[0.0, 1.0]], 1.0], ids=str)
def test_supports_that_are_no_vector_raise(support):
    with pytest.raises(InputError, match=r"support: expected a vector of at least 1 numbers, got shape"):
        check_support(support)


def test_no_quantiles_raise():
    with pytest.raises(InputError, match="num=0"):
        quantile_projection(dirac(0.0), 0)
