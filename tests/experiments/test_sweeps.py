"""One small cell of each kind against the same numbers by another way: ``solve``, ``categorical_dp``, closed forms."""

import functools

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.core.ranges import GRID_MARGIN
from bellsketch.experiments import sweeps
from cases import model, return_range, truth

M, JITTERS = 10, 3
CERTAIN, RANDOM = "directed_chain", "sutton_barto18"


def settings(name, **changes):
    return sweeps.SweepSettings((name,), ("sigmoid",), (M,), (1.0,), jitters=JITTERS, **changes)


@functools.cache
def records(name, features):
    return sweeps.measure(settings(name), {"environment": name, "features": features, "num_features": M})


@functools.cache
def jittered_supports(name):
    """Anchors over the range widened by 0.4 either way, each moved by up to half a step."""
    span = return_range(name)
    anchors, step = np.linspace(span.low - 0.4 * span.width, span.high + 0.4 * span.width, M, retstep=True)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), M), JITTERS)
    noise = np.array([jax.random.uniform(key, (M,), minval=-0.5, maxval=0.5) for key in keys], dtype=np.float64)
    return np.sort(anchors + noise * step, axis=1)


def projection_distances(name):
    target = truth(name).distribution
    return [bs.cramer(bs.categorical_projection(target, z), target).max() for z in jittered_supports(name)]


def solve(name, intercept, **kwargs):
    kwargs = {"features": "sigmoid", "num_features": M} | kwargs
    return bs.solve(
        model(name), **kwargs, return_range=return_range(name), intercept=intercept, method="iterate", iterations=200
    )


@pytest.mark.parametrize("name", [CERTAIN, RANDOM])
def test_rows_are_tidy(name):
    rows = [row for row in records(name, "sigmoid") if row["method"] == "sketch"]
    assert [(row["intercept"], row["jitter"]) for row in rows] == [(i, j) for i in ("none", "free") for j in range(3)]
    assert {(row["environment"], row["features"], row["num_features"], row["slope_factor"]) for row in rows} == {
        (name, "sigmoid", M, 1.0)
    }


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("name", [CERTAIN, RANDOM])
def test_sketches_are_those_of_solve(name, intercept):
    solution, target = solve(name, intercept), truth(name).distribution
    decoded = [bs.Decoder(solution.features, z)(solution.sketch) for z in jittered_supports(name)]
    distances = np.array([bs.cramer(estimate, target).max() for estimate in decoded])
    error = np.linalg.norm(solution.sketch - truth(name).embedding(solution.features), axis=1).max() ** 2
    rows = [row for row in records(name, "sigmoid") if row["intercept"] == intercept]
    np.testing.assert_allclose([row["cramer"] for row in rows], distances, rtol=1e-6)
    np.testing.assert_allclose(
        [row["excess_cramer"] for row in rows], distances - projection_distances(name), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose([row["embedding_sq_error"] for row in rows], error, rtol=1e-6)
    np.testing.assert_allclose([row["max_regression_error"] for row in rows], solution.coefficients.max_error)
    assert len(set(distances)) == JITTERS


@pytest.mark.parametrize("name", [CERTAIN, RANDOM])
def test_categorical_rows_are_categorical_dp(name):
    mrp, target = model(name), truth(name).distribution
    algorithms = [bs.categorical_dp(mrp, z) for z in jittered_supports(name)]
    states = [bs.run(jax.random.key(0), algorithm, 200).state for algorithm in algorithms]
    estimates = [algorithm.decode(state) for algorithm, state in zip(algorithms, states, strict=True)]
    distances = np.array([bs.cramer(estimate, target).max() for estimate in estimates])
    rows = [row for row in records(name, "baselines") if row["method"] == "categorical"]
    assert [row["jitter"] for row in rows] == [0, 1, 2]
    np.testing.assert_allclose([row["cramer"] for row in rows], distances, rtol=1e-9)
    np.testing.assert_allclose(
        [row["excess_cramer"] for row in rows], distances - projection_distances(name), rtol=1e-6, atol=1e-12
    )


def test_the_dirac_row_is_its_closed_form():
    """Returns of 1 three times out of four: ∫ (F − 1{x ≥ ¾})² = (¼)² ¾ + (¾)² ¼; the discounted state has 0.9 of it."""
    (row,) = (row for row in records(RANDOM, "baselines") if row["method"] == "dirac")
    assert row["cramer"] == pytest.approx(3 / 64 + 9 / 64)
    (row,) = (row for row in records(CERTAIN, "baselines") if row["method"] == "dirac")
    assert row["cramer"] == pytest.approx(0, abs=1e-12)


def test_slopes_are_swept_at_fifty_features_only():
    wide = sweeps.SweepSettings((CERTAIN,), ("sigmoid", "indicator"), (10, 50), (0.5, 2.0), jitters=1)
    rows = {num: sweep(wide, CERTAIN, "sigmoid", num) for num in (10, 50)}
    assert {row["slope_factor"] for row in rows[10]} == {1.0}
    assert {row["slope_factor"] for row in rows[50]} == {0.5, 1.0, 2.0}  # the default is always among them
    assert {row["slope_factor"] for row in sweep(wide, CERTAIN, "indicator", 50)} == {1.0}
    for factor in (0.5, 2.0):
        solution = solve(CERTAIN, "free", num_features=50, slope_factor=factor)
        error = np.linalg.norm(solution.sketch - truth(CERTAIN).embedding(solution.features), axis=1).max() ** 2
        (row,) = (r for r in rows[50] if r["slope_factor"] == factor and r["intercept"] == "free")
        assert row["embedding_sq_error"] == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_anchor_ratios_are_relative_to_the_regression_grid(ratio):
    """Anchors written out: as wide as the grid times the ratio, about the middle of the range."""
    span = return_range(CERTAIN)
    middle, half = (span.low + span.high) / 2, ratio * (1 + 2 * GRID_MARGIN) * span.width / 2
    slope = bs.Sigmoid.from_range(span, M).slope
    features = bs.Sigmoid(np.linspace(middle - half, middle + half, M), slope)
    solution = solve(CERTAIN, "free", features=features, num_features=None)
    rows = sweep(settings(CERTAIN, anchor_ratios=(ratio,)), CERTAIN, "sigmoid", M)
    error = np.linalg.norm(solution.sketch - truth(CERTAIN).embedding(features), axis=1).max() ** 2
    free = [row for row in rows if row["intercept"] == "free"]
    assert {row["anchor_ratio"] for row in free} == {ratio}
    np.testing.assert_allclose([row["embedding_sq_error"] for row in free], error, rtol=1e-6)


def sweep(chosen, name, features, num):
    return sweeps.measure(chosen, {"environment": name, "features": features, "num_features": num})


def test_cells_cover_the_sweep_once_and_the_largest_come_first():
    chosen = sweeps.SweepSettings(("tree", "cycle"), ("sigmoid", "erf"), (10, 20), jitters=1)
    found = [(cell["num_features"], cell["environment"], cell["features"]) for cell in sweeps.cells(chosen)]
    expected = {(m, e, f) for m in (10, 20, 50) for e in ("tree", "cycle") for f in ("sigmoid", "erf", "baselines")}
    assert set(found) == expected  # 50 is there for the slopes
    assert len(found) == len(expected)
    assert [num for num, _, _ in found] == sorted((num for num, _, _ in found), reverse=True)
