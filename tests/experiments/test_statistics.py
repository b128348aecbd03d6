"""Interquartile means and their intervals, against direct enumeration and hand-computed numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bellsketch as bs
from bellsketch.experiments.statistics import Estimate, bootstrap, interquartile_mean, resample, seed_mean


def rng():
    return np.random.default_rng(0)


class TestInterquartileMean:
    @pytest.mark.parametrize(
        ("scores", "expected"),
        [  # seeds by games; Agarwal et al.: discard a quarter of all runs at either end, average the rest
            ([[1.0, 2.0], [3.0, 100.0]], 2.5),
            ([[0.0, 10.0], [4.0, 2.0], [6.0, 8.0]], 5.0),  # of six runs one at either end: a quarter rounded down
            ([[0.0], [1.0], [2.0], [5.0], [9.0], [9.0], [9.0], [9.0]], (2 + 5 + 9 + 9) / 4),
            ([[3.0]], 3.0),
            ([[3.0, 4.0, 8.0]], 5.0),
        ],
    )
    def test_by_hand(self, scores, expected):
        assert interquartile_mean(np.array(scores)) == pytest.approx(expected)

    def test_pools_games(self):
        """It is not a mean of the interquartile means of games."""
        scores = np.array([[0.0, 10.0], [0.0, 10.0], [0.0, 10.0], [8.0, 10.0]])
        assert interquartile_mean(scores) == pytest.approx((0 + 8 + 10 + 10) / 4)

    def test_many_at_once(self):
        scores = np.random.default_rng(1).normal(size=(7, 5, 3))
        np.testing.assert_allclose(interquartile_mean(scores), [interquartile_mean(table) for table in scores])

    def test_a_missing_run_is_not_the_best_one(self):
        scores = np.random.default_rng(1).normal(size=(2, 8, 3))
        scores[0, 2, 1] = np.nan
        value = interquartile_mean(scores)
        assert np.isnan(value[0])
        assert np.isfinite(value[1])


class TestBootstrap:
    scores = np.array([[1.0, 10.0], [2.0, 20.0]])

    def test_every_game_keeps_its_own_seeds(self):
        drawn = resample(rng(), self.scores, 100)
        assert drawn.shape == (100, 2, 2)
        assert set(np.unique(drawn[..., 0])) == {1.0, 2.0}
        assert set(np.unique(drawn[..., 1])) == {10.0, 20.0}

    def test_all_resamples_are_equally_likely(self):
        """Two seeds of two games, drawn independently in each game: 2² · 2² tables."""
        tables = [
            np.column_stack([self.scores[list(a), 0], self.scores[list(b), 1]])
            for a in itertools.product((0, 1), repeat=2)
            for b in itertools.product((0, 1), repeat=2)
        ]
        exact = np.sort([interquartile_mean(table) for table in tables])
        found = interquartile_mean(resample(rng(), self.scores, 160_000))
        for value, share in zip(*np.unique(exact, return_counts=True), strict=True):
            assert np.mean(np.isclose(found, value)) == pytest.approx(share / 16, abs=0.005)
        estimate = bootstrap(rng(), interquartile_mean, self.scores, num=160_000, level=0.7)
        assert estimate.value == interquartile_mean(self.scores)
        # 3/16 of all resamples lie below, 4/16 are at, the second value from either end
        assert estimate.low == pytest.approx(exact[int(0.15 * 16)])
        assert estimate.high == pytest.approx(exact[int(0.85 * 16)])

    def test_of_each_game(self):
        estimate = bootstrap(rng(), seed_mean, self.scores)
        np.testing.assert_allclose(estimate.value, [1.5, 15.0])
        np.testing.assert_allclose(estimate.low, [1.0, 10.0])
        np.testing.assert_allclose(estimate.high, [2.0, 20.0])

    def test_of_a_difference(self):
        """Methods are drawn independently: the difference of a method and its copy is not certainly 0."""
        table = np.random.default_rng(2).normal(size=(6, 2))
        gap = bootstrap(rng(), lambda a, b: interquartile_mean(a) - interquartile_mean(b), table, table)
        assert gap.value == 0
        assert gap.low < -0.1 < 0.1 < gap.high

    def test_same_generator_same_interval(self):
        assert bootstrap(rng(), interquartile_mean, self.scores) == bootstrap(rng(), interquartile_mean, self.scores)

    def test_covers_as_often_as_it_says(self):
        """A little less often, since there are few seeds; the truth is 0 by symmetry."""
        draw = np.random.default_rng(3)
        centres = np.array([-2.0, 0.0, 2.0])
        intervals = [
            bootstrap(draw, interquartile_mean, centres + draw.normal(size=(10, 3)), num=300) for _ in range(400)
        ]
        assert 0.87 < np.mean([interval.low <= 0 <= interval.high for interval in intervals]) < 0.98

    @given(
        hnp.arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(-100, 100)),
        st.floats(0.1, 10),
        st.floats(-10, 10),
    )
    def test_units_do_not_matter(self, scores, factor, shift):
        here = bootstrap(rng(), interquartile_mean, scores, num=50)
        there = bootstrap(rng(), interquartile_mean, factor * scores + shift, num=50)
        assert scores.min() - 1e-9 <= here.low <= here.high <= scores.max() + 1e-9
        for name in ("value", "low", "high"):
            assert getattr(there, name) == pytest.approx(factor * getattr(here, name) + shift, abs=1e-6)

    def test_nothing_to_draw_from(self):
        with pytest.raises(bs.InputError, match="scores"):
            bootstrap(rng(), interquartile_mean)
        with pytest.raises(bs.InputError, match="scores"):
            bootstrap(rng(), interquartile_mean, np.zeros((0, 2)))


def test_in_words():
    assert str(Estimate(1.0, 0.5, 1.23456)) == "1 [0.5, 1.23]"
