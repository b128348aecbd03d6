"""Bellman coefficients against closed forms, exact sums and integrals, and the numbers of the paper."""

from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float
from scipy import integrate, stats

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, MissingRewardError, ToleranceError
from bellsketch.core.families import FAMILIES, make_features
from bellsketch.core.features import FeatureMap, Gaussian, Indicator, Polynomial, Sigmoid
from bellsketch.core.pytree import pytree
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.rewards import as_reward

RANGE = ReturnRange(-2, 3)
SIX = Sigmoid.from_range(RANGE, 6, slope_factor=0.7)  # few enough to be well conditioned
MU = RANGE.grid(200)
MIXED = AtomicDistribution([-1.0, 0.25, 2.0], [0.3, 0.5, 0.2])


# ---------------------------------------------------------------------------------------------------------------------
# Exact cases
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_discount_zero_gives_the_features_of_the_reward(name):
    features = make_features(name, RANGE, 9)
    coefficients = fit_coefficients(features, MU, [0.7, 50], [0.0, 0.9])
    for i, reward in enumerate([0.7, 50]):
        matrix, offset = coefficients.at(reward, 0)
        np.testing.assert_array_equal(matrix, 0)
        np.testing.assert_array_equal(offset, features(reward))
        assert coefficients.reports[i][0] is None


def test_constant_and_identity_give_the_classical_bellman_equation():
    """Sec. 3 of the paper: φ(g) = (1, g) has B_r = [[1, 0], [r, γ]]."""
    reward, discount = 1.5, 0.9
    without = fit_coefficients(Polynomial(2), MU, [reward], [discount], ridge=0, intercept="none")
    np.testing.assert_allclose(without.matrices[0, 0], [[1, 0], [reward, discount]], atol=1e-12)
    np.testing.assert_array_equal(without.offsets, 0)
    free = fit_coefficients(Polynomial(2), MU, [reward], [discount], ridge=0)
    np.testing.assert_allclose(free.matrices[0, 0], [[0, 0], [0, discount]], atol=1e-12)
    np.testing.assert_allclose(free.offsets[0, 0], [1, reward], atol=1e-12)


@pytest.mark.parametrize(("reward", "discount"), [(0, 0.5), (1, 0.9), (-2, 1.0)])
def test_polynomials_are_bellman_closed(reward, discount):
    """(r + γg)^i = Σ_j C(i,j) r^{i−j} (γg)^j."""
    binomial = np.zeros((5, 5))
    for i in range(5):
        for j in range(i + 1):
            binomial[i, j] = comb(i, j) * reward ** (i - j) * discount**j
    coefficients = fit_coefficients(Polynomial(5), MU, [reward], [discount], ridge=0, intercept="none")
    np.testing.assert_allclose(coefficients.matrices[0, 0], binomial, atol=1e-9)
    assert coefficients.max_error <= 1e-10


@pytest.mark.parametrize("features", [Polynomial(5, centre=0.5, scale=3), Polynomial(8)], ids=["scaled", "raw"])
@pytest.mark.parametrize("reward", [1.5, MIXED, stats.norm(0.2, 0.5)], ids=["number", "atoms", "normal"])
def test_polynomials_in_any_basis_are_exact(features, reward):
    exact = fit_coefficients(features, MU, [reward], [0.9])
    assert exact.max_error == 0
    atoms = as_reward(reward).distribution
    after = [atoms.probabilities @ features(atoms.locations + 0.9 * g) for g in MU.locations]
    fitted = features(MU.locations) @ exact.matrices[0, 0].T + exact.offsets[0, 0]
    np.testing.assert_allclose(fitted, after, rtol=1e-11, atol=1e-11)


def test_indicators_have_the_columns_of_proposition_4():
    """Column i of B_r is v_i − v_{i+1} (the last v_m), v_i = E[φ(r + γG) | G in bin i]."""
    features, points, reward, discount = Indicator(np.linspace(-5, 5, 11)), np.linspace(-5, 5, 2_001), 0.3, 0.9
    mu = AtomicDistribution(points, np.full(2_001, 1 / 2_001))
    coefficients = fit_coefficients(features, mu, [reward], [discount], ridge=0, intercept="none")
    cell = np.minimum(np.searchsorted(features.edges, points, side="right") - 1, 9)
    v = np.stack([features(reward + discount * points[cell == i]).mean(axis=0) for i in range(10)] + [np.zeros(10)])
    np.testing.assert_allclose(coefficients.matrices[0, 0], (v[:-1] - v[1:]).T, atol=1e-12)


S, ANCHORS = 1.5, np.linspace(-2, 2, 7)


def lebesgue(reward, discount):
    """(C_r)_ij = ∫ φ_i(r + γg) φ_j(g) dg; C is the case r = 0, γ = 1 (docs: corrections to the paper)."""
    z, spread = ANCHORS, 1 + discount**2
    distance = reward + discount * z - z[:, None]
    return np.sqrt(2 * np.pi / (S**2 * spread)) * np.exp(-(S**2) * distance**2 / (2 * spread))


def gaussian(reward, discount, mean=0.3, variance=2.0):
    """The same integral against N(mean, variance)."""
    zi, zj = ANCHORS[:, None], ANCHORS
    a = S**2 * (1 + discount**2) + 1 / variance
    b = S**2 * (discount * (zi - reward) + zj) + mean / variance
    c = S**2 * ((zi - reward) ** 2 + zj**2) + mean**2 / variance
    return np.exp(-(c - b**2 / a) / 2) / np.sqrt(variance * a)


@pytest.mark.parametrize(
    ("moments", "density"),
    [(lebesgue, np.ones_like), (gaussian, lambda g: np.exp(-((g - 0.3) ** 2) / 4))],
    ids=["Lebesgue", "Gaussian"],
)
def test_gaussian_features_against_their_integrals(moments, density):
    np.testing.assert_allclose(moments(0, 1), moments(0, 1).T)
    points = np.linspace(-15, 15, 4_001)
    mu = AtomicDistribution(points, density(points) / density(points).sum())
    fitted = fit_coefficients(Gaussian(ANCHORS, S), mu, [0.7], [0.8], ridge=0, intercept="none").matrices[0, 0]
    np.testing.assert_allclose(fitted, np.linalg.solve(moments(0, 1), moments(0.7, 0.8).T).T, atol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Random rewards
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [0, 0.9])
@pytest.mark.parametrize(
    ("reward", "atoms", "weights"),
    [
        (MIXED, MIXED.locations, MIXED.probabilities),
        (stats.bernoulli(0.75), [0.0, 1.0], [0.25, 0.75]),
        (stats.binom(2, 0.5), [0.0, 1.0, 2.0], [0.25, 0.5, 0.25]),
    ],
    ids=["atoms", "bernoulli", "binomial"],
)
def test_finite_rewards_average_the_coefficients_of_their_atoms(reward, atoms, weights, discount):
    coefficients = fit_coefficients(SIX, MU, [reward, *atoms], [discount])
    matrix, offset = coefficients.at(reward, discount)
    apart = [coefficients.at(r, discount) for r in atoms]
    np.testing.assert_allclose(matrix, sum(w * a for w, (a, _) in zip(weights, apart, strict=True)), atol=1e-9)
    np.testing.assert_allclose(offset, sum(w * c for w, (_, c) in zip(weights, apart, strict=True)), atol=1e-9)


@pytest.mark.parametrize("discount", [0, 0.9])
@pytest.mark.parametrize(
    "reward",
    [stats.norm(0.5, 0.8), stats.expon(scale=0.5), stats.uniform(-1, 2), stats.gamma(0.5)],
    ids=["norm", "expon", "uniform", "gamma"],
)
def test_continuous_rewards_average_over_their_density(reward, discount):
    mu = RANGE.grid(30)
    fitted = fit_coefficients(SIX, mu, [reward], [discount], ridge=0)

    def features_after(level):  # of the reward's quantile, at every return of the grid
        return 1 / (1 + np.exp(-SIX.slope * (reward.ppf(level) + discount * mu.locations[:, None] - SIX.anchors)))

    expected, _ = integrate.quad_vec(features_after, 0, 1, epsabs=1e-9)
    predicted = SIX(mu.locations) @ fitted.matrices[0, 0].T + fitted.offsets[0, 0]
    inputs = np.append(SIX(mu.locations), np.ones((30, 1)), axis=1)
    np.testing.assert_allclose(predicted, inputs @ np.linalg.lstsq(inputs, expected, rcond=None)[0], atol=1e-7)


# ---------------------------------------------------------------------------------------------------------------------
# Invariance
# ---------------------------------------------------------------------------------------------------------------------


@pytree
class Rebased(FeatureMap):
    """M⁻¹φ, another basis of the same functions."""

    features: FeatureMap
    inverse: np.ndarray

    @property
    def num_features(self):
        return self.features.num_features

    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        return self.features.evaluate(returns) @ jnp.asarray(self.inverse).T


def change_of_basis(ridge):
    """How far the coefficients of M⁻¹φ are from M⁻¹ A M and M⁻¹ c."""
    basis = np.random.default_rng(0).normal(size=(6, 6)) + 3 * np.eye(6)
    inverse = np.linalg.inv(basis)
    plain = fit_coefficients(SIX, MU, [1.0, MIXED], [0.9], ridge=ridge)
    other = fit_coefficients(Rebased(SIX, inverse), MU, [1.0, MIXED], [0.9], ridge=ridge)
    matrices, offsets = inverse @ plain.matrices @ basis, plain.offsets @ inverse.T
    return max(abs(other.matrices - matrices).max(), abs(other.offsets - offsets).max())


def test_without_ridge_a_change_of_basis_changes_only_the_basis():
    assert change_of_basis(ridge=0) <= 1e-8


def test_ridge_breaks_the_invariance():
    assert change_of_basis(ridge=1e-3) >= 1e-2


# ---------------------------------------------------------------------------------------------------------------------
# Numbers of the paper and of the notes on it
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize(("family", "slope"), [(Sigmoid, 2), (Gaussian, 1)])
def test_worked_example(family, slope, intercept):
    """App. "Mathematical properties of Bellman coefficients": errors below 0.002, norms above 1, stable eigenvalues.

    The slopes are ours, the paper gives none. At the default slope 20/10 sigmoids keep its promise, Gaussians do not.
    """
    mu = ReturnRange(-5, 5).grid(10_000, margin=0)
    features = family(np.linspace(-8, 8, 20), slope)
    coefficients = fit_coefficients(features, mu, [1], [0.8], ridge=1e-6, intercept=intercept)
    assert coefficients.max_error < 0.002
    if intercept == "none":
        assert coefficients.operator_norm > 1
        assert np.linalg.eigvals(coefficients.matrices[0, 0]).real.max() < 1 + 1e-3


def test_worked_example_is_out_of_reach_of_sharp_gaussians():
    mu = ReturnRange(-5, 5).grid(10_000, margin=0)
    coefficients = fit_coefficients(Gaussian(np.linspace(-8, 8, 20), 2), mu, [1], [0.8], ridge=1e-6, intercept="none")
    assert coefficients.max_error == pytest.approx(0.065, abs=1e-3)


def test_sigmoids_contract_by_about_the_root_of_the_discount():
    coefficients = fit_coefficients(Sigmoid.from_range(RANGE, 50), RANGE.grid(), [-1, 0, 1], [0, 0.9])
    assert coefficients.operator_norm == pytest.approx(0.946, abs=1e-3)
    assert coefficients.operator_norm < np.sqrt(0.9)


# ---------------------------------------------------------------------------------------------------------------------
# The table of rewards and discounts
# ---------------------------------------------------------------------------------------------------------------------

REWARDS, DISCOUNTS = [-1, 0.5, stats.norm(0, 1), 2], [0.9, 0, 0.99]
TABLE = fit_coefficients(SIX, MU, REWARDS, DISCOUNTS)


@pytest.mark.parametrize("discount", DISCOUNTS)
@pytest.mark.parametrize("reward", REWARDS, ids=["-1", "0.5", "normal", "2"])
def test_each_reward_gets_its_own_coefficients(reward, discount):
    matrix, offset = TABLE.at(reward, discount)
    alone = fit_coefficients(SIX, MU, [reward], [discount])
    np.testing.assert_allclose(matrix, alone.matrices[0, 0], atol=1e-10)
    np.testing.assert_allclose(offset, alone.offsets[0, 0], atol=1e-10)


@pytest.mark.parametrize(
    ("reward", "discount", "message"),
    [
        (1, 0.9, r"reward 1 has no Bellman coefficients; there are some for -1, 0.5, norm.*, 2"),
        (np.nextafter(0.5, 1), 0.9, r"reward 0.5000000000000001 has no"),
        (np.float32(0.9), 0.9, r"reward 0.899999976"),
        (stats.norm(0, 2), 0, r"reward norm\(0, 2\) has no"),
        (2, 0.95, r"discount 0.95 has no Bellman coefficients"),
    ],
)
def test_a_missing_reward_never_becomes_another(reward, discount, message):
    for look_up in (TABLE.index, TABLE.at):
        with pytest.raises(MissingRewardError, match=message):
            look_up(reward, discount)


def test_errors_are_the_largest_over_the_table():
    reports = [report for row in TABLE.reports for report in row if report is not None]
    assert len(reports) == 8  # none at discount 0
    assert TABLE.max_error == max(r.max_error for r in reports) > 0
    assert TABLE.max_norm_error == max(r.max_norm_error for r in reports) > TABLE.max_error
    assert fit_coefficients(SIX, MU, [1], [0]).max_error == 0
    # The reported error of one entry, from its definition.
    matrix, offset = TABLE.at(2, 0.99)
    error = SIX(2 + 0.99 * MU.locations) - SIX(MU.locations) @ matrix.T - offset
    assert TABLE.reports[3][2].max_error == pytest.approx(abs(error).max(), rel=1e-9)


def test_operator_norm_is_the_largest_singular_value():
    norms = [np.linalg.svd(TABLE.matrices[i, j])[1][0] for i in range(4) for j in range(3)]
    assert TABLE.operator_norm == pytest.approx(max(norms))


def test_duplicates_are_fitted_once():
    coefficients = fit_coefficients(SIX, MU, [1, 1.0, np.float32(1)], [0.9, 0.9])
    assert coefficients.matrices.shape == (1, 1, 6, 6)


def test_coefficients_are_float64_and_pass_through_jit():
    assert TABLE.matrices.dtype == TABLE.offsets.dtype == np.float64
    sketch = jnp.asarray(SIX(0.5))
    matrix, offset = TABLE.at(2, 0.9)
    compiled = jax.jit(lambda c, u: c.at(2, 0.9)[0] @ u + c.at(2, 0.9)[1])(TABLE, sketch)
    np.testing.assert_allclose(compiled, matrix @ SIX(0.5) + offset, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fit_coefficients(SIX, MU, [], [0.9]), InputError, "at least one reward and one discount, got 0 and 1"),
        (lambda: fit_coefficients(SIX, MU, [1], []), InputError, "got 1 and 0"),
        (lambda: fit_coefficients(SIX, MU, [1], [0.9, 1.1]), InputError, "discounts: 1.1 lies outside"),
        (lambda: fit_coefficients(SIX, MU, [1], [np.nan]), InputError, "discounts: nan"),
        (lambda: fit_coefficients(SIX, MU, [np.inf], [0.9]), InputError, "reward inf"),
        (lambda: fit_coefficients(SIX, MU, [1], [0.9], tolerance=1e-9), ToleranceError, "exceeds tolerance=1e-09"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
