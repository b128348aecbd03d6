"""Policies against linear programs, value iteration and exact return distributions of every policy."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import bellsketch as bs

NUM_STATES, NUM_ACTIONS = 3, 2


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[list, float]:
    """Of three states and two actions; reward and successor depend on each other, and some outcomes end."""
    models = []
    for _ in range(NUM_ACTIONS):
        rows = []
        for x in range(NUM_STATES):
            weights = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
            successors = st.one_of(st.none(), st.integers(0, NUM_STATES - 1))
            rows += [
                (x, w / sum(weights), draw(st.sampled_from([-1.0, 0.0, 0.5, 2.0])), draw(successors)) for w in weights
            ]
        models.append(rows)
    discount = draw(st.sampled_from([0.5, 0.9]))
    return models, discount


def make(drawn: tuple[list, float]) -> bs.MDP:
    return bs.MDP([bs.MRP.from_outcomes(rows, drawn[1], NUM_STATES) for rows in drawn[0]])


def optimal_values(mdp: bs.MDP) -> np.ndarray:
    """min Σ v such that v ≥ r_a + γ P_a v, by SciPy's linear programming."""
    eye = np.eye(mdp.num_states)
    rows = np.concatenate([mdp.discount * action.transitions.toarray() - eye for action in mdp.actions])
    limits = -np.concatenate([action.mean_rewards for action in mdp.actions])
    found = linprog(np.ones(mdp.num_states), rows, limits, bounds=(None, None))
    assert found.success
    return found.x


@settings(max_examples=8, deadline=None)
@given(outcomes())
def test_best_in_the_mean(drawn):
    mdp = make(drawn)
    found = bs.policy_iteration(mdp, num_features=30)
    optimal, width = optimal_values(mdp), found.evaluator.return_range.width
    np.testing.assert_allclose(mdp.mrp(found.policy).value, optimal, atol=1e-3 * width)
    np.testing.assert_allclose(found.values, optimal, atol=1e-3 * width)
    best = np.stack([a.mean_rewards + mdp.discount * (a.transitions @ optimal) for a in mdp.actions], axis=1)
    np.testing.assert_allclose(found.action_values, best, atol=2e-3 * width)
    np.testing.assert_allclose(np.max(found.action_values, axis=1), found.values, atol=1e-3 * width)


@settings(max_examples=6, deadline=None)
@given(outcomes())
def test_pairs_are_one_action_and_then_the_policy(drawn):
    mdp = make(drawn)
    policy = np.array([1, 0, 1])
    value = mdp.mrp(policy).value
    expected = np.stack([a.mean_rewards + mdp.discount * (a.transitions @ value) for a in mdp.actions], axis=1)
    np.testing.assert_allclose(mdp.pairs(policy).value.reshape(NUM_STATES, NUM_ACTIONS), expected, atol=1e-9)


def frozen_lake():
    gymnasium = pytest.importorskip("gymnasium")
    return gymnasium.make("FrozenLake-v1").unwrapped.P


def test_frozen_lake_against_value_iteration_on_its_own_table():
    from bellsketch.tabular.models.gymnasium_table import read_gymnasium

    table = frozen_lake()
    value = np.zeros(16)
    for _ in range(500):
        backups = [[sum(p * (r + 0.9 * value[y] * (not end)) for p, y, r, end in table[x][a]) for a in range(4)]
                   for x in range(16)]  # fmt: skip
        value = np.max(backups, axis=1)
    model = read_gymnasium("FrozenLake-v1", 0.9).under("optimal")
    np.testing.assert_allclose(model.mrp.value, value, atol=1e-6)
    assert set(model.actions) <= {"0", "1", "2", "3"}


LOTTERY = bs.MDP(
    [
        bs.MRP.from_outcomes([(0, 1.0, 1.0, 1), (1, 1.0, 1.0, None)], 0.9),
        bs.MRP.from_outcomes([(0, 0.5, 3.0, 1), (0, 0.5, -0.5, 1), (1, 0.4, 3.0, None), (1, 0.6, 0.0, None)], 0.9),
    ]
)
"""Twice either 1 for sure, or more on average and perhaps nothing."""


def exact(mdp: bs.MDP, policy, f) -> np.ndarray:
    """E[f(G)] of every action followed by the policy, from the exact distributions."""
    return bs.ground_truth(mdp.pairs(policy)).distribution.expectation(f).reshape(mdp.num_states, -1)


@pytest.mark.parametrize(
    ("criterion", "f", "policy", "atol"),
    [
        ("mean", lambda g: g, [1, 1], 1e-4),
        ("utility:1", lambda g: 1 - np.exp(-g), [0, 0], 1e-3),
        (lambda g: -((g - 2.0) ** 2), lambda g: -((g - 2.0) ** 2), [0, 0], 1e-3),
        ("exceeds:2.2", lambda g: (g > 2.2).astype(float), [1, 1], 0.03),
        ("exceeds:0.95", lambda g: (g > 0.95).astype(float), [0, 0], 0.02),
    ],
)
def test_nobody_gains_by_deviating_once(criterion, f, policy, atol):
    found = bs.policy_iteration(LOTTERY, criterion)
    assert found.converged
    assert found.policy.tolist() == policy
    truth = exact(LOTTERY, found.policy, f)
    np.testing.assert_allclose(found.action_values, truth, atol=atol)
    assert np.all(truth[np.arange(2), found.policy] == truth.max(axis=1))


def test_cvar():
    found = bs.policy_iteration(LOTTERY, "cvar:0.3")
    truth = bs.ground_truth(LOTTERY.pairs(found.policy)).distribution.cvar(0.3).reshape(2, 2)
    np.testing.assert_allclose(found.action_values, truth, atol=0.06)
    assert found.policy.tolist() == truth.argmax(axis=1).tolist() == [0, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("aversion", [0.5, 5.0, -5.0])
def test_an_aversion_that_readouts_cannot_tell(aversion):
    """A policy it cannot tell from others is not returned as one from which it does not pay to deviate."""
    rows = [[(0, 1.0, -30.0, 1), (1, 1.0, 1.0, None)], [(0, 1.0, 30.0, 1), (1, 1.0, 2.0, None)]]
    mdp = bs.MDP([bs.MRP.from_outcomes(outcomes, 0.9) for outcomes in rows])
    with pytest.raises(
        bs.InputError, match=f"aversion={aversion:g} varies by more than .* pass at most utility:"
    ) as error:
        bs.policy_iteration(mdp, f"utility:{aversion}")
    largest = float(re.search("at most utility:([0-9.]+) ", str(error.value))[1])
    assert bs.policy_iteration(mdp, f"utility:{np.copysign(largest, aversion)}").policy.tolist() == [1, 1]


QUIT_OR_WAIT = bs.MDP(
    [
        bs.MRP.from_outcomes([(0, 0.5, 3.0, None), (0, 0.5, -3.0, None)], 0.5),
        bs.MRP.from_outcomes([(0, 0.1, -1.0, 0), (0, 0.9, -2.0, 0)], 0.5),
    ]
)
"""P(G > −2.75): who will quit tomorrow better waits today, who will wait for ever better quits today."""


def test_a_circle_is_noticed():
    def above(g):
        return (g > -2.75).astype(float)

    quits, waits = exact(QUIT_OR_WAIT, np.array([0]), above)[0], exact(QUIT_OR_WAIT, np.array([1]), above)[0]
    assert quits.argmax() == 1
    assert waits.argmax() == 0
    with pytest.warns(bs.BellsketchWarning, match="a circle of 2 policies"):
        found = bs.policy_iteration(QUIT_OR_WAIT, "exceeds:-2.75")
    assert not found.converged
    assert found.policy.tolist() == [0]  # 0.5 against nearly 0


def test_the_range_follows_the_policies():
    """From a policy with small returns to one whose returns are a hundred times larger, and back."""
    small, large = [(0, 1.0, 1.0, None)], [(0, 0.5, 90.0, None), (0, 0.5, 110.0, None)]
    mdp = bs.MDP([bs.MRP.from_outcomes(small, 0.9), bs.MRP.from_outcomes(large, 0.9)])
    found = bs.policy_iteration(mdp)
    assert found.evaluator.return_range.high == 110.0
    np.testing.assert_allclose(found.action_values, [[1.0, 100.0]], atol=0.1)
    given = bs.policy_iteration(mdp, return_range=(-10.0, 120.0), features="gaussian")
    assert given.evaluator.return_range == bs.ReturnRange(-10.0, 120.0)
    assert given.policy.tolist() == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_iterations": 0}, "max_iterations=0"),
        ({"max_iterations": 1}, "the policy still changes"),
        ({"criterion": "cvr:0.1"}, "Did you mean 'cvar'"),
        ({"policy": [0, 5]}, "expected 2 actions from 0 to 1"),
        (
            {"policy": [[0.5, 0.5], [0.5, 0.5]]},
            r"policy has shape \(2, 2\) and holds float64 numbers: expected 2 actions",
        ),
        ({"policy": [0.0, 1.0]}, "holds float64 numbers: expected 2 actions from 0 to 1"),
        ({"policy": [0, 1, 0]}, r"policy has shape \(3,\)"),
        ({"criterion": lambda g: np.log(g)}, "and returns may be that: pass an f that is finite"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(bs.InputError, match=message):
        bs.policy_iteration(LOTTERY, **arguments)
