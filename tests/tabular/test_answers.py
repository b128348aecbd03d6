"""Answers about returns, against closed forms and exact distributions."""

import numpy as np
import pytest
from scipy import stats

import bellsketch as bs
from bellsketch.tabular.entropic import entropic_risk

SURE = 1.0


def coin() -> bs.MRP:
    """Wins or loses 10 once, then 1 for ever: returns are 10 or −10 and 9 more."""
    return bs.MRP.from_outcomes([(0, 0.5, 10.0, 1), (0, 0.5, -10.0, 1), (1, 1.0, SURE, 1)], 0.9)


class TestEntropicRisk:
    @pytest.mark.parametrize("aversion", [-3.0, 0.01, 0.5, 5.0])
    def test_of_gaussian_returns(self, aversion):
        mrp = bs.MRP([[1.0]], [stats.norm(2.0, 3.0)], 0.9)
        exact = 2 / 0.1 - aversion * 9 / (1 - 0.81) / 2
        np.testing.assert_allclose(entropic_risk(mrp, aversion), exact, rtol=1e-9)

    @pytest.mark.parametrize("aversion", [-100.0, -0.2, 0.2, 2.0, 100.0])
    def test_of_a_coin(self, aversion):
        exact = 9.0 - np.logaddexp(np.log(0.5) - 10 * aversion, np.log(0.5) + 10 * aversion) / aversion
        np.testing.assert_allclose(entropic_risk(coin(), aversion), [exact, 10.0], rtol=1e-9)

    @pytest.mark.parametrize("aversion", [-1.0, 0.3, 3.0])
    def test_of_exact_distributions(self, aversion):
        mrp = bs.environments.make("random_chain")
        truth = bs.ground_truth(mrp).distribution
        expected = np.asarray(truth.expectation(lambda g: np.exp(-aversion * g)))
        np.testing.assert_allclose(entropic_risk(mrp, aversion), -np.log(expected) / aversion, atol=2e-3)

    def test_without_a_future(self):
        mrp = bs.MRP([[1.0]], [stats.norm(2.0, 3.0)], 0.0)
        np.testing.assert_allclose(entropic_risk(mrp, 1.0), 2 - 4.5)

    def test_zero_would_be_the_mean(self):
        with pytest.raises(bs.InputError, match=r"aversion=0\.0.*the mean"):
            entropic_risk(coin(), 0.0)


def test_every_level_has_its_column():
    table = bs.answers(bs.solve(coin()), bs.Questions((0.02, 0.025, 0.999), cvar=0.005))
    assert list(table.columns) == ["mean", "sd", "2%", "2.5%", "99.9%", "CVaR 0.5%"]


def test_a_threshold_that_is_no_number():
    with pytest.raises(bs.InputError, match="below=nan"):
        bs.Questions(below=np.nan)


def test_rewards_without_a_mean_or_variance():
    for reward in (stats.cauchy(), stats.t(2)):
        with pytest.raises(bs.InputError, match="must be finite: cut its tails off"):
            bs.as_reward(reward)


class TestBootstrap:
    def log(self, tmp_path, lines):
        file = tmp_path / "log.csv"
        file.write_text("state,reward,next_state\n" + "\n".join(lines) + "\n")
        return bs.load_log(str(file)), bs.load_model(str(file), discount=0.99).mrp

    def test_returns_of_other_logs_may_be_larger(self, tmp_path):
        log, mrp = self.log(tmp_path, [*["a,1,a"] * 9, "a,1,end"])
        _, high = bs.bootstrap_answers(log, bs.solve(mrp, num_features=20), num=40)
        # Without the line that ends, which a third of logs do not have, the return is 1/(1 − γ).
        np.testing.assert_allclose(high["mean"], 100.0, rtol=1e-3)

    def test_it_is_decoded_as_the_answer_is(self, tmp_path):
        lines = [f"a,{reward},end" for reward in (1, 2, 5, 9)] * 10
        log, mrp = self.log(tmp_path, lines)
        solution = bs.solve(mrp, num_features=10, decode="anchors", seed=3)
        assert solution.settings["decode"] == "anchors"
        point = bs.answers(solution)
        low, high = bs.bootstrap_answers(log, solution, num=15)
        assert (low["5%"] - 1e-9 <= point["5%"]).all()
        assert (point["95%"] <= high["95%"] + 1e-9).all()
