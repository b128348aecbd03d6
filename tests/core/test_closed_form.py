"""Moments in closed form, against SciPy's adaptive quadrature."""

import itertools

import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad

import bellsketch as bs
from bellsketch.core.closed_form import has_closed_form, moments
from bellsketch.core.measures import Density, Lebesgue, Normal, Uniform

GAUSSIAN = bs.Gaussian([-2.0, -0.6, 0.1, 3.0], 1.3)
EDGES = [-2.0, -0.5, 0.0, 0.7, 3.1]
CASES = [
    (GAUSSIAN, Normal(0.3, 0.8)),
    (GAUSSIAN, Lebesgue()),
    (bs.Gaussian([0.5], 4.0), Normal(-1.0, 2.0)),
    (bs.Indicator(EDGES), Uniform(-2.5, 2.2)),
    (bs.Bins(EDGES), Uniform(-1.0, 3.1)),
    (bs.Bins(EDGES, 2), Uniform(-2.0, 3.1)),
]
IDS = [f"{type(f).__name__}-{type(mu).__name__}-{f.num_features}" for f, mu in CASES]


def integrate(f, features, mu, reward, discount):
    """∫ f dμ, cut where a feature may jump."""
    if isinstance(mu, Lebesgue):
        low, high, density = -20.0, 20.0, lambda g: 1.0
    elif isinstance(mu, Normal):
        low, high, density = *mu.interval, stats.norm(mu.mean, mu.std).pdf
    else:
        low, high, density = mu.low, mu.high, lambda g: 1 / (mu.high - mu.low)
    cuts = getattr(features, "edges", features.anchors)
    cuts = np.unique(np.clip([low, *cuts, *((np.asarray(cuts) - reward) / discount), high], low, high))
    parts = itertools.pairwise(cuts)
    return sum(quad(lambda g: f(g) * density(g), a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in parts)


@pytest.mark.parametrize(("reward", "discount"), [(0.0, 1.0), (0.7, 0.85), (-1.2, 0.4)])
@pytest.mark.parametrize(("features", "mu"), CASES, ids=IDS)
def test_moments(features, mu, reward, discount):
    found = moments(features, mu, reward, discount)
    for i in range(features.num_features):
        for j in range(features.num_features):
            value = integrate(
                lambda g, i=i, j=j: features(reward + discount * g)[i] * features(g)[j], features, mu, reward, discount
            )
            assert abs(found.cross[i, j] - value) < 1e-10
        if found.target is not None:
            value = integrate(lambda g, i=i: features(reward + discount * g)[i], features, mu, reward, discount)
            assert abs(found.target[i] - value) < 1e-10
    assert has_closed_form(features, mu)


def test_the_formula_as_printed_is_wrong():
    """The paper's C_r has r + γz_i − γz_j; PAPER: the anchor that belongs to φ(g) is the one that γ multiplies."""
    z, s2, reward, discount = np.asarray(GAUSSIAN.anchors), 1.3**2, 0.7, 0.85
    printed = np.exp(-s2 * (reward + discount * z[:, None] - discount * z) ** 2 / (1 + discount**2))
    found = moments(GAUSSIAN, Lebesgue(), reward, discount).cross
    assert np.abs(printed / printed.max() - found / found.max()).max() > 0.1


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
@pytest.mark.parametrize(
    ("features", "mu"), [(bs.Gaussian(np.linspace(-4, 4, 12), 1.5), Normal(0.3, 1.2)), (CASES[3]), (CASES[5])]
)
def test_coefficients_agree_with_a_very_fine_rule(features, mu, intercept):
    rewards = [0.4, stats.norm(0.0, 0.3), bs.AtomicDistribution(np.array([0.0, 1.0]), np.array([0.5, 0.5]))]
    options = {"ridge": 1e-4, "intercept": intercept}
    closed = bs.fit_coefficients(features, mu, rewards, [0.9, 0.0], **options)
    assert closed.reports[0][0].solver == "closed form"
    assert closed.reports[0][1] is None
    rule = mu.rule(500)
    fitted = bs.fit_coefficients(features, rule, rewards, [0.9, 0.0], **options)
    tolerance = 1e-9 if isinstance(mu, Normal) else 3e-2  # a rule sees a jump only as finely as its panels are
    np.testing.assert_allclose(closed.matrices, fitted.matrices, atol=tolerance)
    np.testing.assert_allclose(closed.offsets, fitted.offsets, atol=tolerance)


def test_lebesgue_measure_has_no_intercept():
    with pytest.raises(bs.InputError, match="intercept='free'"):
        bs.fit_coefficients(GAUSSIAN, Lebesgue(), [0.0], [0.9])
    bs.fit_coefficients(GAUSSIAN, Lebesgue(), [0.0], [0.9], intercept="none")
    with pytest.raises(bs.InputError, match="whole line"):
        bs.fit_coefficients(bs.Sigmoid([0.0, 1.0], 1.0), Lebesgue(), [0.0], [0.9], intercept="none")
    with pytest.raises(bs.InputError, match="no closed form for Sigmoid"):
        moments(bs.Sigmoid([0.0], 1.0), Normal(0.0, 1.0), 0.0, 0.9)


class TestQuadrature:
    def test_any_density_and_any_features(self):
        """A beta density and sigmoid features, against SciPy."""
        features = bs.Sigmoid(np.linspace(-0.5, 1.5, 5), 6.0)
        mu = Density(stats.beta(2.0, 3.0).pdf, 0.0, 1.0)
        fit = bs.fit_coefficients(features, mu, [0.1], [0.8], ridge=1e-3, intercept="none")
        x, w = special.roots_jacobi(80, 2.0, 1.0)  # Gauss–Jacobi: the density's own weight on [−1, 1]
        g, w = (x + 1) / 2, w / w.sum()
        second, cross = (
            features(g).T @ (w[:, None] * features(g)),
            features(0.1 + 0.8 * g).T @ (w[:, None] * features(g)),
        )
        expected = cross @ np.linalg.inv(second + 1e-3 * np.eye(5))
        np.testing.assert_allclose(fit.matrices[0, 0], expected, atol=1e-10)

    def test_a_rule_integrates_polynomials_exactly(self):
        rule = Uniform(-1.0, 2.0).rule(3)
        for power in range(30):
            exact = (2.0 ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1) / 3
            np.testing.assert_allclose(rule.probabilities @ rule.locations**power, exact, rtol=1e-12)

    def test_panels_end_at_breaks(self):
        rule = Uniform(0.0, 1.0).rule(1, breaks=np.array([0.3]))
        np.testing.assert_allclose(rule.probabilities @ (rule.locations < 0.3), 0.3, atol=1e-14)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Uniform(1.0, 1.0), "low < high"),
            (lambda: Normal(0.0, 0.0), "positive standard deviation"),
            (lambda: Density(lambda g: -g, 0.0, 1.0).rule(2), "pdf"),
            (lambda: Density(lambda g: 0 * g, 0.0, 1.0).rule(2), "pdf"),
            (lambda: Uniform(0.0, 1.0).rule(0), "num_panels=0"),
        ],
    )
    def test_bad_input(self, make, message):
        with pytest.raises(bs.InputError, match=message):
            make()


def test_far_from_zero_nothing_is_lost():
    """Moving anchors, returns and rewards along changes no moment: r + γ(g + d) = (r − (1 − γ)d + γg) + d."""
    anchors, distance = np.linspace(-2.0, 2.0, 7), 1e6
    here = moments(bs.Gaussian(anchors, 2.0), Normal(0.3, 1.1), 0.5, 0.9)
    there = moments(bs.Gaussian(anchors + distance, 2.0), Normal(0.3 + distance, 1.1), 0.5 + 0.1 * distance, 0.9)
    np.testing.assert_allclose(there.cross, here.cross, atol=1e-8)
    np.testing.assert_allclose(there.target, here.target, atol=1e-8)


@pytest.mark.parametrize("mu", [Normal(0.0, 1.0), Lebesgue()])
def test_without_ridge_a_singular_covariance_is_an_error(mu):
    with pytest.raises(bs.InputError, match=r"rank \d+ but 60 features.*ridge=1e-9"):
        bs.fit_coefficients(bs.Gaussian(np.linspace(-3, 3, 60), 1.0), mu, [1.0], [0.9], ridge=0.0, intercept="none")
