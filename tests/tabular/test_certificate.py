"""Certified errors are never below the true ones, and say so where they say nothing."""

import numpy as np
import pytest
from scipy import stats

import bellsketch as bs
from bellsketch.core.norms import candidates
from bellsketch.tabular.certificate import certify
from bellsketch.tabular.one_step import one_step_errors, supports, whereabouts, without_cancelling
from cases import DETERMINISTIC, model, return_range, solution, truth

GRID_TRUTH = 1e-6
"""The embeddings of a ground truth on a grid are off by this much; enumerated ones by rounding."""
GAUSSIAN = [name for name in bs.environments.NAMES if name.endswith("_gaussian")]
SMOOTH = ["sigmoid", "tanh", "erf", "gaussian"]
BOUNDS = ("return_bounds", "noiseless_bounds", "noise_bounds")
OTHERS = ["parabolic", "quartic", "indicator", "fourier", "polynomial"]


def true_error(name, result):
    return np.linalg.norm(result.sketch - truth(name).embedding(result.features), axis=1).max()


def check(name, family, num):
    try:
        result = solution(name, num, family)
    except bs.DivergenceError:
        return
    certificate = result.certificate
    rounding = GRID_TRUTH if truth(name).method == "grid" else 1e-10 * (1 + np.abs(result.sketch).max())
    assert certificate.bound + rounding >= true_error(name, result)
    assert np.isfinite(certificate.bound) or certificate.reason
    jumps = family in OTHERS[:3]
    assert certificate.proven == (not jumps or name in DETERMINISTIC) or family == "polynomial"


@pytest.mark.parametrize(("family", "num"), [("sigmoid", 10), ("sigmoid", 50), *((family, 20) for family in SMOOTH)])
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_bounds_hold(name, family, num):
    check(name, family, num)


@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_bounds_hold_for_other_families(name, family):
    check(name, family, 20)


@pytest.mark.parametrize("name", ["cycle_gaussian", "tree_gaussian"])
def test_bounds_hold_under_gaussian_rewards(name):
    check(name, "sigmoid", 20)


@pytest.mark.slow
@pytest.mark.parametrize("num", [10, 20, 50, 100])
@pytest.mark.parametrize("family", [*SMOOTH, "quartic", "indicator", "fourier"])
@pytest.mark.parametrize("name", bs.environments.NAMES)
def test_bounds_hold_everywhere(name, family, num):
    check(name, family, num)


def test_contraction_bounds_hold(monkeypatch):
    monkeypatch.setattr("bellsketch.tabular.certificate.RESOLVENT_UNKNOWNS", 0)
    seen = set()
    for name in DETERMINISTIC:
        for family in ("sigmoid", "gaussian"):
            result = solution(name, 50, family)
            certificate = certify(result.mrp, result.coefficients, result.operator, result.sketch)
            assert certificate.bound + GRID_TRUTH >= true_error(name, result)
            assert certificate.method == ("contraction" if certificate.rho < 1 else "none")
            seen.add(certificate.norm)
    assert {"L2", "Lyapunov"} <= seen


@pytest.mark.slow
def test_bounds_are_tight():
    ratios = [
        solution(name, 20, family).certificate.bound / true_error(name, solution(name, 20, family))
        for name in DETERMINISTIC
        for family in SMOOTH
    ]
    assert np.median(ratios) < 10


def test_gaussian_noise_that_is_certain_cancels_errors():
    """All returns of the cycle have the same noise, so their noiseless parts alone remain to be looked at."""
    result = solution("cycle_gaussian", 20)
    returns = whereabouts(result.mrp, result.features)
    np.testing.assert_allclose(returns.high - returns.low, 0.0, atol=1e-9)
    np.testing.assert_allclose(returns.spread, 0.0, atol=1e-6)
    noise = result.mrp.return_variance
    np.testing.assert_allclose(returns.noise, noise, rtol=1e-9)
    ways = (returns, without_cancelling(returns), supports(result.mrp))
    cancelled, in_shells, on_supports = (one_step_errors(result.mrp, result.coefficients, way)[0].max() for way in ways)
    assert cancelled < in_shells / 10 < on_supports / 100
    assert result.certificate.bound < 2 * true_error("cycle_gaussian", result)


def test_shells_bound_the_expected_error():
    """Against E‖e(G)‖ itself, for returns whose noise depends on the path."""
    mrp = model("tree_gaussian")
    features = bs.make_features("sigmoid", return_range("tree_gaussian"), 15)
    coefficients = bs.fit_coefficients(features, return_range("tree_gaussian").grid(), mrp.rewards, (0.9, 0.0))
    returns = without_cancelling(whereabouts(mrp, features))
    (bound,), proven = one_step_errors(mrp, coefficients, returns)
    assert proven
    nodes, o = truth("tree_gaussian").nodes, mrp.outcomes
    expected = np.zeros(mrp.num_states)
    for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True):
        if y >= 0:
            matrix, offset = coefficients.at(mrp.rewards[r], 0.9)
            value = mrp.rewards[r].mean
            error = features(value + 0.9 * nodes.locations[y]) - features(nodes.locations[y]) @ matrix.T - offset
            expected[x] += p * nodes.probabilities[y] @ np.linalg.norm(error, axis=1)
    assert np.all(expected <= bound + 1e-12)


def test_the_remaining_error_of_an_iteration_counts():
    early = bs.solve(model("random_chain"), method="iterate", iterations=5)
    assert early.certificate.bound >= true_error("random_chain", early) > solution("random_chain").certificate.bound


def test_no_bound_where_nothing_contracts_and_nothing_can_be_inverted(monkeypatch):
    monkeypatch.setattr("bellsketch.tabular.certificate.RESOLVENT_UNKNOWNS", 0)
    certificate = bs.solve(model("random_chain"), features="tanh", num_features=20).certificate
    assert certificate.bound == np.inf
    assert certificate.method == "none"
    assert "operator norm" in certificate.reason
    assert "more features" in certificate.reason


def test_says_so_where_the_discount_leaves_nothing():
    """Returns from −10⁴ to 2·10⁴ are possible, and features cover those that happen."""
    mrp = bs.environments.make("rowland23", discount=0.9999)
    certificate = bs.solve(mrp, num_features=50, return_range=(9_000.0, 11_000.0)).certificate
    assert "says nothing" in certificate.reason
    assert "discount 0.9999" in certificate.reason
    assert np.isfinite(certificate.bound)


def test_models_with_no_way_on():
    mrp = bs.MRP.from_outcomes([(0, 1.0, 1.0, None), (1, 1.0, 2.0, None)], 0.9)
    assert bs.solve(mrp, num_features=10).certificate.bound < 1e-12
    still = bs.MRP.from_outcomes([(0, 1.0, 1.0, 1), (1, 1.0, 2.0, 0)], 0.0)
    assert bs.solve(still, num_features=10).certificate.bound < 1e-12


# ---------------------------------------------------------------------------------------------------------------------
# The possible returns
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random_chain", "rowland23", "loopy_fork_gaussian"])
def test_return_bounds_that_stop_early_are_outer_bounds(name, monkeypatch):
    exact = bs.environments.make(name)
    assert all(getattr(exact, what) for what in BOUNDS)
    monkeypatch.setattr("bellsketch.tabular.mrp.BOUND_WORK", 20 * exact.outcomes.state.size)
    monkeypatch.setattr("bellsketch.tabular.mrp.POLICY_STATES", 0)
    early = bs.environments.make(name)
    for what in BOUNDS:
        (low, high), (least, greatest) = getattr(early, what), getattr(exact, what)
        assert np.all(low <= least + 1e-12)
        assert np.all(high >= greatest - 1e-12)
        assert high.max() - low.min() < 2 * (greatest.max() - least.min()) + 1e-12


def test_return_bounds_near_discount_one_are_exact_and_take_no_time():
    least, greatest = bs.environments.make("rowland23", discount=0.999999).return_bounds
    np.testing.assert_allclose(least, [1e6 * -1 + 3, -1e6], rtol=1e-9)
    np.testing.assert_allclose(greatest, [2e6, 2e6 - 3], rtol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Readouts and Prop. 4
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["sigmoid", "gaussian", "quartic", "indicator"])
@pytest.mark.parametrize("name", ["random_chain", "cycle", "tree", "cycle_gaussian"])
def test_means_are_certified(name, family):
    result = solution(name, 30, family)
    certified = result.certified_mean
    np.testing.assert_array_equal(certified.value, result.mean)
    assert np.all(np.abs(certified.value - result.mrp.value) <= certified.bound + 1e-9)
    assert certified.proven == (not name.endswith("gaussian") or family in SMOOTH)


@pytest.mark.parametrize(("f", "lipschitz"), [(np.sin, 1.0), (np.abs, 1.0), (lambda g: np.maximum(g - 0.3, 0.0), 1.0)])
@pytest.mark.parametrize("family", ["sigmoid", "quartic", "indicator"])
def test_expectations_are_certified(f, lipschitz, family):
    result, exact = solution("random_chain", 50, family), truth("random_chain").distribution
    proven, guessed = (result.certified_expectation(f, constant) for constant in (lipschitz, None))
    assert proven.proven
    assert not guessed.proven
    assert np.all(np.abs(proven.value - exact.expectation(f)) <= proven.bound + 1e-6)
    assert np.all(guessed.bound <= proven.bound)


def test_certified_means_are_useful():
    assert solution("random_chain", 50).certified_mean.bound.max() < 0.05


def test_proposition_4():
    mrp = model("loopy_fork")
    features = bs.Indicator(np.linspace(-10.0, 10.0, 41))
    assert bs.indicator_bound(mrp, features) == pytest.approx(20 * 4.8 / (0.1 * 40))
    fit = bs.fit_coefficients(features, bs.measures.Uniform(-10.0, 10.0), mrp.rewards, (0.9, 0.0), ridge=1e-12)
    sketch = bs.fixed_point(bs.sketch_operator(mrp, fit)).sketch
    error = np.abs(sketch - truth("loopy_fork").embedding(features)).sum(axis=1).max() * 20 / 40
    assert error <= bs.indicator_bound(mrp, features)


@pytest.mark.parametrize(
    ("mrp", "features", "message"),
    [
        ("loopy_fork", bs.Sigmoid([0.0, 1.0]), "features=Sigmoid: Prop. 4 is about Indicator features"),
        (
            "loopy_fork",
            bs.Indicator([-10.0, 0.0, 9.0]),
            r"equal bins from min R/\(1 − γ\) = -10 to max R/\(1 − γ\) = 10",
        ),
        ("cycle_gaussian", bs.Indicator([-1.0, 1.0]), "needs bounded rewards"),
    ],
)
def test_proposition_4_is_not_about_everything(mrp, features, message):
    with pytest.raises(bs.InputError, match=message):
        bs.indicator_bound(model(mrp), features)


def test_a_reward_of_any_distribution():
    mrp = bs.MRP([[0.0, 0.5], [0.5, 0.0]], [stats.uniform(0, 1), 1.0], 0.9, terminations=[0.5, 0.5])
    certificate = bs.solve(mrp, num_features=30).certificate
    assert np.isfinite(certificate.bound)
    assert not certificate.proven
    assert len(list(candidates([np.eye(3)]))) == 2


@pytest.mark.parametrize(
    "features",
    [
        bs.Indicator(np.linspace(0.0, 1.0, 6)),
        bs.Bins(np.linspace(0.0, 1.0, 6)),
        bs.Polynomial(1),
        bs.Parabolic.from_range(bs.ReturnRange(0.0, 1.0), 5),
        bs.Quartic.from_range(bs.ReturnRange(0.0, 1.0), 5),
    ],
    ids=lambda features: type(features).__name__,
)
def test_means_are_certified_where_nothing_but_the_readout_errs(features):
    """Every state ends at once, so that sketches are exact and the means are the rewards."""
    rewards = np.array([0.01, 0.1, 0.37, 0.5, 0.99, 1.0])
    mrp = bs.MRP(np.zeros((6, 6)), rewards, 0.9, np.ones(6))
    found = bs.solve(mrp, features=features, return_range=(0.0, 1.0))
    certified = found.certified_mean
    assert certified.proven
    assert np.all(np.abs(certified.value - rewards) <= certified.bound + 1e-12)


@pytest.mark.parametrize("lipschitz", [-50.0, np.nan, np.inf])
def test_a_lipschitz_constant_is_a_number_from_zero(lipschitz):
    with pytest.raises(bs.InputError, match=r"lipschitz=.*leave it out"):
        solution("tree", num_features=20).certified_expectation(np.sin, lipschitz=lipschitz)


def test_proposition_4_counts_the_zeros_after_the_end():
    mrp = bs.MRP([[0.5, 0.0], [0.5, 0.0]], [1.0, 2.0], 0.9, [0.5, 0.5])
    assert bs.indicator_bound(mrp, bs.Indicator(np.linspace(0.0, 20.0, 101))) == pytest.approx(20 * 4.8 / (0.1 * 100))
    with pytest.raises(bs.InputError, match="= 0"):
        bs.indicator_bound(mrp, bs.Indicator(np.linspace(10.0, 20.0, 101)))


def test_a_certain_return_needs_no_excuse():
    found = bs.solve(bs.MRP([[1.0]], [1.0], 0.9), num_features=20, return_range=(8.0, 12.0)).certificate
    assert np.isfinite(found.bound)
    assert found.reason == ""


def test_a_sketch_that_is_not_finite_has_no_certificate():
    found = solution("tree", num_features=20)
    broken = np.full_like(found.sketch, np.nan)
    certificate = certify(found.mrp, found.coefficients, found.operator, broken)
    assert certificate.bound == np.inf
    assert "not finite" in certificate.reason
