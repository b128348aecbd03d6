import matplotlib.pyplot as plt
import numpy as np
import pytest

import bellsketch as bs
from cases import model, solution, truth


@pytest.mark.parametrize("name", bs.environments.NAMES)
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
        ({"iterations": -1, "method": "iterate"}, "num_steps=-1"),
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
