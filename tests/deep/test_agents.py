"""Losses against hand calculations, with a table in place of a network."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import bellsketch as bs
from bellsketch.core.backups import RewardSpan, reward_set
from bellsketch.core.risk import CVaR, Exceeds, ExponentialUtility, Mean
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN, mean_criterion, quantile_huber
from bellsketch.deep.agents.sketch_dqn import SketchDQN
from bellsketch.deep.transition import Transition

KEY = jax.random.key(0)
SPAN = bs.ReturnRange(-2.0, 2.0)
FEATURES = bs.Sigmoid.from_range(SPAN, 12)
COEFFICIENTS = bs.fit_coefficients(FEATURES, SPAN.grid(2_000), [-1.0, 0.0, 1.0], [0.9, 0.0])


def table(seed, num_outputs, num_states=3, num_actions=2):
    """A network whose observations are state numbers: outputs [a, k] looked up."""
    values = jnp.asarray(np.random.default_rng(seed).normal(size=(num_states, num_actions, num_outputs)), jnp.float32)
    return values, lambda x: values[x]


def step(reward=1.0, discount=0.9):
    return Transition(0, 1, jnp.float32(reward), jnp.float32(discount), 2)


def sketch_dqn(criterion=lambda g: g[:, None], **options):
    grid = SPAN.grid(2_000)
    count = criterion(np.zeros(1)).shape[1]
    readouts = [bs.fit_readout(FEATURES, lambda g, j=j: criterion(g)[:, j], grid) for j in range(count)]
    weights = np.stack([r.weights for r in readouts]).astype(np.float32)
    offsets = np.array([r.offset for r in readouts], np.float32)
    return SketchDQN(reward_set(COEFFICIENTS, 0.9), weights, offsets, **options)


AGENTS = {"dqn": DQN(), "c51": C51(-2.0, 2.0, 7), "qr": QRDQN(5), "sketch": sketch_dqn()}


@pytest.mark.parametrize("discount", [0.9, 0.0])
def test_dqn(discount):
    online, network = table(0, 1)
    kept, target = table(1, 1)
    error = float(online[0, 1, 0]) - (1.0 + discount * float(kept[2, :, 0].max()))
    expected = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
    assert float(DQN().loss(KEY, network, target, step(discount=discount))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("discount", [0.9, 0.0])
def test_c51(discount):
    agent = C51(-2.0, 2.0, 5)  # atoms −2, −1, 0, 1, 2
    online, network = table(0, 5)
    kept, target = table(1, 5)
    p = scipy.special.softmax(np.asarray(kept[2], np.float64), axis=-1)
    p = p[np.argmax(p @ agent.support)]
    goal = np.zeros(5)
    for atom, mass in zip(agent.support, p, strict=True):
        place = np.clip(1.0 + discount * atom, -2, 2) + 2  # in steps of the support
        low = min(int(np.floor(place)), 3)
        goal[low] += mass * (low + 1 - place)
        goal[low + 1] += mass * (place - low)
    expected = -goal @ np.asarray(jax.nn.log_softmax(online[0, 1]))
    assert float(agent.loss(KEY, network, target, step(discount=discount))) == pytest.approx(expected, rel=1e-4)


def test_quantile_huber():
    quantiles, levels, goals = np.array([-0.5, 0.2, 3.0]), np.array([1, 3, 5]) / 6, np.array([0.0, 1.9])
    expected = 0.0
    for theta, tau in zip(quantiles, levels, strict=True):
        for goal in goals:
            gap = goal - theta
            huber = gap**2 / 2 if abs(gap) <= 1 else abs(gap) - 0.5
            expected += abs(tau - (gap < 0)) * huber / len(goals)
    found = quantile_huber(jnp.asarray(quantiles), levels, jnp.asarray(goals))
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("discount", [0.9, 0.0])
@pytest.mark.parametrize("reward", [-1.0, 0.0, 1.0])
def test_sketch_dqn(reward, discount):
    agent = sketch_dqn()
    online, network = table(0, 12)
    kept, target = table(1, 12)
    following = scipy.special.expit(np.asarray(kept[2], np.float64))
    value = bs.fit_readout(FEATURES, lambda g: g, SPAN.grid(2_000))
    chosen = following[np.argmax(value(following))]
    matrix, offset = COEFFICIENTS.at(reward, discount)
    expected = np.sum((scipy.special.expit(np.asarray(online[0, 1])) - (matrix @ chosen + offset)) ** 2)
    found = agent.loss(KEY, network, target, step(reward, discount))
    assert float(found) == pytest.approx(expected, rel=1e-3)
    if discount == 0:
        np.testing.assert_allclose(agent.backup(reward, 0.0, chosen), FEATURES(reward), atol=1e-6)


def test_an_unlisted_reward_never_becomes_another():
    _, network = table(0, 12)
    assert np.isnan(sketch_dqn().loss(KEY, network, network, step(0.5)))
    assert np.isnan(sketch_dqn().loss(KEY, network, network, step(0.5, 0.0)))


def test_an_interval_of_rewards():
    within = bs.interpolate_coefficients(FEATURES, bs.measures.Uniform(-2.8, 2.8), (-1.0, 1.0), 0.9)
    backup, following = RewardSpan(within), jnp.asarray(FEATURES(0.3), jnp.float32)
    matrix, offset = (np.asarray(x) for x in within.at(0.5))
    np.testing.assert_allclose(backup(0.5, 0.9, following), matrix @ FEATURES(0.3) + offset, atol=1e-4)
    np.testing.assert_allclose(backup(0.5, 0.0, following), FEATURES(0.5), atol=1e-6)
    assert np.isnan(backup(1.5, 0.9, following)).all()
    assert np.isnan(backup(1.5, 0.0, following)).all()


@pytest.mark.parametrize("name", AGENTS)
def test_double_q_lets_the_online_network_choose(name):
    agent = AGENTS[name]
    num = agent.num_outputs()
    _, network = table(3, num)
    kept, target = table(4, num)
    swapped = kept.at[2].set(kept[2, ::-1])  # the target network prefers the other action
    plain = [float(agent.loss(KEY, network, t, step())) for t in (target, lambda x: swapped[x])]
    assert plain[0] == pytest.approx(plain[1], rel=1e-6)
    double = dataclasses.replace(agent, double=True)
    both = [float(double.loss(KEY, network, t, step())) for t in (target, lambda x: swapped[x])]
    assert both[0] != pytest.approx(both[1], rel=1e-6)


def test_cvar_of_samples_is_the_mean_of_the_worst():
    samples = np.random.default_rng(0).normal(size=(3, 1_000))
    found = mean_criterion(CVaR(0.1, -5.0, 5.0), jnp.asarray(samples))
    expected = np.sort(samples, axis=1)[:, :100].mean(axis=1)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_criteria():
    g = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(Mean()(g)[:, 0], g)
    np.testing.assert_allclose(Exceeds(0.5)(g)[:, 0], [0, 0, 1])
    np.testing.assert_allclose(ExponentialUtility(2.0)(g)[:, 0], (1 - np.exp(-2 * g)) / 2)
    for bad in (lambda: CVaR(0.0, 0.0, 1.0), lambda: CVaR(0.5, 1.0, 1.0), lambda: ExponentialUtility(0.0)):
        with pytest.raises(bs.InputError):
            bad()


def test_different_seeds_give_different_networks():
    for agent in (*AGENTS.values(), IQN()):
        first, second = (agent.network(jax.random.key(seed), (10, 5), 3) for seed in (0, 1))
        leaves = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
        assert all(not np.array_equal(a, b) for a, b in leaves)
