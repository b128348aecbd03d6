"""Coefficients on demand are the coefficients, however many ask at once and however small the cache."""

import concurrent.futures

import numpy as np
import pytest
from scipy import stats

import bellsketch as bs

SPAN = bs.ReturnRange(-1.0, 2.0)
FEATURES = bs.Sigmoid.from_range(SPAN, 12)
REWARDS = [0.0, -0.25, 1.0, stats.norm(0.5, 0.1)]


def cache(**options):
    return bs.JustInTimeCoefficients(FEATURES, SPAN.grid(), **options)


def test_same_as_fitted_beforehand():
    ahead = bs.fit_coefficients(FEATURES, SPAN.grid(), REWARDS, [0.9, 0.0])
    found = cache()
    for reward in REWARDS:
        for discount in (0.9, 0.0):
            for one, other in zip(found.at(reward, discount), ahead.at(reward, discount), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-12)


def test_counts_and_forgets_the_least_recently_used():
    found = cache(max_size=2)
    for reward in (0.0, 1.0, 0.0, 2.0, 0.0, 1.0):  # 1 goes when 2 comes, then 2 when 1 returns
        found.at(reward, 0.9)
    info = found.info
    assert (info.hits, info.misses, info.size, info.max_size) == (2, 4, 2, 2)
    assert info.hit_rate == pytest.approx(1 / 3)
    found.at(0.0, 0.9)
    assert found.info.hits == 3


def test_many_threads():
    found = cache(max_size=5)
    rewards = np.tile(np.linspace(0, 1, 8), 20)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        matrices = list(pool.map(lambda r: found.at(float(r), 0.9)[0], rewards))
    ahead = bs.fit_coefficients(FEATURES, SPAN.grid(), np.linspace(0, 1, 8), [0.9])
    for reward, matrix in zip(rewards, matrices, strict=True):
        np.testing.assert_allclose(matrix, ahead.at(float(reward), 0.9)[0], atol=1e-12)
    info = found.info
    assert info.hits + info.misses == rewards.size
    assert info.size == 5


def test_bad_input():
    with pytest.raises(bs.InputError, match="max_size=0"):
        cache(max_size=0)
    with pytest.raises(bs.InputError, match=r"1\.5 lies outside"):
        cache().at(0.0, 1.5)
    with pytest.raises(bs.ToleranceError, match="tolerance=1e-15"):
        cache(tolerance=1e-15).at(0.0, 0.9)


def test_what_is_shared_cannot_be_changed():
    found = cache()
    matrix, offset = found.at(1.0, 0.9)
    for array in (matrix, offset):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_dynamic_programming_takes_them():
    mrp = bs.environments.make("tree")
    span = bs.ReturnRange(-10.0, 10.0)
    features = bs.Sigmoid.from_range(span, 20)
    fitted = bs.fit_coefficients(features, span.grid(1_000), mrp.rewards, (mrp.discount, 0.0))
    lazily = bs.JustInTimeCoefficients(features, span.grid(1_000))
    sketch = np.random.default_rng(0).random((mrp.num_states, 20))
    np.testing.assert_allclose(
        bs.sketch_operator(mrp, lazily)(sketch), bs.sketch_operator(mrp, fitted)(sketch), atol=1e-10
    )
