import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from cases import DETERMINISTIC, bellman_system, environments, model, return_range, solution, truth


@environments(*DETERMINISTIC, "tree_gaussian")
def test_means(name):
    result = solution(name)
    np.testing.assert_allclose(result.mean, model(name).value, atol=2e-4 * result.return_range.width)
    np.testing.assert_allclose(result.distributions.mean, model(name).value, atol=2e-3 * result.return_range.width)


def test_the_certificate_is_useful():
    result = solution("random_chain")
    error = np.linalg.norm(result.sketch - truth("random_chain").embedding(result.features), axis=1).max()
    assert error <= result.certificate.bound < 10 * error
    assert abs(result.coefficients.operator_norm - np.sqrt(0.9)) < 0.01


def test_expectations_of_smooth_functions_and_of_jumps():
    result, exact = solution("loopy_fork"), truth("loopy_fork").distribution
    for f in (lambda g: g**2, lambda g: np.exp(-0.5 * g)):
        np.testing.assert_allclose(result.expectation(f), exact.expectation(f), rtol=1e-4)
    np.testing.assert_allclose(result.expectation(lambda g: g < 0), exact.cdf(-1e-9), atol=0.01)
    smooth = result.expectation(lambda g: g, via="readout")
    np.testing.assert_allclose(smooth, result.expectation(lambda g: g, via="decode"), atol=1e-3)


def test_quantiles():
    result, exact = solution("loopy_fork"), truth("loopy_fork").distribution
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    for state in range(4):
        np.testing.assert_allclose(
            result.distribution(state).quantile(levels), exact[state].quantile(levels), atol=0.05
        )


def test_a_given_range_and_given_features_are_used():
    features = bs.Gaussian(np.linspace(-2, 3, 30), 4.0)
    result = bs.solve(model("directed_chain"), features=features, return_range=(0.0, 1.0))
    assert result.features is features
    assert result.return_range == bs.ReturnRange(0.0, 1.0)


def test_seeds_change_the_estimated_range_only_slightly():
    first, second = (bs.solve(model("rowland23"), seed=seed) for seed in (1, 2))
    assert first.return_range != second.return_range
    np.testing.assert_allclose(first.mean, second.mean, atol=1e-4)


@pytest.mark.parametrize("num_features", [10, 30, 50])
def test_polynomials_by_name_are_usable_at_any_number(num_features):
    result = bs.solve(model("tree"), features="polynomial", num_features=num_features)
    np.testing.assert_allclose(result.mean, model("tree").value, atol=1e-5)
    np.testing.assert_allclose(result.distributions.mean, model("tree").value, atol=0.1)


def test_raw_powers_warn_that_digits_are_lost():
    with pytest.warns(bs.BellsketchWarning, match="nearly singular"):
        bs.solve(model("rowland23"), features=bs.Polynomial(40))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": "sigmod"}, "unknown feature family 'sigmod'. Did you mean 'sigmoid'"),
        ({"num_features": 0}, "num_features=0"),
        ({"slope_factor": -1.0}, "slope=-"),
        ({"intercept": "fixed"}, "intercept='fixed': choose one of free, penalised, none"),
        ({"ridge": -1.0}, "ridge=-1.0"),
        ({"method": "guess"}, "method='guess'"),
        ({"decode": "coarse"}, "decode='coarse'"),
        ({"return_range": (1.0, 1.0)}, r"return range \[1.0, 1.0\]"),
        ({"iterations": -1, "method": "iterate"}, "iterations=-1"),
        ({"features": bs.Fourier(-20, 20), "num_features": 13}, "leave them out where features is a feature map"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(bs.InputError, match=message):
        bs.solve(model("tree"), **arguments)


def test_a_tolerance_that_is_missed():
    with pytest.raises(bs.ToleranceError, match=r"exceeds tolerance=1e-08 by .*more features"):
        bs.solve(model("tree"), tolerance=1e-8)


def test_bad_questions():
    with pytest.raises(bs.InputError, match="state=7: the model has states 0 to 4"):
        solution("tree").distribution(7)
    with pytest.raises(bs.InputError, match="via='guess'"):
        solution("tree").expectation(lambda g: g, via="guess")


def test_plots():
    figure = solution("tree").plot(truth("tree"), states=[0, 2])
    lines = [axis.get_lines() for axis in figure.axes if axis.get_lines()]
    assert [len(panel) for panel in lines] == [2, 2]
    heights = lines[0][1].get_ydata()
    assert heights[0] < 1e-6
    assert abs(heights[-1] - 1) < 1e-9
    plt.close(figure)


class TestMethods:
    @pytest.mark.parametrize("name", ["random_chain", "tree", "loopy_fork", "cycle", "sutton_barto18"])
    def test_agree_and_say_what_they_did(self, name):
        span = return_range(name)
        found = {m: bs.solve(model(name), return_range=span, method=m) for m in ("dense", "krylov", "iterate")}
        reference = solution(name)
        for method, result in found.items():
            np.testing.assert_allclose(result.sketch, reference.sketch, atol=1e-8, err_msg=method)
            report = result.fixed_point
            assert report.residual <= 1e-10
            assert report.residual == pytest.approx(result.operator.residual(result.sketch).max(), abs=1e-14)
            assert report.sketch is result.sketch
        assert [r.fixed_point.method.split()[0] for r in found.values()] == ["dense", "BiCGSTAB,", "plain"]
        assert found["iterate"].fixed_point.iterations > found["krylov"].fixed_point.iterations
        assert reference.fixed_point.method == "dense LU"

    @pytest.mark.parametrize("residual", [1e-3, 1e-6, 1e-10])
    @pytest.mark.parametrize("discount", [0.5, 0.99])
    def test_iterating_goes_on_until_the_residual_is_reached(self, discount, residual):
        mrp = bs.environments.make("random_chain", discount)
        span = bs.ReturnRange(float(mrp.return_bounds[0].min()), float(mrp.return_bounds[1].max()))
        result = bs.solve(mrp, return_range=span, method="iterate", residual=residual)
        assert result.fixed_point.residual <= residual
        assert result.fixed_point.iterations < 2 * np.log(residual) / np.log(discount) + 1

    def test_without_a_future_two_backups_are_enough(self):
        mrp = bs.environments.make("loopy_fork", 0.0)
        result = bs.solve(mrp, return_range=(-2.0, 2.0), method="iterate")
        assert result.fixed_point.iterations == 2
        assert result.fixed_point.residual <= 1e-12

    def test_given_iterations_are_kept_to(self):
        mrp, span = model("loopy_fork"), return_range("loopy_fork")
        result = bs.solve(mrp, return_range=span, method="iterate", iterations=3)
        assert result.fixed_point.iterations == 3
        u = np.tile(result.features(0.0), (mrp.num_states, 1))
        for _ in range(3):
            u = (result.operator.dense() @ u.ravel()).reshape(u.shape) + result.operator.offset
        np.testing.assert_allclose(result.sketch, u, atol=1e-12)
        with pytest.raises(bs.DivergenceError, match="in 2 iterations"):
            bs.solve(mrp, return_range=span, method="krylov", iterations=2)

    @pytest.mark.parametrize("method", ["dense", "krylov", "iterate"])
    def test_single_precision(self, method):
        span = return_range("loopy_fork")
        single = bs.solve(model("loopy_fork"), return_range=span, precision="float32", method=method)
        double = solution("loopy_fork")
        assert single.sketch.dtype == np.float32
        assert single.coefficients.matrices.dtype == np.float64
        assert 0 < np.abs(single.sketch - double.sketch).max() < 5e-5
        np.testing.assert_allclose(single.mean, double.mean, atol=2e-3)
        error = np.linalg.norm(single.sketch - truth("loopy_fork").embedding(single.features), axis=1).max()
        assert error <= single.certificate.bound < 10 * double.certificate.bound

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"precision": "float16"}, "precision='float16': choose one of float64, float32"),
            ({"residual": 0.0}, "residual=0.0"),
            ({"residual": -1.0}, "residual=-1.0"),
        ],
    )
    def test_bad_arguments(self, arguments, message):
        with pytest.raises(bs.InputError, match=message):
            bs.solve(model("tree"), return_range=return_range("tree"), **arguments)

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    @pytest.mark.parametrize("residual", [0.0, -1.0, np.nan])
    def test_bad_residuals_where_iterating(self, residual):
        with pytest.raises(bs.InputError, match=r"residual|tolerance"):
            bs.solve(model("tree"), return_range=return_range("tree"), method="iterate", residual=residual)

    def test_a_long_walk_is_solved_as_a_linear_system(self):
        mrp = large_model("line", 300, 0.999, 0)
        result = bs.solve(mrp, num_features=30)
        matrix, constant = bellman_system(mrp, result.coefficients)
        assert result.fixed_point.method.startswith("BiCGSTAB")
        assert result.fixed_point.residual <= 1e-10
        exact = spsolve((sp.eye_array(constant.size) - matrix).tocsc(), constant.ravel()).reshape(constant.shape)
        np.testing.assert_allclose(result.sketch, exact, atol=1e-6)
        np.testing.assert_allclose(result.mean, mrp.value, atol=0.02 * result.return_range.width)


class TestMemory:
    def little(self, monkeypatch, num_bytes):
        for module in ("bellsketch.core.memory", "bellsketch.tabular.solve"):
            monkeypatch.setattr(f"{module}.available_bytes", lambda: num_bytes)

    def test_krylov_gives_way_to_iteration(self, monkeypatch):
        """The walk has 900 states × 10 features of 8 bytes: 14 copies do not fit, three do."""
        mrp = large_model("line", 900, 0.9, 0)
        plenty = bs.solve(mrp, num_features=10, return_range=(-10.0, 10.0))
        assert plenty.fixed_point.method.startswith("BiCGSTAB")
        self.little(monkeypatch, 8 * 900 * 10 * 6)
        with pytest.warns(bs.BellsketchWarning, match="Krylov method would take .* GB, more than there is: iterating"):
            scarce = bs.solve(mrp, num_features=10, return_range=(-10.0, 10.0))
        assert scarce.fixed_point.method == "plain iteration"
        np.testing.assert_allclose(scarce.sketch, plenty.sketch, atol=1e-8)
        self.little(monkeypatch, 8 * 900 * 10 * 2)
        with pytest.raises(bs.AllocationError, match=r"900 states × 10 features would take 0\.0 GB"):
            bs.solve(mrp, num_features=10, return_range=(-10.0, 10.0), method="iterate")

    def test_single_precision_takes_less(self, monkeypatch):
        """Three copies of 900 × 20 numbers of 8 bytes, or of 4 and the constant part of 8; and 48 bytes an outcome."""
        mrp = large_model("line", 900, 0.9, 0)
        self.little(monkeypatch, 480_000)
        arguments = {"num_features": 20, "return_range": (-10.0, 10.0), "method": "iterate", "iterations": 1}
        with pytest.raises(bs.AllocationError, match="precision='float32'"):
            bs.solve(mrp, **arguments)
        assert bs.solve(mrp, precision="float32", **arguments).sketch.dtype == np.float32

    def test_a_huge_system_is_refused_before_anything_is_allocated(self, monkeypatch):
        """LU of 20,000 states × 100 features: 2 × 8 bytes × (2·10⁶)²."""

        def fail(*_):
            raise AssertionError("allocated")

        mrp = large_model("line", 20_000, 0.9, 0)
        monkeypatch.setattr("bellsketch.tabular.solve.sketch_operator", fail)
        with pytest.raises(
            bs.AllocationError, match=r"20,000 states × 100 features would take 64,000\.0 GB.*'iterate'"
        ):
            bs.solve(mrp, num_features=100, return_range=(-10.0, 10.0), method="dense")


class TestOneDistribution:
    def test_only_that_state_is_decoded(self, monkeypatch):
        result = bs.solve(model("loopy_fork"), num_features=20, return_range=return_range("loopy_fork"))
        shapes, decode = [], type(result.decoder).__call__

        def counted(decoder, sketch):
            shapes.append(np.shape(sketch))
            return decode(decoder, sketch)

        monkeypatch.setattr(type(result.decoder), "__call__", counted)
        one = result.distribution(2)
        assert shapes == [(20,)]
        assert one.locations.ndim == 1
        every = result.distributions
        assert shapes == [(20,), (4, 20)]
        np.testing.assert_allclose(one.probabilities, every.probabilities[2], atol=1e-9)
        np.testing.assert_array_equal(one.locations, every.locations[2])
        np.testing.assert_array_equal(result.distribution(2).probabilities, every.probabilities[2])
        assert len(shapes) == 2  # what is known is not decoded again

    @pytest.mark.parametrize("state", [-1, 4])
    def test_there_are_no_others(self, state):
        with pytest.raises(bs.InputError, match=f"state={state}: the model has states 0 to 3"):
            solution("loopy_fork").distribution(state)


def test_what_is_wrong_with_features_is_said_before_returns_are_drawn(monkeypatch):
    def drawn(*arguments):
        raise AssertionError("returns were drawn")

    monkeypatch.setattr("bellsketch.tabular.solve.estimate_return_range", drawn)
    mrp = bs.environments.make("tree")
    for options in ({"features": "sigmod"}, {"num_features": 0}, {"features": "polynomial", "slope_factor": 2.0}):
        with pytest.raises(bs.InputError):
            bs.solve(mrp, **options)
    with pytest.raises(bs.InputError, match="leave them out"):
        bs.solve(mrp, features=bs.Polynomial(3), num_features=4)
