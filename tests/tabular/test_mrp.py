import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from cases import by_hand_moments, model, tangled

P = np.array([[0.5, 0.25], [0.0, 1.0]])
T = np.array([0.25, 0.0])


def test_dense_and_sparse_transitions_are_the_same_model():
    dense = bs.MRP(transitions=P, rewards=[1.0, 2.0], terminations=T, discount=0.9)
    sparse = bs.MRP(transitions=sp.csr_array(P), rewards=[1.0, 2.0], terminations=T, discount=0.9)
    for a, b in zip(vars(dense.outcomes).values(), vars(sparse.outcomes).values(), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(dense.transitions.toarray(), P)
    np.testing.assert_array_equal(dense.terminations, T)


def test_value_solves_the_bellman_equation():
    mrp = bs.MRP(P, [1.0, 2.0], 0.9, T)
    np.testing.assert_allclose(mrp.value, np.linalg.solve(np.eye(2) - 0.9 * P, [1.0, 2.0]))


@pytest.mark.parametrize("as_sparse", [False, True])
def test_rewards_by_transition(as_sparse):
    rewards = np.array([[1.0, 5.0], [0.0, 3.0]])
    mrp = bs.MRP(P, sp.csr_array(rewards) if as_sparse else rewards, 0.5, T, termination_rewards=[-4.0, 0.0])
    np.testing.assert_allclose(mrp.mean_rewards, [0.5 * 1 + 0.25 * 5 - 0.25 * 4, 3.0])
    assert mrp.rewards_by_state is None


def test_rewards_by_transition_may_be_random():
    mrp = bs.MRP(P, [[stats.norm(2, 1), 0.0], [0.0, stats.bernoulli(0.5)]], 0.5, T, termination_rewards=[1.0, 0.0])
    np.testing.assert_allclose(mrp.mean_rewards, [0.5 * 2 + 0.25, 0.5])


def test_bounds_and_variance_of_a_geometric_return():
    """Pay 1 and stop with probability ½: the return is Σ γ^k up to a geometric time."""
    mrp = bs.MRP([[0.5]], [1.0], 0.5, [0.5])
    np.testing.assert_allclose(np.ravel(mrp.return_bounds), [1.0, 2.0])
    k = np.arange(1, 200)
    returns, chances = (1 - 0.5**k) / 0.5, 0.5**k
    np.testing.assert_allclose(mrp.value, [chances @ returns])
    np.testing.assert_allclose(mrp.return_variance, [chances @ returns**2 - (chances @ returns) ** 2])


def test_splitting_rewards_keeps_the_model():
    mrp = model("sutton_barto18")
    split = mrp.split_rewards()
    assert all(r.is_deterministic for r in split.rewards)
    np.testing.assert_allclose(split.value, mrp.value)
    np.testing.assert_allclose(split.return_variance, mrp.return_variance)
    gaussian = model("tree_gaussian")
    assert gaussian.split_rewards() is gaussian
    quadrature = gaussian.split_rewards("quadrature")
    assert all(r.is_deterministic for r in quadrature.rewards)
    np.testing.assert_allclose(quadrature.return_variance, gaussian.return_variance)


class TestMDP:
    mdp = bs.MDP.from_arrays(
        [np.array([[0.0, 1.0], [0.0, 0.5]]), np.array([[1.0, 0.0], [1.0, 0.0]])],
        [[1.0, 0.0], [0.0, 2.0]],
        0.9,
        [[0.0, 0.5], [0.0, 0.0]],
    )

    def test_a_policy_mixes_actions(self):
        mrp = self.mdp.mrp([[0.25, 0.75], [1.0, 0.0]])
        np.testing.assert_allclose(mrp.transitions.toarray(), [[0.75, 0.25], [0.0, 0.5]])
        np.testing.assert_allclose(mrp.mean_rewards, [0.25, 0.0])
        assert mrp.rewards_by_state is None  # reward and successor now depend on each other

    def test_a_deterministic_policy(self):
        mrp = self.mdp.mrp(np.array([0, 1]))
        np.testing.assert_allclose(mrp.transitions.toarray(), [[0.0, 1.0], [1.0, 0.0]])
        np.testing.assert_allclose(mrp.mean_rewards, [1.0, 2.0])

    @pytest.mark.parametrize("policy", [[[0.5, 0.4], [1, 0]], [[1.5, -0.5], [1, 0]], [[1.0], [1.0]], np.array([0, 2])])
    def test_bad_policies(self, policy):
        with pytest.raises(bs.InputError, match="policy"):
            self.mdp.mrp(policy)

    def test_actions_must_match(self):
        with pytest.raises(bs.InputError, match="action 1 has 1 states"):
            bs.MDP([bs.MRP(np.eye(2), [0, 0], 0.9), bs.MRP(np.eye(1), [0], 0.9)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transitions": [[0.5, 0.5], [0.2, 0.7]]}, r"state 1 sum to 0\.9, not 1.*terminations"),
        ({"transitions": [[1.5, -0.5], [0, 1]]}, "state 0 has a negative probability, -0.5"),
        ({"transitions": [[np.nan, 1.0], [0, 1]]}, "state 0 has a probability that is not finite"),
        ({"transitions": [[np.inf, 1.0], [0, 1]]}, "state 0 has a probability that is not finite"),
        ({"transitions": [[1.0, 0.0]]}, r"square matrix, got shape \(1, 2\)"),
        ({"terminations": [0.1]}, r"terminations has shape \(1,\)"),
        ({"terminations": [0.1, 0.0]}, r"state 0 sum to 1\.1"),
        ({"discount": 1.0}, r"discount=1\.0: must lie in \[0, 1\)"),
        ({"discount": -0.1}, "discount=-0.1"),
        ({"discount": np.nan}, "discount=nan"),
        ({"rewards": [1.0]}, "got 1 entries or rows for 2 states"),
        ({"rewards": [1.0, np.nan]}, "rewards must be finite"),
        ({"rewards": [1.0, "x"]}, "reward 'x'"),
        ({"rewards": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]}, r"got \(2, 3\)"),
        (
            {"transitions": [[0.5, 0.0], [0, 1]], "terminations": [0.5, 0], "rewards": np.eye(2)},
            "termination_rewards: needed",
        ),
        ({"termination_rewards": [1.0, 1.0]}, "termination_rewards: leave it out"),
    ],
)
def test_bad_models(arguments, message):
    good = {"transitions": [[0.5, 0.5], [0.0, 1.0]], "rewards": [0.0, 1.0], "discount": 0.9}
    with pytest.raises(bs.InputError, match=message):
        bs.MRP(**(good | arguments))


def test_bad_outcomes():
    with pytest.raises(bs.InputError, match="states must be numbered 0 to 0"):
        bs.MRP.from_outcomes([(0, 1.0, 0.0, 5)], 0.9, num_states=1)
    with pytest.raises(bs.InputError, match="state 1 sum to 0, not 1"):
        bs.MRP.from_outcomes([(0, 1.0, 0.0, 1)], 0.9)
    for row in [(0, 1.0, 0.0, -1), (0.7, 1.0, 0.0, None), (0, 1.0, 0.0, 0.5)]:
        with pytest.raises(bs.InputError, match="whole numbers from 0; a next state of None terminates"):
            bs.MRP.from_outcomes(iter([row]), 0.9)
    with pytest.raises(bs.InputError, match="there are none"):
        bs.MRP.from_outcomes([], 0.9)


class TestLargeModels:
    """Whose expectations are found by iteration."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda: tangled(40, 0.95),
            lambda: large_model("line", 60, 0.999, 0),
            lambda: large_model("random", 60, 0.9999, 0),
            lambda: bs.MRP(np.zeros((3, 3)), [1.0, 2.0, 1.0], 0.9, np.ones(3)),
            lambda: bs.MRP(P, [0.0, 0.0], 0.9, T),
        ],
    )
    def test_value_and_variance_are_those_of_small_ones(self, make, monkeypatch):
        monkeypatch.setattr("bellsketch.tabular.mrp.DIRECT_STATES", 1)
        mrp = make()
        monkeypatch.setattr("bellsketch.tabular.mrp.spsolve", None)  # not needed
        moments = by_hand_moments(mrp, 2)
        np.testing.assert_allclose(mrp.value, moments[:, 1], rtol=1e-9, atol=1e-11)
        largest = max(moments[:, 2].max(), 1.0)  # digits cancel
        variance = moments[:, 2] - moments[:, 1] ** 2
        np.testing.assert_allclose(mrp.return_variance, variance, rtol=1e-9, atol=1e-9 * largest)

    def test_where_iteration_fails_the_system_is_factored(self, monkeypatch):
        monkeypatch.setattr("bellsketch.tabular.mrp.DIRECT_STATES", 1)
        monkeypatch.setattr(
            "bellsketch.tabular.mrp.bicgstab", lambda system, right, **_: (np.full(right.shape, 7.0), 1)
        )
        mrp = tangled(40, 0.95)
        np.testing.assert_allclose(mrp.value, by_hand_moments(mrp, 1)[:, 1], rtol=1e-10)
