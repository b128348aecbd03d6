"""Models of any size: every state pays something and moves to one of its neighbours."""

import numpy as np
import pytest

import bellsketch as bs
from bellsketch.experiments.large_models import GRAPHS, REWARDS, large_model, large_operator
from bellsketch.tabular.fixed_point import fixed_point


@pytest.mark.parametrize("graph", GRAPHS)
def test_rows_sum_to_one_and_rewards_come_with_states_or_with_steps(graph):
    mrp = large_model(graph, 400, 0.9, 0)
    assert (mrp.num_states, mrp.discount) == (400, 0.9)
    np.testing.assert_allclose(mrp.transitions.sum(axis=1), 1.0, rtol=1e-12)
    assert {r.mean for r in mrp.rewards} == set(REWARDS)
    assert (mrp.rewards_by_state is None) == (graph == "joint")
    assert not mrp.terminates


def test_a_line_and_its_ends():
    transitions = large_model("line", 5, 0.9, 0).transitions.toarray()
    expected = 0.5 * (np.eye(5, k=1) + np.eye(5, k=-1))
    expected[0, 0] = expected[4, 4] = 0.5
    np.testing.assert_array_equal(transitions, expected)


@pytest.mark.parametrize("num_states", [9, 12, 15])
def test_a_grid_is_square_and_its_neighbours_are_next_to_each_other(num_states):
    transitions = large_model("grid", num_states, 0.9, 0).transitions.toarray()
    expected = np.zeros((9, 9))
    for row, column in np.ndindex(3, 3):
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            to = min(max(row + down, 0), 2), min(max(column + right, 0), 2)
            expected[3 * row + column, 3 * to[0] + to[1]] += 0.25
    np.testing.assert_array_equal(transitions, expected)


def test_a_random_graph_has_four_neighbours_anywhere():
    transitions = large_model("random", 1_000, 0.9, 0).transitions
    assert 3.9 < transitions.nnz / 1_000 <= 4
    assert transitions.indices.min() < 10
    assert transitions.indices.max() > 990


def test_seeds():
    first, again, other = (large_model("random", 50, 0.9, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.transitions.toarray(), again.transitions.toarray())
    assert np.any(first.transitions.toarray() != other.transitions.toarray())
    assert np.any(first.mean_rewards != other.mean_rewards)


def test_an_unknown_graph():
    with pytest.raises(bs.InputError, match=r"unknown graph 'gird'\. Did you mean 'grid'"):
        large_model("gird", 10, 0.9, 0)


def test_the_operators_fixed_point_has_the_models_means():
    """Sigmoids are linear in the middle: the mean is some combination of them, found by least squares here."""
    mrp = large_model("grid", 49, 0.9, 0)
    operator = large_operator(mrp, 30)
    assert operator.offset.shape == (49, 30)
    sketch = fixed_point(operator).sketch
    design = np.column_stack([sketch, np.ones(49)])
    weights = np.linalg.lstsq(design, mrp.value, rcond=1e-6)[0]
    np.testing.assert_allclose(design @ weights, mrp.value, atol=1e-3)
