"""Backups are the sums over outcomes they stand for, however they are computed; and several operators side by side."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental.sparse import BCOO

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from bellsketch.tabular.categorical import categorical_operator
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.operator import PaddedRows, affine_operator, iterate
from cases import bellman_system, fitted, model, return_range, tangled
from strategies import outcomes

MODULE = "bellsketch.tabular.operator"


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


def random_parts(mrp, m, seed=0):
    """A, c and the value at the end of each reward: any numbers will do."""
    rng = np.random.default_rng(seed)
    count = len(mrp.rewards)
    return rng.normal(size=(count, m, m)), rng.normal(size=(count, m)), rng.normal(size=(count, m))


def over_outcomes(mrp, matrices, offsets, endings, sketch):
    """Σ p (A_r U(x') + c_r), or p times the value at the end, outcome by outcome."""
    total, o = np.zeros_like(sketch), mrp.outcomes
    for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True):
        total[x] += p * (matrices[r] @ sketch[y] + offsets[r] if y >= 0 else endings[r])
    return total


def uneven(num_states=9):
    """One state leads everywhere, the others to one each."""
    transitions = np.eye(num_states, k=-1)
    transitions[0] = 1 / num_states
    return bs.MRP(transitions, np.arange(num_states) % 3, 0.9)


class TestOnTheHost:
    @settings(max_examples=60, deadline=None)
    @given(outcomes=outcomes(), m=st.integers(1, 3), states_per_block=st.integers(1, 4))
    def test_blocks_add_up(self, outcomes, m, states_per_block):
        mrp = bs.MRP.from_outcomes(*outcomes)
        parts = random_parts(mrp, m)
        sketch = np.random.default_rng(1).normal(size=(mrp.num_states, m))
        operator = affine_operator(mrp, *parts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{MODULE}.BLOCK_BYTES", 8 * m * states_per_block)
            found = operator(sketch)
        np.testing.assert_allclose(found, over_outcomes(mrp, *parts, sketch), atol=1e-12)

    @pytest.mark.parametrize("states_per_block", [1, 7, 64, 10_000])
    @pytest.mark.parametrize("make", [lambda: tangled(200), lambda: large_model("grid", 200, 0.9, 0), uneven])
    def test_threads_share_the_states(self, make, states_per_block, monkeypatch):
        mrp = make()
        parts = random_parts(mrp, 5)
        sketch = np.random.default_rng(1).normal(size=(mrp.num_states, 5))
        monkeypatch.setattr(f"{MODULE}.BLOCK_BYTES", 8 * 5 * states_per_block)
        monkeypatch.setattr(f"{MODULE}.num_processors", lambda: 4)
        operator = affine_operator(mrp, *parts)
        expected = over_outcomes(mrp, *parts, sketch)
        for _ in range(3):
            np.testing.assert_allclose(operator(sketch), expected, atol=1e-11)
        written_out = operator.dense() @ sketch.ravel() + operator.offset.ravel()
        np.testing.assert_allclose(written_out.reshape(sketch.shape), expected, atol=1e-11)

    def test_an_error_in_a_thread_is_not_lost(self, monkeypatch):
        mrp = tangled(20)
        operator = affine_operator(mrp, *random_parts(mrp, 3))

        def fail(rows):
            raise MemoryError("no room")

        monkeypatch.setattr(f"{MODULE}.BLOCK_BYTES", 1)
        monkeypatch.setitem(vars(operator), "products", (fail,) * len(operator.groups))
        with pytest.raises(MemoryError, match="no room"):
            operator(operator.offset)

    def test_the_linear_part_is_added_in_place(self, monkeypatch):
        mrp = tangled(20)
        operator = affine_operator(mrp, *random_parts(mrp, 3))
        sketch = np.random.default_rng(1).normal(size=(20, 3))
        linear = (operator.dense() @ sketch.ravel()).reshape(sketch.shape)
        for block_bytes in (1, 2**21):
            monkeypatch.setattr(f"{MODULE}.BLOCK_BYTES", block_bytes)
            total, given, offset = np.full((20, 3), 7.0), sketch.copy(), operator.offset.copy()
            assert operator.add_linear(given, total) is total
            np.testing.assert_allclose(total, 7.0 + linear, atol=1e-12)
            np.testing.assert_allclose(operator.linear(given), linear, atol=1e-12)
            np.testing.assert_array_equal(given, sketch)
            np.testing.assert_array_equal(operator.offset, offset)

    def test_the_operator_of_a_sketch(self):
        """With the matrices of a regression, φ(r) at the end, and the fitted constants elsewhere."""
        mrp = tangled(15)
        coefficients = fitted(mrp, 20)
        matrix, constant = bellman_system(mrp, coefficients)
        operator = bs.sketch_operator(mrp, coefficients)
        np.testing.assert_allclose(operator.dense(), matrix.toarray(), atol=1e-12)
        np.testing.assert_allclose(operator.offset, constant, atol=1e-7)  # the end is fitted, too

    def test_residuals_are_norms_of_what_a_backup_changes(self):
        mrp = tangled(20)
        parts = random_parts(mrp, 3)
        sketch = np.random.default_rng(1).normal(size=(20, 3))
        changes = over_outcomes(mrp, *parts, sketch) - sketch
        operator = affine_operator(mrp, *parts)
        np.testing.assert_allclose(operator.residual(sketch), np.linalg.norm(changes, axis=1), rtol=1e-12)
        single = operator.astype("float32").residual(sketch.astype(np.float32))
        assert single.dtype == np.float64
        np.testing.assert_allclose(single, np.linalg.norm(changes, axis=1), rtol=1e-5)

    def test_single_precision_keeps_the_coefficients(self):
        """They are large and cancel: rounded first, 12345.67 − 12344.87 would be wrong in the fourth digit."""
        mrp = bs.MRP(np.eye(2), [0.0, 0.0], 0.9)
        matrix = np.array([[12345.67, -12344.87], [0.1, 0.2]])
        single = affine_operator(mrp, matrix[None], np.zeros((1, 2)), np.zeros((1, 2))).astype("float32")
        assert (single.offset.dtype, single.mixing.dtype, single.matrices.dtype) == (np.float32, np.float32, np.float64)
        found = single(np.ones((2, 2), dtype=np.float32))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, [[0.8, 0.3], [0.8, 0.3]], rtol=2e-7)
        assert abs(np.float32(12345.67) - np.float32(12344.87) - 0.8) > 1e-5

    def test_single_precision_costs_few_digits(self):
        mrp = tangled(30)
        operator = bs.sketch_operator(mrp, fitted(mrp, 30))
        exact = fixed_point(operator).sketch
        assert 0 < np.abs(operator.astype("float32")(exact.astype(np.float32)) - exact).max() < 1e-5


def test_an_operator_without_any_pair():
    """Everything ends at once: U(x) = φ(R(x)), whatever U was."""
    mrp = bs.MRP(np.zeros((3, 3)), [1.0, 2.0, 1.0], 0.9, np.ones(3))
    parts = random_parts(mrp, 4)
    operator = affine_operator(mrp, *parts)
    sketch = np.random.default_rng(1).normal(size=(3, 4))
    expected = parts[2][[0, 1, 0]]
    np.testing.assert_array_equal(operator(sketch), expected)
    np.testing.assert_array_equal(operator.linear(sketch), 0.0)
    assert not operator.dense().any()
    assert operator.spectral_radius() == 0
    with jax.enable_x64(True):
        np.testing.assert_array_equal(operator.on_device()(sketch), expected)
    for solver in ("dense", "krylov", "iterate"):
        np.testing.assert_array_equal(fixed_point(operator, solver=solver).sketch, expected)


class TestOnTheDevice:
    @pytest.mark.parametrize(
        ("make", "kind"),
        [(lambda: large_model("grid", 40, 0.9, 0), PaddedRows), (lambda: tangled(40), BCOO), (uneven, BCOO)],
    )
    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_every_kind_of_mixing_is_the_hosts(self, make, kind, precision, monkeypatch):
        mrp = make()
        operator = affine_operator(mrp, *random_parts(mrp, 5)).astype(precision)
        sketch = np.random.default_rng(1).normal(size=operator.offset.shape).astype(precision)
        expected = over_outcomes(mrp, *random_parts(mrp, 5), sketch.astype(np.float64))
        for entries, expected_kind in ((4_000_000, np.ndarray), (1, kind)):
            monkeypatch.setattr(f"{MODULE}.DENSE_MIXING", entries)
            with jax.enable_x64(precision == "float64"):
                there = operator.on_device()
                assert isinstance(there.mixing, expected_kind)
                found = np.asarray(jax.jit(there.__call__)(sketch))
            assert found.dtype == precision
            np.testing.assert_allclose(found, expected, atol=1e-12 if precision == "float64" else 1e-4)

    @pytest.mark.parametrize("make", [lambda: large_model("grid", 9, 0.9, 0), uneven])
    def test_algorithms_are_in_double_precision_whatever_the_mixing(self, make, monkeypatch):
        mrp = make()
        coefficients = fitted(mrp, 12)
        monkeypatch.setattr(f"{MODULE}.DENSE_MIXING", 1)
        dp = bs.sketch_dp(mrp, coefficients, bs.Decoder(coefficients.features, np.linspace(-1, 1, 5)))
        found = bs.run(jax.random.key(0), dp, 500).state
        expected = fixed_point(bs.sketch_operator(mrp, coefficients)).sketch
        np.testing.assert_allclose(found, expected, atol=1e-10)


class TestStructure:
    @pytest.mark.parametrize("intercept", ["none", "free"])
    @pytest.mark.parametrize("m", [200, 300])
    def test_bins_are_sparse_and_give_the_same(self, m, intercept):
        mrp = tangled(2 * m)
        features = bs.Bins(np.linspace(-12.0, 12.0, m + 1))
        mu = bs.measures.Uniform(-12.0, 12.0)
        fit = bs.fit_coefficients(features, mu, mrp.rewards, (mrp.discount, 0.0), intercept=intercept)
        operator = bs.sketch_operator(mrp, fit)
        assert operator.structure.startswith("sparse, at most ")
        assert ("+ rank one" in operator.structure) == (intercept == "free")
        sketch = np.random.default_rng(1).dirichlet(np.ones(m), size=mrp.num_states)
        total, o = operator.offset.copy(), mrp.outcomes
        for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True):
            if y >= 0:
                total[x] += p * (operator.matrices[r] @ sketch[y])
        np.testing.assert_allclose(operator(sketch), total, atol=1e-9)
        np.testing.assert_allclose(operator.astype("float32")(sketch.astype(np.float32)), total, atol=1e-5)

    def test_few_features_are_dense(self):
        mrp = tangled(10)
        assert bs.sketch_operator(mrp, fitted(mrp, 20)).structure == "dense"

    def test_every_form_is_named_once(self):
        """The identity is sparse, a full matrix is not; and with few rows it does not matter."""
        mrp = bs.MRP(np.eye(900), np.repeat([0.0, 1.0, 2.0], 300), 0.9)
        full = np.random.default_rng(0).normal(size=(300, 300))
        operator = affine_operator(mrp, np.stack([np.eye(300), full, 2 * full]), np.zeros((3, 300)), np.zeros((3, 300)))
        assert operator.structure == "sparse, at most 1 of 300 entries per row; dense"
        few = bs.MRP(np.eye(3), [0.0, 1.0, 2.0], 0.9)
        assert affine_operator(few, operator.matrices, np.zeros((3, 300)), np.zeros((3, 300))).structure == "dense"
