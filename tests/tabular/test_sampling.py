"""The range of returns, from rollouts or, where they would take too long, from exact moments."""

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from bellsketch.tabular.sampling import default_horizon
from cases import by_hand_moments, model, tangled

MODULE = "bellsketch.tabular.sampling"
KEY = jax.random.key(0)


def within_reach(mrp):
    """The least and the greatest of mean ± 4.5 standard deviations."""
    moments = by_hand_moments(mrp, 2)
    reach = 4.5 * np.sqrt(moments[:, 2] - moments[:, 1] ** 2)
    return (moments[:, 1] - reach).min(), (moments[:, 1] + reach).max()


def no_rollouts(*_):
    raise AssertionError("rollouts")


class TestModelsTooLargeForRollouts:
    @pytest.fixture(autouse=True)
    def few_steps(self, monkeypatch):
        monkeypatch.setattr(f"{MODULE}.MAX_RANGE_STEPS", 10_000)
        monkeypatch.setattr(f"{MODULE}.sample_returns", no_rollouts)

    @pytest.mark.parametrize("graph", ["line", "random"])
    def test_the_range_is_that_of_the_moments(self, graph):
        mrp = large_model(graph, 40, 0.99, 0)
        found = bs.estimate_return_range(KEY, mrp)
        np.testing.assert_allclose([found.low, found.high], within_reach(mrp), rtol=1e-8)

    def test_it_contains_zero_where_episodes_end(self):
        ending = bs.MRP(np.zeros((40, 40)), np.linspace(2, 3, 40), 0.99, np.ones(40))
        assert bs.estimate_return_range(KEY, ending) == bs.ReturnRange(0.0, 3.0)
        going_on = bs.estimate_return_range(KEY, bs.MRP(np.eye(40), np.linspace(2, 3, 40), 0.99))
        np.testing.assert_allclose([going_on.low, going_on.high], [200.0, 300.0], rtol=1e-4)

    def test_one_sure_return_still_has_a_range_around_it(self):
        found = bs.estimate_return_range(KEY, bs.MRP(np.eye(40), np.ones(40), 0.9))
        assert found.low < 10 < found.high


def test_moments_are_used_only_where_a_hundred_rollouts_are_too_many(monkeypatch):
    mrp = tangled(10)
    steps = 10 * default_horizon(mrp)
    monkeypatch.setattr(f"{MODULE}.MAX_RANGE_STEPS", 100 * steps)
    asked = []
    draw = bs.sample_returns

    def counted(key, mrp, num_rollouts):
        asked.append(num_rollouts)
        return draw(key, mrp, num_rollouts)

    monkeypatch.setattr(f"{MODULE}.sample_returns", counted)
    found = bs.estimate_return_range(KEY, mrp)
    assert asked == [100]
    returns = draw(KEY, mrp, 100)
    assert (found.low, found.high) == (min(returns.min(), 0.0), max(returns.max(), 0.0))
    monkeypatch.setattr(f"{MODULE}.MAX_RANGE_STEPS", 100 * steps - 1)
    bs.estimate_return_range(KEY, mrp)
    assert asked == [100]
    bs.estimate_return_range(KEY, mrp, 7)  # what is asked for is done, whatever it costs
    assert asked == [100, 7]
    monkeypatch.setattr(f"{MODULE}.MAX_RANGE_STEPS", 10**15)
    monkeypatch.setattr(f"{MODULE}.PAPER_ROLLOUTS", 150)
    bs.estimate_return_range(KEY, mrp)
    assert asked == [100, 7, 150]


def test_no_rollouts_are_an_error():
    with pytest.raises(bs.InputError, match="num_rollouts=0"):
        bs.estimate_return_range(KEY, model("tree"), 0)


def test_most_returns_of_a_large_model_are_in_its_range(monkeypatch):
    """Of 300 states with 1,000 rollouts each."""
    mrp = large_model("random", 300, 0.95, 0)
    returns = bs.sample_returns(KEY, mrp, 1_000)
    monkeypatch.setattr(f"{MODULE}.MAX_RANGE_STEPS", 1)
    found = bs.estimate_return_range(KEY, mrp)
    assert found.low < returns.min()
    assert returns.max() < found.high
    assert np.ptp(returns) > found.width / 3
