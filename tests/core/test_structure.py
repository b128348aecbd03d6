"""Forms of a matrix: what they leave out is at most what they say, and what is kept does not grow with m."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bellsketch as bs
from bellsketch.core.structure import Dense, Sparse, choose_form, low_rank, norm_bound, sparse, sparse_and_rank_one

SPAN = bs.ReturnRange(-10.0, 10.0)
DISCOUNT = 0.9


def fitted(features, mu=None, *, intercept="none", reward=1.0):
    mu = SPAN.grid() if mu is None else mu
    return bs.fit_coefficients(features, mu, [reward], [DISCOUNT], intercept=intercept).at(reward, DISCOUNT)[0]


def bins(m, *, intercept):
    features = bs.Bins.from_range(SPAN, m)
    edges = np.asarray(features.edges)
    return fitted(features, bs.measures.Uniform(edges[0], edges[-1]), intercept=intercept)


def as_matrix(form, m):
    return form(np.eye(m)).T


@pytest.mark.parametrize("m", [200, 400])
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_bins_take_linear_time(m, intercept):
    """A bin of r + γg is 1/γ bins of g long, so it overlaps at most ⌈1/γ⌉ + 1 of them, and each of those two such."""
    matrix = bins(m, intercept=intercept)
    form = choose_form(matrix)
    assert isinstance(form, Sparse)
    assert len(form.extra) == (intercept == "free")
    assert form.entries_per_row <= np.ceil(1 / DISCOUNT) + 1
    assert np.bincount(form.entries.indices, minlength=m)[:m].max() <= 2
    np.testing.assert_allclose(as_matrix(form, m), matrix, atol=1e-13 if intercept == "none" else 1e-12)


def test_bins_that_cover_more_than_the_grid_keep_their_rank_one_part():
    """The default margins: some bins are never seen, and one at each end only in part."""
    matrix = fitted(bs.Bins.from_range(SPAN, 401), intercept="free")
    form = choose_form(matrix)
    assert form.description == "sparse, at most 3 of 401 entries per row + rank one"
    np.testing.assert_allclose(as_matrix(form, 401), matrix, atol=1e-12)


@pytest.mark.parametrize("tolerance", [1e-8, 1e-4])
@pytest.mark.parametrize("family", [bs.Parabolic, bs.Gaussian])
def test_truncated_bumps_say_their_error(family, tolerance):
    matrix = fitted(family.from_range(SPAN, 200, slope_factor=20.0), intercept="free")
    form = sparse_and_rank_one(matrix, tolerance)
    actual = np.linalg.norm(as_matrix(form, 200) - matrix, ord=2)
    assert 0 < actual <= form.error * (1 + 1e-9) + 1e-15
    assert form.error <= tolerance
    assert form.entries_per_row < 30


@pytest.mark.parametrize("tolerance", [1e-3, 1e-1])
def test_a_truncated_fixed_point_is_as_near_as_promised(tolerance):
    """‖U_form − U‖ ≤ error·‖U‖/(1 − ρ), with U = A U + c."""
    m = 120
    features = bs.Sigmoid.from_range(SPAN, m)
    matrix, offset = bs.fit_coefficients(features, SPAN.grid(), [1.0], [DISCOUNT]).at(1.0, DISCOUNT)
    form = low_rank(matrix, tolerance)
    approximate = as_matrix(form, m)
    rho = np.linalg.norm(approximate, ord=2)
    assert rho < 1
    fixed = np.linalg.solve(np.eye(m) - matrix, offset)
    gap = np.linalg.norm(np.linalg.solve(np.eye(m) - approximate, offset) - fixed)
    assert 0 < gap <= form.error * np.linalg.norm(fixed) / (1 - rho)


def test_smooth_features_have_few_singular_values():
    matrix = fitted(bs.Sigmoid.from_range(SPAN, 401), intercept="free")
    form = choose_form(matrix, 1e-3)
    assert form.name == "low rank"
    assert form.description == f"low rank, {len(form.right)} of 401"
    assert len(form.right) < 60
    assert np.linalg.norm(as_matrix(form, 401) - matrix, ord=2) <= form.error <= 1e-3


def test_overlapping_bins_are_full():
    """The moments are bands, but the inverse of one is not: what the paper says of them holds for disjoint bins."""
    features = bs.Bins.from_range(SPAN, 200, overlap=2)
    edges = np.asarray(features.edges)
    matrix = fitted(features, bs.measures.Uniform(edges[0], edges[-1]))
    assert choose_form(matrix, 1e-3).name == "dense"


@settings(max_examples=50, deadline=None)
@given(
    matrix=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 12)),
        elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3)),
        fill=st.just(0.0),
    ),
    tolerance=st.sampled_from([0.0, 1e-9, 0.5, 100.0]),
)
def test_every_form_is_within_its_error(matrix, tolerance):
    rows = np.random.default_rng(0).normal(size=(150, matrix.shape[1]))  # more than one block
    rounding = 1e-9 * (1 + np.abs(matrix).max())
    for form in (Dense(0.0, matrix), *(f(matrix, tolerance) for f in (sparse, sparse_and_rank_one, low_rank))):
        assert form.error <= tolerance + rounding
        bound = (form.error + rounding) * np.linalg.norm(rows, axis=1)
        assert np.all(np.linalg.norm(form(rows) - rows @ matrix.T, axis=1) <= bound)


def test_norm_bound_bounds_and_is_exact_for_a_multiple_of_a_permutation():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20, 30))
    assert np.linalg.norm(matrix, ord=2) <= norm_bound(matrix)
    assert norm_bound(3 * np.eye(5)[::-1]) == pytest.approx(3)


def test_small_matrices_stay_dense_and_say_so():
    matrix = bins(50, intercept="none")
    form = choose_form(matrix)
    assert (form.description, form.cost, form.error) == ("dense", 1.0, 0.0)
    np.testing.assert_array_equal(as_matrix(form, 50), matrix)


@pytest.mark.parametrize("make", [sparse, sparse_and_rank_one, low_rank, lambda matrix, _: Dense(0.0, matrix)])
def test_the_precision_of_the_rows_is_kept(make):
    form = make(bins(40, intercept="free"), 1e-12)
    rows = np.random.default_rng(0).uniform(size=(5, 40))
    for dtype in (np.float32, np.float64):
        assert form(rows.astype(dtype)).dtype == dtype
    np.testing.assert_allclose(form(rows.astype(np.float32)), form(rows), atol=1e-5)


def test_coefficients_show_their_structure():
    features = bs.Bins.from_range(SPAN, 200)
    found = bs.fit_coefficients(features, SPAN.grid(), [0.0, 1.0], [DISCOUNT, 0.0]).structure()
    assert set(found) == {("0", DISCOUNT), ("1", DISCOUNT)}
    assert all("rank one" in description for description in found.values())


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf])
def test_a_bad_tolerance_is_named(tolerance):
    with pytest.raises(bs.InputError, match=f"tolerance={tolerance}"):
        choose_form(np.eye(3), tolerance)


def test_a_bad_matrix_is_named():
    with pytest.raises(bs.InputError, match="matrix"):
        choose_form(np.full((3, 3), np.nan))
