"""One update: what it changes, and when it changes nothing."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bellsketch as bs
from bellsketch.deep.agents.building import build_sketch_dqn
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.config import LearnerConfig
from bellsketch.deep.learner import Learner
from bellsketch.deep.transition import Transition

pytestmark = pytest.mark.usefixtures("quick_compiles")

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def sketch():
    """Of an environment that always pays 1."""
    span = bs.ReturnRange(0.0, 10.0)
    features = bs.Sigmoid.from_range(span, 20)
    return build_sketch_dqn(features, span.expand(0.1), 0.9, rewards=(1.0,))


def start(agent, **options):
    learner = Learner(agent, LearnerConfig(**{"learning_rate": 1e-2, **options}), 3)
    state = learner.init(agent.network(KEY, (2,), 2))

    @eqx.filter_jit
    def update(key, state, batch, weights):
        state, info = learner.update(key[None], state, jax.tree.map(lambda x: x[None], batch), weights[None])
        return state, jax.tree.map(lambda x: x[0], info)

    return learner, state, update


def batch(rewards):
    num = len(rewards)
    observations = jnp.asarray(np.random.default_rng(0).normal(size=(2, num, 2)), jnp.float32)
    discounts = jnp.full(num, 0.9, jnp.float32)
    return Transition(observations[0], jnp.arange(num) % 2, jnp.float32(rewards), discounts, observations[1])


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_reward_without_coefficients_changes_nothing(sketch):
    _, state, update = start(sketch)
    after, info = update(KEY, state, batch([1.0, 1.0, 2.0]), jnp.ones(3))
    assert not info.finite
    assert_same(after, state)


def test_what_has_no_weight_does_not_count():
    _, state, update = start(DQN())
    weights = jnp.array([1.0, 0.0])
    one, one_info = update(KEY, state, batch([1.0, 5.0]), weights)
    other, other_info = update(KEY, state, batch([1.0, -7.0]), weights)
    assert one_info.loss == other_info.loss
    assert_same(one, other)


def test_without_anything_to_learn_from_nothing_is_learnt(sketch):
    _, state, update = start(sketch)
    after, info = update(KEY, state, batch([0.0, 0.0]), jnp.zeros(2))  # as in rows that were never written
    assert info.finite
    assert float(info.loss) == 0.0
    assert int(after.updates) == 1
    assert_same(after.network, state.network)


def test_targets_are_copied_every_so_many_updates():
    _, state, update = start(DQN(), target_period=3)
    first = state.network
    for number in range(1, 7):
        before = state
        state, _ = update(KEY, state, batch([1.0, 1.0]), jnp.ones(2))
        assert not np.array_equal(state.network.head.weight, before.network.head.weight)
        if number % 3 == 0:  # computed anew, in an order of its own, where it is stored twice
            np.testing.assert_allclose(state.target.head.weight, state.network.head.weight, rtol=1e-5)
        else:
            assert_same(state.target, before.target)
        assert int(state.updates) == number
    assert not np.array_equal(state.target.head.weight, first.head.weight)


def test_gradients_are_clipped():
    _, state, update = start(DQN(), max_gradient_norm=1e-3)
    after, _ = update(KEY, state, batch([100.0, 100.0]), jnp.ones(2))
    average = after.optimiser[1][0].mu  # of gradients, with a weight of 0.1 for the last
    np.testing.assert_allclose(optax.tree.norm(average), 0.1 * 1e-3, rtol=1e-5)


def test_the_learning_rate_falls_to_nothing():
    _, state, update = start(DQN(), learning_rate=1e-4, learning_rate_final=0.0)
    changes = []
    for _ in range(5):
        before = state.network
        state, _ = update(KEY, state, batch([100.0, 100.0]), jnp.ones(2))
        difference = jax.tree.map(jnp.subtract, *(eqx.filter(n, eqx.is_inexact_array) for n in (state.network, before)))
        changes.append(float(optax.tree.norm(difference)))
    # Errors are beyond Huber's threshold, so that gradients, and with them Adam's steps, hardly change.
    np.testing.assert_allclose(np.array(changes) / changes[0], [1, 2 / 3, 1 / 3, 0, 0], atol=0.02)


@pytest.mark.parametrize(("double", "goals_at_once"), [(False, False), (False, True), (True, False)])
def test_several_updates_at_once_are_those_one_by_one(double, goals_at_once):
    """Where the target network stays as it is."""
    learner, state, update = start(dataclasses.replace(IQN(4, 5, 6), double=double), target_period=100)
    learner._at_once = goals_at_once  # as on a GPU
    keys, batches = jax.random.split(KEY, 3), [batch([1.0, 2.0]), batch([0.0, -1.0]), batch([5.0, 1.0])]
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *batches)
    weights = jnp.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    together, info = eqx.filter_jit(learner.update)(keys, state, stacked, weights)
    losses = []
    for key, each, weight in zip(keys, batches, weights, strict=True):
        state, one = update(key, state, each, weight)
        losses.append(float(one.loss))
    np.testing.assert_allclose(info.loss, losses, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_targets_are_copied_after_updates_that_are_made_at_once():
    learner, state, _ = start(DQN(), target_period=5)
    updates, copies = eqx.filter_jit(learner.update), []
    many = jax.tree.map(lambda x: jnp.stack([x] * 3), batch([1.0, 1.0]))
    for _ in range(5):
        before = state
        state, _ = updates(jax.random.split(KEY, 3), state, many, jnp.ones((3, 2)))
        copies.append(not np.array_equal(state.target.head.weight, before.target.head.weight))
    assert copies == [False, True, False, True, True]  # after 5, 10 and 15 updates, at the next multiple of 3
