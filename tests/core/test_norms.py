"""Norms in which matrices contract."""

import numpy as np
import pytest

import bellsketch as bs
from bellsketch.core.norms import Norm, candidates, euclidean, lyapunov, running_sum


def test_a_norm_by_hand():
    """W = diag(1, 2): ‖(3, 2)‖_W = 5, ‖u‖₂ ≤ ‖u‖_W, and W A W⁻¹ of a shear is half the shear."""
    norm = Norm("by hand", np.diag([1.0, 2.0]))
    assert norm(np.array([3.0, 2.0])) == pytest.approx(5.0)
    assert norm.factor == pytest.approx(1.0)
    assert norm.of_matrix(np.array([[0.0, 4.0], [0.0, 0.0]])) == pytest.approx(2.0)
    assert Norm("smaller", np.diag([0.5, 2.0])).factor == pytest.approx(2.0)


def test_the_running_sum_by_hand():
    """For two features W = [[½, −½], [1, 1]], and W⁻¹ = [[1, ½], [−1, ½]] has orthogonal columns."""
    norm = running_sum(2)
    assert norm(np.array([3.0, -3.0])) == pytest.approx(3.0)
    assert norm(np.array([1.0, 1.0])) == pytest.approx(2.0)
    assert norm.factor == pytest.approx(2**0.5)
    assert norm.of_matrix(np.array([[0.0, 0.0], [1.0, 0.0]])) == pytest.approx(1.25)


def test_bins_contract_in_the_running_sum_and_not_in_l2():
    """If the regression covers them all: what a bin without data has lost, the running sum misses everywhere."""
    span = bs.ReturnRange(0.0, 1.0)
    features = bs.Bins.from_range(span, 50, margin=0.2)
    matrices = bs.fit_coefficients(features, span.grid(margin=0.2), [0.0, 0.1], [0.9]).matrices[:, 0]
    assert max(euclidean(50).of_matrix(a) for a in matrices) > 1.04
    assert max(running_sum(50).of_matrix(a) for a in matrices) < 0.99


def test_lyapunov_norms_see_that_a_shear_contracts_in_the_end():
    shear = np.array([[0.5, 10.0], [0.0, 0.5]])
    assert euclidean(2).of_matrix(shear) > 10
    norm = lyapunov([shear], 0.7)
    assert norm is not None
    assert norm.of_matrix(shear) <= 0.7 + 1e-9


def test_a_norm_common_to_two_matrices():
    rng = np.random.default_rng(0)
    change = rng.normal(size=(6, 6))
    matrices = [change @ (0.6 * np.linalg.qr(rng.normal(size=(6, 6)))[0]) @ np.linalg.inv(change) for _ in range(2)]
    assert max(np.linalg.norm(a, ord=2) for a in matrices) > 1
    assert min(max(norm.of_matrix(a) for a in matrices) for norm in candidates(matrices)) < 1


def test_no_norm_where_a_product_grows():
    """Each is nilpotent, but their product has spectral radius 4: in no norm do both contract."""
    up, down = np.array([[0.0, 2.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 0.0]])
    assert all(max(norm.of_matrix(up), norm.of_matrix(down)) >= 1 for norm in candidates([up, down]))


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_what_a_norm_says_of_a_matrix_holds_for_vectors(scale):
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(8, 8)) * 0.3
    vectors = scale * rng.normal(size=(100, 8))
    for norm in candidates([matrix]):
        assert np.all(norm(vectors @ matrix.T) <= norm.of_matrix(matrix) * norm(vectors) * (1 + 1e-9))
        assert np.all(np.linalg.norm(vectors, axis=1) <= norm.factor * norm(vectors) * (1 + 1e-9))


def test_sigmoids_contract_by_the_root_of_the_discount_and_gaussians_only_in_another_norm():
    span, grid = bs.ReturnRange(0.0, 1.0), bs.ReturnRange(0.0, 1.0).grid()
    for discount in (0.8, 0.9, 0.95):
        (sigmoids,) = bs.fit_coefficients(bs.Sigmoid.from_range(span, 50), grid, [0.0], [discount]).matrices[:, 0]
        assert euclidean(50).of_matrix(sigmoids) == pytest.approx(discount**0.5, abs=0.01)
    (bumps,) = bs.fit_coefficients(bs.Gaussian.from_range(span, 50), grid, [0.0], [0.9]).matrices[:, 0]
    assert euclidean(50).of_matrix(bumps) > 1.04
    norm = lyapunov([bumps], 0.95)
    assert norm is not None
    assert norm.of_matrix(bumps) < 0.96
