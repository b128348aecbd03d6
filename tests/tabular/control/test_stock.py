"""The best policy with a memory, against all policies with a memory, one by one."""

import importlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bellsketch as bs
from cases import DAYS, week

module = importlib.import_module("bellsketch.tabular.control.best_with_stock")
DAY_REWARDS = (10.0, 30.0, 2.0)


class Histories:
    """Three days of work at a safe or at a risky job, and what every policy that remembers all makes of them."""

    def __init__(self, safe: float, high: float, low: float, chance: float, discount: float):
        rewards, chances, actions = (safe, high, low), (1.0, chance, 1 - chance), (0, 1, 1)
        nodes = [h for day in range(3) for h in itertools.product(range(3), repeat=day)]
        policies = np.array(list(itertools.product([0, 1], repeat=len(nodes))), dtype=np.int8)
        number = {history: i for i, history in enumerate(nodes)}
        paths = list(itertools.product(range(3), repeat=3))
        self.locations = np.array([sum(discount**t * rewards[k] for t, k in enumerate(path)) for path in paths])
        self.probabilities = np.zeros((len(policies), len(paths)))
        for i, path in enumerate(paths):
            taken = np.ones(len(policies), dtype=bool)
            for t, k in enumerate(path):
                taken &= policies[:, number[path[:t]]] == actions[k]
            self.probabilities[:, i] = taken * np.prod([chances[k] for k in path])
        self.mdp = week(3, safe, high, low, chance, discount)

    def best(self, f) -> float:
        return float((self.probabilities @ f(self.locations)).max())

    def best_cvar(self, level: float) -> float:
        return float(bs.AtomicDistribution(self.locations, self.probabilities).cvar(level).max())


numbers = st.integers(-20, 40).map(lambda n: n / 4)


@settings(max_examples=8, deadline=None)
@given(numbers, numbers, numbers, st.sampled_from([0.2, 0.5, 0.75]), st.sampled_from([0.5, 0.9]), numbers)
def test_better_than_all_that_remember_everything(safe, high, low, chance, discount, threshold):
    world = Histories(safe, high, low, chance, discount)
    threshold += 0.1  # which no return equals: whether rounding lifts one above it is no question for a test
    for f in (lambda g: g > threshold, lambda g: -np.exp(-0.3 * g), lambda g: -np.abs(g - threshold)):
        found = bs.best_with_stock(world.mdp, f, 0)
        np.testing.assert_allclose(found.value, world.best(f), rtol=1e-9, atol=1e-9)
    found, exact = bs.best_with_stock(world.mdp, "cvar:0.25", 0), world.best_cvar(0.25)
    np.testing.assert_allclose(found.value, exact, rtol=1e-9, atol=1e-9)
    assert found.value_error == 0


def needle(steps: int = 10, num_actions: int = 16, discount: float = 0.9) -> bs.MDP:
    """A chain in which one action of many pays 1: whoever acts at random hardly ever sees what can be had."""
    pays = [
        [(x, 1.0, float(a == 5), x + 1 if x + 1 < steps else None) for x in range(steps)] for a in range(num_actions)
    ]
    return bs.MDP([bs.MRP.from_outcomes(rows, discount) for rows in pays])


@pytest.mark.parametrize("criterion", ["cvar:0.1", "cvar:1", bs.risk.CVaR(0.1, 0.0, 0.5)])
def test_cvar_far_from_what_random_actions_bring(criterion):
    best = bs.best_with_stock(needle(), criterion, 0)
    np.testing.assert_allclose(best.value, (1 - 0.9**10) / 0.1, rtol=1e-12)
    np.testing.assert_allclose(best.achieved, best.value, atol=0.2)


def test_cvar_says_how_far_its_threshold_may_be_off(monkeypatch):
    world = Histories(1.0, 3.0, -0.5, 0.5, 0.9)
    exact = world.best_cvar(0.3)
    monkeypatch.setattr(module, "FIRST_THRESHOLDS", 5)
    monkeypatch.setattr(module, "MAX_THRESHOLDS", 5)
    few = bs.best_with_stock(world.mdp, "cvar:0.3", 0)
    assert few.value <= exact + 1e-12
    assert few.value_error > 0
    assert few.value + few.value_error >= exact - 1e-12
    monkeypatch.undo()
    monkeypatch.setattr(module, "LISTED_TOTALS", 20)
    grid = bs.best_with_stock(world.mdp, "cvar:0.3", 0)
    assert grid.value - 1e-12 <= exact <= grid.value + grid.value_error


def test_cvar_for_ever():
    """Half of the days would do for the mean; who fears the worst plays safe while much is at stake."""
    best = bs.best_with_stock(forever(), "cvar:0.1", 0)
    assert best.value_error < 1e-3
    assert abs(best.achieved - best.value) < 0.02


class TestWeek:
    """Eight days, a target of 90."""

    MDP = week(DAYS)
    TARGET = 90.0

    def chance(self, policy) -> float:
        """P(G > 90) of a policy without memory, by multiplying out all 3^8 paths."""
        values = {0.0: 1.0}
        for day, action in enumerate(policy):
            pays = {10.0: 1.0} if action == 0 else {30.0: 0.3, 2.0: 0.7}
            following: dict[float, float] = {}
            for total, p in values.items():
                for reward, q in pays.items():
                    key = round(total + 0.99**day * reward, 9)
                    following[key] = following.get(key, 0.0) + p * q
            values = following
        return sum(p for total, p in values.items() if total > self.TARGET)

    def test_four_answers(self):
        """The mean, the return to come, the best without memory and the best of all are four different things."""
        mean = bs.policy_iteration(self.MDP).policy
        greedy = bs.policy_iteration(self.MDP, "exceeds:90").policy
        forgetful = max(self.chance(policy) for policy in itertools.product([0, 1], repeat=DAYS))
        best = bs.best_with_stock(self.MDP, "exceeds:90", 0)
        assert mean.tolist() == [1] * DAYS
        assert self.chance(greedy) < self.chance(mean) < forgetful < best.value
        np.testing.assert_allclose(
            [self.chance(greedy), self.chance(mean), forgetful, best.value], [0.3, 0.448, 0.472, 0.611], atol=1e-3
        )

    def test_its_distribution_is_what_it_says(self):
        best = bs.best_with_stock(self.MDP, "exceeds:90", 0)
        assert abs(1 - best.distribution.cdf(self.TARGET) - best.value) < 0.03
        truth = bs.ground_truth(best.solution.mrp).distribution[0]
        np.testing.assert_allclose(1 - truth.cdf(self.TARGET), best.value, atol=1e-12)
        np.testing.assert_allclose(best.distribution.mean, truth.mean, atol=0.1)

    def test_ahead_it_plays_safe(self):
        best = bs.best_with_stock(self.MDP, "exceeds:90", 0)
        assert np.all(best.action_values.max(axis=1) == best.action_values[np.arange(len(best.policy)), best.policy])
        last = best.model.layer(DAYS - 1)  # what is left there is one choice
        risky = np.where(best.model.stock[last] + 0.99**7 * 30 > 90, 0.3, 0.0)
        risky[best.model.stock[last] + 0.99**7 * 2 > 90] = 1.0
        np.testing.assert_allclose(best.action_values[last, 1], risky)
        assert best.action(DAYS - 1, 85.0, DAYS - 1) == 0
        assert best.action(DAYS - 1, 65.0, DAYS - 1) == 1
        with pytest.raises(bs.InputError, match="cannot be reached"):
            best.action(3, 0.0, 0)

    def test_a_coarse_stock_costs_little(self):
        exact = bs.best_with_stock(self.MDP, "exceeds:90", 0)
        coarse = bs.best_with_stock(self.MDP, "exceeds:90", 0, resolution=0.5)
        assert coarse.model.state.size < exact.model.state.size / 5
        truth = bs.ground_truth(coarse.solution.mrp).distribution[0]
        np.testing.assert_allclose(1 - truth.cdf(self.TARGET), exact.value, atol=1e-9)

    def test_too_coarse_a_stock_is_found_out(self):
        coarse = bs.best_with_stock(self.MDP, "exceeds:90", 0, resolution=2.0)
        truth = bs.ground_truth(coarse.solution.mrp).distribution[0]
        assert coarse.value > 0.65
        assert 1 - truth.cdf(self.TARGET) < 0.5
        assert abs(coarse.achieved - (1 - truth.cdf(self.TARGET))) < 0.03

    def test_the_mean_needs_no_memory(self):
        best = bs.best_with_stock(self.MDP, "mean", 0)
        np.testing.assert_allclose(best.value, self.MDP.mrp(np.ones(DAYS, dtype=int)).value[0], atol=1e-9)


def forever(discount: float = 0.5) -> bs.MDP:
    """Each day 1 for sure, or 3 or −0.5, for ever."""
    sure, lottery = [(0, 1.0, 1.0, 0)], [(0, 0.5, 3.0, 0), (0, 0.5, -0.5, 0)]
    return bs.MDP([bs.MRP.from_outcomes(rows, discount) for rows in (sure, lottery)])


def test_for_ever():
    """Somebody averse to risk plays safe while much is at stake, and goes for the mean later."""
    best = bs.best_with_stock(forever(), "utility:1", 0)

    def utility(g):
        return 1 - np.exp(-g)

    stationary = [bs.ground_truth(forever().mrp(np.array([a]))).distribution.expectation(utility)[0] for a in (0, 1)]
    assert best.value > max(stationary) + 0.003
    # Days are independent, so that E[e^{−G}] is a product, and each day has its own least factor.
    stakes = 0.5 ** np.arange(60)
    factors = np.stack([np.exp(-stakes), (np.exp(-3 * stakes) + np.exp(0.5 * stakes)) / 2])
    np.testing.assert_allclose(best.value, 1 - factors.min(axis=0).prod(), atol=1e-5)
    layers = [best.policy[best.model.layer(t)] for t in range(best.model.horizon)]
    assert [set(layer.tolist()) for layer in layers] == [{a} for a in factors.argmin(axis=0)[: len(layers)].tolist()]
    np.testing.assert_allclose(best.solution.expectation(utility)[0], best.value, atol=2e-3)


def test_states_with_stock():
    model = bs.with_stock(week(3), 0)
    assert model.time.tolist() == [0, 1, 1, 1, *[2] * 9]
    assert not model.forgets
    np.testing.assert_allclose(model.stock[1:4], sorted(DAY_REWARDS))
    endless = bs.with_stock(forever(), 0, horizon=2)
    assert endless.forgets
    assert endless.time.tolist() == [0, 1, 1, 1, 2]
    policy = np.zeros(5, dtype=int)
    np.testing.assert_allclose(endless.mdp.mrp(policy).value, 2.0)  # rewards and the future are those of the model


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"start": 9}, bs.InputError, "start=9: the model has states 0 to 7"),
        ({"horizon": 0}, bs.InputError, "horizon=0"),
        ({"resolution": 0.0}, bs.InputError, "resolution=0"),
        ({"max_states": 50}, bs.AllocationError, "more than 50 states after 4 steps: pass a resolution"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        bs.with_stock(week(DAYS), **{"start": 0, **arguments})


def test_continuous_rewards():
    import scipy.stats

    mdp = bs.MDP([bs.MRP.from_outcomes([(0, 1.0, scipy.stats.norm(), None)], 0.9)])
    with pytest.raises(bs.InputError, match="split_rewards"):
        bs.best_with_stock(mdp, "mean", 0)
    split = bs.MDP([action.split_rewards("quantiles") for action in mdp.actions])
    assert abs(bs.best_with_stock(split, "exceeds:1", 0).value - scipy.stats.norm.sf(1)) < 0.01
