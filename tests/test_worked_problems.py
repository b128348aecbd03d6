"""The models of the worked examples, against what others published or what is computed in another way."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import bellsketch as bs

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bond():
    """The mean loss from powers of the published matrix, and its distribution from the year of default.

    Losses are discounted from the start of their year, and the figures of the text are theirs.
    """
    credit = example("plot_credit_rating")
    yearly = np.vstack([credit.YEARLY / credit.YEARLY.sum(axis=1, keepdims=True), np.eye(8)[7]])
    defaulted = np.array([np.linalg.matrix_power(yearly, n)[:7, 7] for n in range(11)])
    in_year = np.diff(defaulted, axis=0)
    model = credit.bond()
    expected = 100 * (1 - 0.5113) * (credit.DISCOUNT ** np.arange(10)) @ in_year
    np.testing.assert_allclose(model.value[:7], expected, rtol=1e-9)
    assert f"The mean loss of the BBB bond is {expected[3]:.1f}," in credit.__doc__
    assert f"A B bond loses something with {defaulted[-1, 5]:.0%}." in credit.__doc__
    assert "from the start of the year in which it" in credit.__doc__
    loss = credit.loss_at_default()
    np.testing.assert_allclose([loss.mean(), loss.std()], [48.87, 25.45], rtol=1e-9)
    losses = bs.solve(model, num_features=40, return_range=(0.0, 100.0)).distribution(5)
    for threshold in (25.0, 50.0, 75.0):
        exact = loss.sf(threshold / credit.DISCOUNT ** np.arange(10)) @ in_year[:, 5]
        assert abs(1 - losses.cdf(threshold) - exact) < 0.02


def test_bearing():
    """The Weibull fit is the published one, and the best age is that of the renewal equation in continuous time."""
    bearing = example("plot_machine_maintenance")
    shape, _, scale = stats.weibull_min.fit(bearing.LIVES, floc=0)
    np.testing.assert_allclose([shape, scale], [2.10, 81.9], atol=0.03)  # Lawless (1982), and many since
    life, rate = stats.weibull_min(shape, scale=scale), -np.log(bearing.DISCOUNT) / bearing.STEP

    def cost(age):
        failed = integrate.quad(lambda t: np.exp(-rate * t) * life.pdf(t), 0, age)[0]
        kept = np.exp(-rate * age) * life.sf(age)
        return (bearing.FAILED * failed + bearing.PLANNED * kept) / (1 - failed - kept)

    best = optimize.minimize_scalar(cost, bounds=(10, 150), method="bounded")
    found = bs.policy_iteration(bearing.machine(), num_features=30)
    age = bearing.STEP * np.argmax(found.policy == bearing.REPLACE)
    assert abs(age - best.x) <= bearing.STEP
    assert np.all(np.diff(found.policy) >= 0)
    np.testing.assert_allclose(-found.values[0], best.fun, rtol=0.03)  # in steps, and not continuously


@pytest.mark.parametrize(("up_to", "cost"), [(40, 35.02)])
def test_shop(up_to, cost):
    """The average cost of Zheng and Federgruen's rule, which is the least."""
    shop = example("plot_inventory")

    def average(size):
        model = shop.shop(size)
        shares = np.linalg.matrix_power(model.transitions.toarray(), 2_000)[0]
        return float(shares @ model.mean_rewards)

    assert abs(average(up_to) - cost) < 0.005
    assert average(up_to) <= min(average(up_to - 1), average(up_to + 1))
