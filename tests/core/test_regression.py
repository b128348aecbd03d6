"""The least-squares solver against ``numpy.linalg.lstsq``, and its report against its own definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.core import regression
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, ToleranceError
from bellsketch.core.families import make_features
from bellsketch.core.features import Indicator, Polynomial, Sigmoid, WithConstant
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.regression import Regression

RANGE = ReturnRange(-1, 2)
SIX = Sigmoid.from_range(RANGE, 6, slope_factor=0.7)  # well conditioned: coefficients can be compared, not only fits
UNIFORM = RANGE.grid(300)
rng = np.random.default_rng(0)
WEIGHTED = AtomicDistribution(rng.uniform(-2, 3, 300), rng.dirichlet(np.full(300, 0.3)))

intercepts = pytest.mark.parametrize("intercept", ["free", "penalised", "none"])


def smooth(g):
    return np.stack([np.sin(g), np.exp(g / 2), 3 + g], axis=-1)


def augmented_least_squares(features, mu, target, ridge, intercept):
    """Ridge regression as ordinary least squares with one extra row per penalised coefficient."""
    root = np.sqrt(mu.probabilities)[:, None]
    inputs = features(mu.locations)
    if intercept != "none":
        inputs = np.append(inputs, np.ones((mu.locations.size, 1)), axis=1)
    penalty = np.sqrt(ridge) * np.eye(inputs.shape[1])
    if intercept == "free":
        penalty[-1, -1] = 0
    values = target(mu.locations)
    right = np.concatenate([root * values, np.zeros((len(penalty), values.shape[1]))])
    solution = np.linalg.lstsq(np.concatenate([root * inputs, penalty]), right, rcond=None)[0].T
    if intercept == "none":
        return solution, np.zeros(values.shape[1])
    return solution[:, :-1], solution[:, -1]


@intercepts
@pytest.mark.parametrize("ridge", [0, 1e-9, 1e-3])
@pytest.mark.parametrize("mu", [UNIFORM, WEIGHTED], ids=["uniform", "weighted"])
def test_agrees_with_numpy(mu, ridge, intercept):
    (fit,) = Regression(SIX, mu, ridge=ridge, intercept=intercept).fit(smooth)
    matrix, offset = augmented_least_squares(SIX, mu, smooth, ridge, intercept)
    np.testing.assert_allclose(fit.matrix, matrix, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(fit.offset, offset, rtol=1e-7, atol=1e-7)


def test_targets_are_fitted_one_by_one():
    solver = Regression(SIX, WEIGHTED)
    together = solver.fit(smooth, lambda g: g[:, None] ** 2)
    apart = solver.fit(smooth) + solver.fit(lambda g: g[:, None] ** 2)
    for a, b in zip(together, apart, strict=True):
        np.testing.assert_array_equal(a.matrix, b.matrix)
        np.testing.assert_array_equal(a.offset, b.offset)


@intercepts
@pytest.mark.parametrize("name", ["sigmoid", "gaussian", "tanh", "parabolic", "fourier", "bins"])
def test_normal_equations_and_singular_values_fit_alike(monkeypatch, name, intercept):
    features, mu = make_features(name, RANGE, 40), RANGE.grid(2_000)
    values = []
    for tolerance, solver in [(np.inf, "normal equations"), (0.0, "SVD")]:
        monkeypatch.setattr(regression, "NORMAL_EQUATIONS_TOLERANCE", tolerance)
        (fit,) = Regression(features, mu, ridge=1e-9, intercept=intercept).fit(lambda g: features(0.5 + 0.9 * g))
        assert fit.report.solver == solver
        values.append(features(mu.locations) @ fit.matrix.T + fit.offset)
    np.testing.assert_allclose(*values, atol=1e-8)


def test_large_features_far_from_zero_are_not_squared():
    """Normal equations would lose eight digits to moments of 1e8 beside a variance of 0.1."""
    mu = ReturnRange(10_000, 10_001).grid(500)
    (fit,) = Regression(Polynomial(2), mu, ridge=1e-12).fit(lambda g: 1.5 + 0.9 * g[:, None])
    assert fit.report.solver == "SVD"
    assert fit.report.max_error <= 1e-10


@intercepts
def test_report_says_what_the_errors_are(intercept):
    (fit,) = Regression(SIX, WEIGHTED, intercept=intercept).fit(smooth)
    error = smooth(WEIGHTED.locations) - SIX(WEIGHTED.locations) @ fit.matrix.T - fit.offset
    assert fit.report.max_error == pytest.approx(abs(error).max(), rel=1e-9)
    assert fit.report.max_norm_error == pytest.approx(np.linalg.norm(error, axis=1).max(), rel=1e-9)
    assert fit.report.num_points == 300


@pytest.mark.parametrize("ridge", [1e-6, 0])
def test_report_on_the_features(ridge):
    (fit,) = Regression(SIX, UNIFORM, ridge=ridge).fit(smooth)
    covariance = np.cov(SIX(UNIFORM.locations).T, bias=True) + ridge * np.eye(6)
    assert fit.report.condition == pytest.approx(np.linalg.cond(covariance), rel=1e-6)
    assert fit.report.rank == 6
    (stiff,) = Regression(SIX, UNIFORM, ridge=1e-2).fit(smooth)
    assert stiff.report.rank == np.sum(np.linalg.eigvalsh(np.cov(SIX(UNIFORM.locations).T, bias=True)) > 1e-2)


def test_long_grids_are_checked_at_fewer_points():
    (fit,) = Regression(SIX, RANGE.grid(50_000)).fit(smooth)
    assert 5_000 < fit.report.num_points <= 10_000


def test_tolerance_says_by_how_much():
    (fit,) = Regression(SIX, UNIFORM).fit(smooth)
    worst = fit.report.max_error
    Regression(SIX, UNIFORM).fit(smooth, tolerance=worst)
    for tolerance in (worst / 4, 0.0):
        with pytest.raises(ToleranceError, match=rf"error {worst:.3g} exceeds .* by {worst - tolerance:.3g}: use more"):
            Regression(SIX, UNIFORM).fit(smooth, tolerance=tolerance)


def test_a_target_that_is_not_a_number_is_not_a_perfect_fit():
    solver = Regression(SIX, UNIFORM)
    assert np.isnan(solver.fit(lambda g: smooth(g) * np.nan)[0].report.max_error)
    with pytest.raises(ToleranceError, match="nan"):
        solver.fit(smooth, lambda g: smooth(g) * np.nan, tolerance=100.0)


@pytest.mark.parametrize("mu", [UNIFORM, WEIGHTED], ids=["uniform", "weighted"])
@pytest.mark.parametrize("features", [Polynomial(3), WithConstant(SIX)], ids=["polynomial", "with constant"])
def test_a_constant_feature_beside_a_free_intercept_is_left_out(features, mu):
    (fit,) = Regression(features, mu, ridge=0).fit(smooth)
    constant = 0 if isinstance(features, Polynomial) else -1
    np.testing.assert_array_equal(fit.matrix[:, constant], 0)
    assert np.isfinite(fit.report.condition)
    kept = np.delete(features(mu.locations), constant, axis=1)
    fitted = features(mu.locations) @ fit.matrix.T + fit.offset
    # The same fit without that feature and with an ordinary column of ones.
    root, inputs = np.sqrt(mu.probabilities)[:, None], np.append(kept, np.ones((300, 1)), axis=1)
    solution = np.linalg.lstsq(root * inputs, root * smooth(mu.locations), rcond=None)[0]
    np.testing.assert_allclose(fitted, inputs @ solution, atol=1e-9)


@pytest.mark.parametrize(
    ("features", "intercept"),
    [
        (Indicator(np.linspace(-9, 9, 30)), "none"),  # some bins hold no grid point
        (WithConstant(WithConstant(SIX)), "none"),
        (WithConstant(SIX), "penalised"),
        (Sigmoid.from_range(RANGE, 60), "free"),  # numerically: 60 sigmoids span some 35 dimensions
    ],
)
def test_without_ridge_the_coefficients_must_be_unique(features, intercept):
    with pytest.raises(InputError, match=r"rank \d+ but \d+ features.*Pass ridge=1e-9"):
        Regression(features, UNIFORM, ridge=0, intercept=intercept)
    Regression(features, UNIFORM, ridge=1e-9, intercept=intercept).fit(smooth)


def test_a_jax_grid_is_computed_in_float64():
    (expected,) = Regression(SIX, WEIGHTED).fit(smooth)
    (fit,) = Regression(SIX, jax.tree.map(jnp.asarray, WEIGHTED)).fit(smooth)
    assert fit.matrix.dtype == np.float64
    np.testing.assert_allclose(fit.matrix, expected.matrix, rtol=1e-3)
    np.testing.assert_allclose(SIX(0.3) @ fit.matrix.T + fit.offset, SIX(0.3) @ expected.matrix.T + expected.offset)


def test_the_mass_of_mu_need_not_be_exactly_one():
    loose = AtomicDistribution(UNIFORM.locations, UNIFORM.probabilities * (1 + 9e-7))
    (expected,), (fit,) = Regression(SIX, UNIFORM).fit(smooth), Regression(SIX, loose).fit(smooth)
    np.testing.assert_allclose(fit.matrix, expected.matrix, atol=1e-9)
    np.testing.assert_allclose(fit.offset, expected.offset, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Regression(SIX, AtomicDistribution([1.0], [1.0])), "at least 2 different points, got 1"),
        (lambda: Regression(SIX, AtomicDistribution([1.0, 1.0], [0.5, 0.5])), "at least 2 different points, got 1"),
        (lambda: Regression(SIX, UNIFORM, ridge=-1e-9), "ridge=-1e-09"),
        (lambda: Regression(SIX, UNIFORM, ridge=np.inf), "ridge=inf"),
        (lambda: Regression(Polynomial(200), ReturnRange(-100, 100).grid(50)), "features: not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
