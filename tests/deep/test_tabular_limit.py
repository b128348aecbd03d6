"""With a table in place of a network, every agent learns what its tabular counterpart does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bellsketch as bs
from bellsketch.core.backups import reward_set
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN
from bellsketch.deep.agents.reading import Reading
from bellsketch.deep.agents.sketch_dqn import SketchDQN
from bellsketch.deep.transition import Transition
from losses import loss_of

pytestmark = pytest.mark.slow


class Table(eqx.Module):
    """Outputs of a state's only action."""

    outputs: jax.Array

    def __call__(self, state):
        return self.outputs[state]


class QuantileTable(eqx.Module):
    """Quantile functions of a state's only action, in steps of equal length."""

    outputs: jax.Array

    def __call__(self, state, levels):
        num_steps = self.outputs.shape[-1]
        return self.outputs[state][:, jnp.minimum(jnp.floor(levels * num_steps).astype(int), num_steps - 1)]


def model(scale):
    """A walk that ends on either side, paying ±scale there; uneven, so that quantiles are unique."""
    transitions = 0.57 * np.eye(5, k=1) + 0.43 * np.eye(5, k=-1)
    rows = [(x, p, 0.0, y) for x in range(5) for y, p in enumerate(transitions[x]) if p > 0]
    return bs.MRP.from_outcomes([*rows, (0, 0.43, -scale, None), (4, 0.57, scale, None)], 0.9)


def learn(agent, mrp, num_outputs, num_copies=60, num_updates=400, learning_rate=0.05, table=Table):
    """Gradient descent on the expected loss over transitions, to convergence between copies to the target."""
    o = mrp.outcomes
    rewards = np.array([r.mean for r in mrp.rewards], np.float32)[o.reward]
    discounts = np.where(o.terminal, 0.0, mrp.discount).astype(np.float32)
    batch = Transition(o.state, np.zeros_like(o.state), rewards, discounts, np.maximum(o.successor, 0))
    weights = jnp.asarray(o.probability, jnp.float32)
    optimiser = optax.adam(optax.schedules.exponential_decay(learning_rate, 60, 0.5))

    def loss(table, target, key):
        each = jax.vmap(lambda t: loss_of(key, agent, table, target, t))(jax.tree.map(jnp.asarray, batch))
        return jnp.sum(weights * each)

    def update(carry, key):
        table, target, state = carry
        changes, state = optimiser.update(jax.grad(loss)(table, target, key), state)
        return (optax.apply_updates(table, changes), target, state), None

    def copy(table, keys):
        start = (table, table, optimiser.init(table))
        return jax.lax.scan(update, start, keys)[0][0], None

    start = table(jnp.zeros((mrp.num_states, 1, num_outputs)))
    keys = jax.random.split(jax.random.key(0), (num_copies, num_updates))
    return np.asarray(jax.jit(lambda t, k: jax.lax.scan(copy, t, k)[0])(start, keys).outputs)[:, 0]


def test_dqn_learns_the_value():
    mrp = model(0.5)  # errors below 1, where Huber's loss is a square
    np.testing.assert_allclose(learn(DQN(), mrp, 1)[:, 0], mrp.value, atol=2e-3)


def test_c51_learns_the_fixed_point_of_categorical_dynamic_programming():
    mrp, agent = model(1.0), C51(-1.0, 1.0, 11)
    found = np.asarray(jax.nn.softmax(learn(agent, mrp, 11), axis=-1))
    expected = bs.categorical_fixed_point(mrp, agent.support.astype(np.float64)).probabilities
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_sketch_dqn_learns_the_fixed_point_of_sketch_dynamic_programming():
    mrp, span = model(1.0), bs.ReturnRange(-1.0, 1.0)
    features = bs.Sigmoid.from_range(span, 10)
    fit = bs.fit_coefficients(features, span.grid(2_000), mrp.rewards, [0.9, 0.0])
    readout = bs.fit_readout(features, lambda g: g, span.grid(2_000))
    weights = np.asarray(readout.weights, np.float32)[None]
    agent = SketchDQN(reward_set(fit, 0.9), Reading(weights, np.array([readout.offset], np.float32)))
    found = np.asarray(jax.nn.sigmoid(learn(agent, mrp, 10)))
    expected = bs.fixed_point(bs.sketch_operator(mrp, fit)).sketch
    np.testing.assert_allclose(found, expected, atol=5e-3)


@pytest.mark.parametrize(("agent", "table"), [(QRDQN(4), Table), (IQN(64, 64), QuantileTable)], ids=["qr_dqn", "iqn"])
def test_quantiles_are_those_of_quantile_dynamic_programming(agent, table):
    """IQN's too: where a quantile function is constant for random levels, the best constant is that of the midpoint."""
    mrp = model(200.0)  # errors far beyond 1, where Huber's loss is all but the absolute value
    found = learn(agent, mrp, 4, 40, num_updates=1_000, learning_rate=20.0, table=table)
    quantiles = bs.quantile_dp(mrp, 4)
    expected = quantiles.decode(bs.run(jax.random.key(0), quantiles, 300).state)
    distance = bs.wasserstein(bs.AtomicDistribution(np.sort(found), np.full(found.shape, 1 / 4)), expected)
    assert np.max(distance) < 0.01 * 400
