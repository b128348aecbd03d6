"""Approximate inverses are exact where their model of M is, and save iterations where it is not."""

import numpy as np
import pytest
import scipy.sparse as sp

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.operator import affine_operator
from bellsketch.tabular.preconditioners import Aggregation, Kronecker, choose_preconditioner, total_transitions
from cases import bellman_system, fitted, tangled

MODULE = "bellsketch.tabular.preconditioners"


def random_operator(mrp, m, size=0.9, seed=0):
    """Matrices with complex eigenvalues, that are no sketch's."""
    rng = np.random.default_rng(seed)
    matrices = rng.normal(size=(len(mrp.rewards), m, m))
    matrices *= size / np.linalg.norm(matrices, ord=2, axis=(1, 2))[:, None, None]
    return affine_operator(mrp, matrices, *rng.normal(size=(2, len(mrp.rewards), m)))


def one_reward(num_states, discount=0.9, graph="random"):
    return bs.MRP(large_model(graph, num_states, discount, 0).transitions, np.ones(num_states), discount)


def residual_of(operator, seed=1):
    return np.random.default_rng(seed).normal(size=operator.offset.shape)


def solved(matrix, residual):
    return np.linalg.solve(np.eye(residual.size) - matrix, residual.ravel()).reshape(residual.shape)


@pytest.mark.parametrize("m", [1, 3, 8, 19])
def test_kronecker_is_exact_for_one_reward(m, monkeypatch):
    """Up to single precision, with factors for all eigenvalues. 19 features are two blocks of rows and a bit."""
    monkeypatch.setattr(f"{MODULE}.NEGLIGIBLE", 0.0)
    mrp = one_reward(12)
    operator = random_operator(mrp, m)
    exact = solved(np.kron(mrp.transitions.toarray(), operator.matrices[0]), residual_of(operator))
    found = Kronecker(operator, total_transitions(operator))(residual_of(operator))
    np.testing.assert_allclose(found, exact, atol=2e-5 * np.abs(exact).max())


def test_kronecker_is_exact_for_a_sketch_up_to_what_it_neglects():
    """A residual of t² at most is left, with t = 0.2, in any direction that has no factors."""
    mrp = one_reward(12, 0.99, "line")
    operator = bs.sketch_operator(mrp, fitted(mrp, 20))
    right = residual_of(operator)
    found = Kronecker(operator, total_transitions(operator))(right)
    exact = solved(np.kron(mrp.transitions.toarray(), operator.matrices[0]), right)
    assert np.linalg.norm(found - exact) <= 0.1 * np.linalg.norm(exact)


def test_small_eigenvalues_take_two_terms_of_the_series():
    mrp = one_reward(12)
    operator = affine_operator(mrp, 0.19 * np.eye(2)[None], np.ones((1, 2)), np.ones((1, 2)))
    right = residual_of(operator)
    found = Kronecker(operator, total_transitions(operator))(right)
    np.testing.assert_allclose(found, right + 0.19 * mrp.transitions @ right, atol=1e-6)


def test_kronecker_averages_over_what_rewards_happen(monkeypatch):
    """State 0 pays 1 on two of its three ways on, state 1 never; an end does not count."""
    monkeypatch.setattr(f"{MODULE}.NEGLIGIBLE", 0.0)
    rows = [(0, 0.25, 1.0, 0), (0, 0.25, 1.0, 1), (0, 0.5, 0.0, 1), (1, 0.75, 0.0, 0), (1, 0.25, 5.0, None)]
    mrp = bs.MRP.from_outcomes(rows, 0.9)
    operator = random_operator(mrp, 4)
    share = {1.0: 0.5 / 1.75, 0.0: 1.25 / 1.75, 5.0: 0.0}
    average = sum(share[reward.mean] * a for reward, a in zip(mrp.rewards, operator.matrices, strict=True))
    right = residual_of(operator)
    exact = solved(np.kron([[0.25, 0.75], [0.75, 0.0]], average), right)
    np.testing.assert_allclose(Kronecker(operator, total_transitions(operator))(right), exact, atol=1e-5)


def test_total_transitions_are_the_models():
    mrp = tangled(12)
    found = total_transitions(random_operator(mrp, 2))
    np.testing.assert_allclose(found.toarray(), mrp.transitions.toarray(), atol=1e-15)


def coarse_part(operator, place, residual):
    """What aggregation adds to the residual itself."""
    return Aggregation(operator, place)(residual) - residual


def test_aggregation_is_exact_where_every_state_is_a_group():
    mrp = tangled(12)
    coefficients = fitted(mrp, 10)
    operator, (matrix, _) = bs.sketch_operator(mrp, coefficients), bellman_system(mrp, coefficients)
    exact = solved(matrix.toarray(), residual_of(operator))
    found = coarse_part(operator, np.random.default_rng(0).permutation(12), residual_of(operator))
    np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-8)


def test_aggregation_is_exact_on_what_all_states_share(monkeypatch):
    """With one reward and no end, (I − M) takes constants to constants: one group is enough for them."""
    monkeypatch.setattr(f"{MODULE}.COARSE_UNKNOWNS", 5)
    operator = random_operator(one_reward(30), 5)
    row = np.arange(5.0)
    exact = np.linalg.solve(np.eye(5) - operator.matrices[0], row)
    found = coarse_part(operator, np.arange(30), np.tile(row, (30, 1)))
    np.testing.assert_allclose(found, np.tile(exact, (30, 1)), rtol=1e-10)
    # Of another residual it sees only the mean.
    other = residual_of(operator)
    exact = np.linalg.solve(np.eye(5) - operator.matrices[0], other.mean(axis=0))
    np.testing.assert_allclose(coarse_part(operator, np.arange(30), other), np.tile(exact, (30, 1)), rtol=1e-9)


def test_aggregation_removes_errors_that_are_constant_on_groups(monkeypatch):
    """Even and odd states never meet; neighbours are those that are given places next to each other."""
    monkeypatch.setattr(f"{MODULE}.COARSE_UNKNOWNS", 2 * 3)
    mrp = bs.MRP(np.kron(np.full((4, 4), 0.25), np.eye(2)), np.tile([1.0, -1.0], 4), 0.9)
    operator = random_operator(mrp, 3)
    right = np.tile([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]], (4, 1))
    found = coarse_part(operator, np.array([0, 4, 1, 5, 2, 6, 3, 7]), right)
    np.testing.assert_allclose(found, solved(operator.dense(), right), rtol=1e-10, atol=1e-12)
    mixed_up = coarse_part(operator, np.arange(8), right)
    assert np.abs(mixed_up - found).max() > 0.1


@pytest.mark.parametrize("make", [lambda o: Kronecker(o, total_transitions(o)), lambda o: Aggregation(o, np.arange(8))])
def test_corrections_are_in_the_precision_of_the_residual(make):
    mrp = one_reward(8)
    double, single = random_operator(mrp, 4), random_operator(mrp, 4).astype("float32")
    right = residual_of(double)
    found = make(single)(right.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, make(double)(right), atol=1e-4)


class TestChoice:
    @pytest.fixture(autouse=True)
    def little_memory(self, monkeypatch):
        """Enough for a band, not for 400² entries."""
        monkeypatch.setattr(f"{MODULE}.FACTOR_BYTES", 4e5)

    @pytest.mark.parametrize(("graph", "name"), [("line", "Kronecker"), ("random", "aggregation")])
    def test_follows_the_graph(self, graph, name):
        operator = random_operator(large_model(graph, 400, 0.9, 0), 10)
        assert choose_preconditioner(operator)[0] == name

    def test_does_not_depend_on_how_states_are_numbered(self):
        line = large_model("line", 400, 0.9, 0).transitions.toarray()
        order = np.random.default_rng(0).permutation(400)
        shuffled = bs.MRP(sp.csr_array(line[np.ix_(order, order)]), np.ones(400), 0.9)
        assert choose_preconditioner(random_operator(shuffled, 10))[0] == "Kronecker"

    @pytest.mark.parametrize(("graph", "name"), [("line", "Kronecker"), ("random", "aggregation")])
    def test_saves_iterations_and_changes_nothing_else(self, graph, name, monkeypatch):
        mrp = large_model(graph, 400, 0.999, 0)
        operator = bs.sketch_operator(mrp, fitted(mrp, 10))
        with_it = fixed_point(operator, solver="krylov")
        assert with_it.method == f"BiCGSTAB, {name} preconditioner"
        monkeypatch.setattr("bellsketch.tabular.fixed_point.choose_preconditioner", lambda _: ("no", lambda r: r))
        without = fixed_point(operator, solver="krylov")
        assert with_it.iterations < without.iterations / 2
        np.testing.assert_allclose(with_it.sketch, without.sketch, atol=1e-6)
        assert with_it.residual <= 1e-10
