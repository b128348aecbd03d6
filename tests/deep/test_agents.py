"""Losses against hand calculations, with a table in place of a network."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import bellsketch as bs
from bellsketch.core.backups import RewardSet, RewardSpan, reward_set
from bellsketch.core.imputation import Decoder
from bellsketch.core.risk import MEAN, CVaR, Exceeds, ExponentialUtility, Mean
from bellsketch.deep.agents.building import build_sketch_dqn
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN, mean_criterion, quantile_huber
from bellsketch.deep.agents.reading import Reading
from bellsketch.deep.agents.sketch_dqn import SketchDQN
from bellsketch.deep.transition import Transition
from bellsketch.tabular import temporal_difference
from bellsketch.tabular.sketch import sketch_td
from losses import loss_of

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
    return SketchDQN(reward_set(COEFFICIENTS, 0.9), Reading(weights, offsets), **options)


AGENTS = {"dqn": DQN(), "c51": C51(-2.0, 2.0, 7), "qr": QRDQN(5), "sketch": sketch_dqn()}


def losses(agent, network, target, *transitions):
    """Of each transition. Compiled as a whole, which takes less time than operation by operation."""
    batch = jax.tree.map(lambda *rows: jnp.stack(rows), *transitions)
    return np.asarray(jax.jit(jax.vmap(lambda t: loss_of(KEY, agent, network, target, t)))(batch))


def fixed(now, following):
    """A network with outputs [a, k] given at x = 0 and at x' = 2."""
    rows = jnp.asarray([now, now, following], jnp.float32)
    return lambda x: rows[x]


def test_losses_by_hand():
    """Two actions; action 1 is taken, and of the target network's action 0 is the better one."""
    half = step(0.5, 0.5)
    online, target = fixed([[9], [0.3]], [[0], [0]]), fixed([[0], [0]], [[0.4], [-5]])
    dqn = losses(DQN(), online, target, half, step(3.0, 0.5), step(0.5, 0.0))
    np.testing.assert_allclose(dqn, [0.4**2 / 2, 2.9 - 0.5, 0.2**2 / 2], rtol=1e-5)
    assert losses(DQN(2.0), online, target, step(3.0, 0.5)) == pytest.approx(2 * 2.9 - 2**2 / 2, rel=1e-5)

    # Atoms −1, 0, 1 with (0.2, 0.3, 0.5) move to 0, 1/2, 1, and are shared out as (0, 0.35, 0.65).
    online = fixed(np.log([[1 / 3] * 3, [0.1, 0.6, 0.3]]), np.zeros((2, 3)))
    target = fixed(np.zeros((2, 3)), np.log([[0.2, 0.3, 0.5], [0.8, 0.1, 0.1]]))
    c51 = losses(C51(-1.0, 1.0, 3), online, target, half, step(5.0, 0.5), step(0.5, 0.0))
    between, beyond, ended = -0.35 * np.log(0.6) - 0.65 * np.log(0.3), -np.log(0.3), -np.log(0.18) / 2
    np.testing.assert_allclose(c51, [between, beyond, ended], rtol=1e-5)

    # Levels 1/4 and 3/4; quantiles 0 and 1; goals 0 and 2.5. Errors of 0: 0, 2.5; of 1: −1, 1.5.
    online, target = fixed([[0, 0], [0, 1]], np.zeros((2, 2))), fixed(np.zeros((2, 2)), [[-2, 3], [-9, 9]])
    quantile = (0 + 0.25 * 2.0) / 2 + (0.25 * 0.5 + 0.75 * 1.0) / 2
    assert losses(QRDQN(2), online, target, step(1.0, 0.5)) == pytest.approx(quantile)

    # All quantiles are 0.3 and all goals 0.7: the loss is 0.08 times the sum of the levels, which are random.
    def flat(value):
        return lambda x, levels: jnp.full((2, len(levels)), value)

    _, key_error = jax.random.split(KEY)
    levels = jax.random.uniform(key_error, (3,))
    assert losses(IQN(3, 4), flat(0.3), flat(0.4), half) == pytest.approx(0.08 * float(levels.sum()), rel=1e-5)

    # A (0.4, 0.6) + c = (0.36, 0.42), against a sketch of (1/2, 1/2).
    matrices = np.array([[[0.5, 0.1], [0.0, 0.2]]], np.float32)
    backup = RewardSet(bs.Sigmoid([0, 1]), np.ones(1, np.float32), matrices, np.array([[0.1, 0.3]], np.float32), 0.9)
    agent = SketchDQN(backup, Reading(np.ones((1, 2), np.float32), np.zeros(1, np.float32)))
    logits = scipy.special.logit([[0.4, 0.6], [0.1, 0.1]])
    online, target = fixed(np.zeros((2, 2)), np.zeros((2, 2))), fixed(np.zeros((2, 2)), logits)
    ended = (scipy.special.expit(1.0) - 0.5) ** 2  # φ(1) = (σ(1), σ(0)), and σ(0) = 1/2
    sketch = losses(agent, online, target, step(1.0, 0.9), step(1.0, 0.0))
    np.testing.assert_allclose(sketch, [0.14**2 + 0.08**2, ended], rtol=1e-4)


@pytest.mark.parametrize("discount", [0.9, 0.0])
def test_dqn(discount):
    online, network = table(0, 1)
    kept, target = table(1, 1)
    error = float(online[0, 1, 0]) - (1.0 + discount * float(kept[2, :, 0].max()))
    expected = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
    assert losses(DQN(), network, target, step(discount=discount)) == pytest.approx(expected, rel=1e-5)


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
    assert losses(agent, network, target, step(discount=discount)) == pytest.approx(expected, rel=1e-4)


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


def test_the_derivative_of_quantile_huber_is_that_of_its_value():
    rng = np.random.default_rng(0)
    quantiles, goals = 2 * rng.normal(size=7), 2 * rng.normal(size=5)
    levels = (np.arange(7) + 0.5) / 7

    def value(theta):
        error = goals[None, :] - theta[:, None]
        huber = np.where(np.abs(error) <= 1, error**2 / 2, np.abs(error) - 0.5)
        return float((np.abs(levels[:, None] - (error < 0)) * huber).mean(axis=1).sum())

    found = jax.grad(quantile_huber)(jnp.asarray(quantiles, jnp.float32), levels, jnp.asarray(goals, jnp.float32))
    wanted = [(value(quantiles + 1e-6 * e) - value(quantiles - 1e-6 * e)) / 2e-6 for e in np.eye(7)]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


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
    assert losses(agent, network, target, step(reward, discount)) == pytest.approx(expected, rel=1e-3)
    if discount == 0:
        np.testing.assert_allclose(agent.backup(reward, 0.0, chosen), FEATURES(reward), atol=1e-6)


@pytest.mark.parametrize("reward", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("discount", [0.9, 0.0])
def test_the_target_is_that_of_sketch_td(reward, discount):
    rows = [(0, 0.5, -1.0, 0), (0, 0.25, 0.0, 0), (0, 0.25, 1.0, None)]
    mrp, sketches = bs.MRP.from_outcomes(rows, 0.9), jnp.asarray(FEATURES(np.array([[0.2], [-0.7]]))[:, 0], jnp.float32)
    learner = sketch_td(mrp, COEFFICIENTS, Decoder(FEATURES, SPAN.points(5)), 1.0)
    index = jnp.array([[r.mean for r in mrp.split_rewards("quadrature").rewards].index(reward)])
    drawn = temporal_difference.Transition(
        sketches[:1], sketches[1:], jnp.array([reward]), index, jnp.array([float(discount > 0)])
    )
    expected = learner.update(drawn, jnp.ones((1, 1)))[0]
    np.testing.assert_allclose(sketch_dqn().backup(reward, discount, sketches[1]), expected, atol=2e-5)


def test_an_unlisted_reward_never_becomes_another():
    _, network = table(0, 12)
    assert np.isnan(losses(sketch_dqn(), network, network, step(0.5), step(0.5, 0.0))).all()


def test_unknown_rewards():
    rewards, discounts = np.array([-1.0, 0.5, 1.0, 1.0, 1.0]), np.array([0.9, 0.9, 0.0, 0.9, 0.81])
    unknown = sketch_dqn().unknown_rewards(rewards, discounts)
    np.testing.assert_array_equal(unknown, [False, True, False, False, True])
    _, network = table(0, 12)
    found = losses(sketch_dqn(), network, network, *map(step, rewards, discounts))
    np.testing.assert_array_equal(np.isnan(found), unknown)


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
    num = agent.network(KEY, (1,), 1).shape[1]
    _, network = table(3, num)
    kept, target = table(4, num)
    swapped = kept.at[2].set(kept[2, ::-1])  # the target network prefers the other action
    plain = [losses(agent, network, t, step()) for t in (target, lambda x: swapped[x])]
    assert plain[0] == pytest.approx(plain[1], rel=1e-6)
    double = dataclasses.replace(agent, double=True)
    both = [losses(double, network, t, step()) for t in (target, lambda x: swapped[x])]
    assert both[0] != pytest.approx(both[1], rel=1e-6)


def test_cvar_of_samples_is_the_mean_of_the_worst():
    samples = np.random.default_rng(0).normal(size=(3, 1_000))
    found = mean_criterion(CVaR(0.1, -5.0, 5.0), jnp.asarray(samples))
    expected = np.sort(samples, axis=1)[:, :100].mean(axis=1)
    np.testing.assert_allclose(found, expected, atol=0.01)


@pytest.mark.parametrize("level", [0.01, 0.1, 0.5, 1.0])
def test_cvar_of_random_levels_has_no_bias(level):
    """Of normal returns, for which it is mean − sd · density(quantile) / level."""
    means, deviations = jnp.array([0.0, 1.0]), jnp.array([1.0, 0.5])
    agent = IQN(criterion=CVaR(level, -5.0, 5.0))

    def network(_, levels):
        return means[:, None] + deviations[:, None] * jax.scipy.stats.norm.ppf(levels)

    keys = jax.random.split(KEY, 4_000)
    found = np.asarray(jax.jit(jax.vmap(lambda key: agent.action_values(key, network, None)))(keys), float)
    tail = scipy.stats.norm.pdf(scipy.stats.norm.ppf(level)) / level
    standard_error = found.std(axis=0) / np.sqrt(len(keys))
    assert np.all(np.abs(found.mean(axis=0) - (means - tail * deviations)) < 4 * standard_error)
    assert np.all(found.std(axis=0) < 0.2)  # as good as 32 draws


def test_criteria():
    g = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(Mean()(g)[:, 0], g)
    np.testing.assert_allclose(Exceeds(0.5)(g)[:, 0], [0, 0, 1])
    np.testing.assert_allclose(ExponentialUtility(2.0)(g)[:, 0], (1 - np.exp(-2 * g)) / 2)
    for bad in (lambda: CVaR(0.0, 0.0, 1.0), lambda: CVaR(0.5, 1.0, 1.0), lambda: ExponentialUtility(0.0)):
        with pytest.raises(bs.InputError):
            bad()


SHARP = bs.Sigmoid(np.linspace(-1.5, 1.5, 101), 25.0)
ARMS = {  # returns and how many of 20 draws they are
    "best on average": {-0.2: 4, 0.5: 16},
    "never bad": {0.3: 20},
    "often above 0.6": {-0.7: 9, 0.8: 11},
    "sometimes 1": {-0.5: 12, 1.0: 8},
}
CRITERIA = {
    "best on average": MEAN,
    "never bad": CVaR(0.25, -1.0, 1.0),
    "often above 0.6": Exceeds(0.6),
    "sometimes 1": ExponentialUtility(-5.0),
}


def arms_of(name, criterion):
    """An agent, and a network whose outputs are the arms' distributions."""
    draws = np.stack([np.repeat(list(arm), list(arm.values())) for arm in ARMS.values()])  # [a, 20], sorted
    if name == "c51":
        agent = C51(-1.0, 1.0, 21, criterion)  # atoms in steps of 0.1
        counts = (np.abs(draws[:, None, :] - agent.support[:, None]) < 0.01).sum(axis=-1)
        outputs = np.log(np.maximum(counts / 20, 1e-12))
    elif name == "qr":
        agent, outputs = QRDQN(20, criterion), draws
    elif name == "iqn":
        agent = IQN(num_acting_levels=1_000, criterion=criterion)
        values = jnp.asarray(draws, jnp.float32)
        return agent, lambda _, levels: values[:, jnp.minimum((levels * 20).astype(int), 19)]
    else:
        agent = build_sketch_dqn(SHARP, bs.ReturnRange(-1.2, 1.2), 0.9, rewards=[0.0], criterion=criterion)
        outputs = np.clip(scipy.special.logit(SHARP(draws).mean(axis=1)), -15, 15)
    return agent, lambda _: jnp.asarray(outputs, jnp.float32)


def exactly(arm, criterion):
    return criterion.of(bs.AtomicDistribution(list(ARMS[arm]), np.array(list(ARMS[arm].values())) / 20))


TOLERANCE = {"c51": 1e-4, "qr": 1e-4, "iqn": 0.05, "sketch": 0.02}
"""Of values, relative to 1 + their size. Those of IQN are of random levels, those of a sketch blurred where f jumps."""
ACTING_TOLERANCE = TOLERANCE | {"sketch": 0.03}
"""The decoder that a sketch acts by blurs more."""


@pytest.mark.parametrize("name", TOLERANCE)
def test_every_criterion_has_its_favourite_arm(name):
    for place, (arm, criterion) in enumerate(CRITERIA.items()):
        agent, network = arms_of(name, criterion)
        values = jax.jit(lambda key, a=agent, n=network: a.action_values(key, n, None))(KEY)
        assert int(np.argmax(values)) == place
        expected = exactly(arm, criterion)
        assert abs(float(values[place]) - expected) < ACTING_TOLERANCE[name] * (1 + expected)


@pytest.mark.parametrize("name", TOLERANCE)
def test_predicted_distributions_have_the_same_favourites(name):
    agent, network = arms_of(name, MEAN)
    distribution = agent.distribution(KEY, network, None)
    assert distribution.locations.shape == distribution.probabilities.shape
    assert distribution.locations.shape[0] == 4
    for place, (arm, criterion) in enumerate(CRITERIA.items()):
        values, expected = criterion.of(distribution), exactly(arm, criterion)
        assert int(np.argmax(values)) == place
        assert abs(float(values[place]) - expected) < TOLERANCE[name] * (1 + expected)
    worst = [-0.06, 0.3, -0.7, -0.5]  # the mean of the worst 5 of 20
    np.testing.assert_allclose(distribution.cvar(0.25), worst, atol=TOLERANCE[name])


def test_sketches_are_decoded_by_a_decoder():
    _, network = table(0, 12)
    with pytest.raises(bs.InputError, match="decoder=None"):
        sketch_dqn().distribution(KEY, network, 0)


def test_dqn_predicts_a_mean_without_spread():
    values, network = table(0, 1)
    found = DQN().distribution(KEY, network, 1)
    np.testing.assert_array_equal(found.locations, values[1])
    np.testing.assert_array_equal(found.probabilities, np.ones((2, 1)))


def test_different_seeds_give_different_networks():
    for agent in (*AGENTS.values(), IQN()):
        first, second = (agent.network(jax.random.key(seed), (10, 5), 3) for seed in (0, 1))
        leaves = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
        assert all(not np.array_equal(a, b) for a, b in leaves)
