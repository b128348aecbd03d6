"""Several affine operators side by side, and what happens where one of them diverges."""

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.tabular.categorical import categorical_operator
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.operator import iterate
from cases import model, return_range


def sketch_operators(name, slope_factors, num_features=10):
    """One operator for each slope, as in the sweeps."""
    mrp, span = model(name), return_range(name)
    maps = [bs.Sigmoid.from_range(span, num_features, slope_factor=factor) for factor in slope_factors]
    fits = [bs.fit_coefficients(phi, span.grid(1_000), mrp.rewards, (mrp.discount, 0.0)) for phi in maps]
    starts = np.stack([np.tile(phi(0.0), (mrp.num_states, 1)) for phi in maps])
    return [bs.sketch_operator(mrp, fit) for fit in fits], starts


def by_hand(operator, start, num_iterations):
    """U ← M U + b with the operator written out as one matrix, in NumPy."""
    u, matrix = start.ravel(), operator.dense()
    with np.errstate(all="ignore"):
        for _ in range(num_iterations):
            u = matrix @ u + operator.offset.ravel()
    return u.reshape(start.shape)


class TestIterate:
    @pytest.mark.parametrize("name", ["directed_chain", "loopy_fork", "tree_gaussian"])
    def test_equals_a_loop_over_each(self, name):
        operators, starts = sketch_operators(name, (0.3, 1.0, 2.0))
        together = iterate(operators, starts, 30)
        for operator, start, found in zip(operators, starts, together, strict=True):
            np.testing.assert_allclose(found, by_hand(operator, start, 30), atol=1e-9)
        assert np.abs(together[0] - together[1]).max() > 1e-3

    def test_equals_it_also_with_sparse_mixing(self, monkeypatch):
        operators, starts = sketch_operators("loopy_fork", (0.3, 1.0))
        dense = iterate(operators, starts, 30)
        monkeypatch.setattr("bellsketch.tabular.operator.DENSE_MIXING", 1)
        np.testing.assert_allclose(iterate(operators, starts, 30), dense, atol=1e-12)

    def test_precision_is_the_librarys_business(self):
        operators, starts = sketch_operators("directed_chain", (1.0,))
        assert not jax.config.jax_enable_x64
        # In float32 a step would not be the same to this many digits.
        jax.jit(lambda u: u @ operators[0].matrices[0])(jax.numpy.ones(10))
        found = iterate(operators, starts.astype(np.float32), 1)
        assert found.dtype == np.float64
        expected = by_hand(operators[0], starts[0].astype(np.float32).astype(np.float64), 1)
        np.testing.assert_allclose(found[0], expected, rtol=1e-12)
        assert not jax.config.jax_enable_x64

    def test_no_iterations_change_nothing(self):
        operators, starts = sketch_operators("tree", (1.0,))
        np.testing.assert_array_equal(iterate(operators, starts, 0), starts)

    def test_divergence_is_no_error_and_spares_the_others(self):
        operators, starts = sketch_operators("cycle", (1.0, 0.3))
        growing, fine = operators
        assert growing.spectral_radius() > 1 > fine.spectral_radius()
        found = iterate(operators, starts, 20_000)
        assert not np.abs(found[0]).max() < 1e6
        np.testing.assert_allclose(found[1], fixed_point(fine).sketch, atol=1e-8)


class TestRunPastDivergence:
    @pytest.fixture
    def dp(self):
        """Ten features are too few for the cycle."""
        solution = bs.solve(model("cycle"), num_features=10, return_range=return_range("cycle"))
        assert solution.operator.spectral_radius() > 1
        return bs.sketch_dp(model("cycle"), solution.coefficients, solution.decoder)

    @pytest.mark.parametrize("steps", [200, 100_000])
    def test_the_state_is_huge_or_not_finite(self, dp, steps):
        with pytest.raises(bs.DivergenceError):
            bs.run(jax.random.key(0), dp, steps)
        result = bs.run(jax.random.key(0), dp, steps, stop_on_divergence=False)
        assert result.change.shape == (steps,)
        assert not np.abs(result.state).max() < 1e6


@pytest.mark.parametrize("name", ["random_chain", "loopy_fork", "sutton_barto18", "tree_gaussian"])
def test_the_categorical_operator_leads_to_its_fixed_point(name):
    mrp = model(name)
    least, greatest = mrp.return_bounds
    supports = [np.linspace(least.min(), greatest.max(), 21), np.linspace(least.min() - 1, greatest.max() + 0.5, 21)]
    operators = [categorical_operator(mrp, support) for support in supports]
    found = iterate(operators, np.full((2, mrp.num_states, 21), 1 / 21), 1_000)
    for support, probabilities in zip(supports, found, strict=True):
        np.testing.assert_allclose(probabilities, bs.categorical_fixed_point(mrp, support).probabilities, atol=1e-10)
