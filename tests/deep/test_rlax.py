"""Losses against RLax's, an independent implementation, on random transitions.

What RLax returns differs by constants, which are written out here:

- Q-learning returns the temporal-difference error; DQN's loss is Huber's of it.
- Categorical Q-learning returns the cross-entropy, as C51 does (the divergence would be less by the target's entropy).
- Quantile Q-learning sums over levels and averages over goals, as QR-DQN and IQN do, and its Huber loss is divided by
  the threshold, which is 1. Its arrays are [levels, actions].
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.core.projections import midpoint_levels
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN
from bellsketch.deep.transition import Transition
from losses import loss_of

rlax = pytest.importorskip("rlax")

NUM, ACTIONS = 200, 4


def transitions():
    """Every fourth one terminates; rewards also far beyond a range of [−2, 2]."""
    rng = np.random.default_rng(0)
    rewards, discounts = rng.normal(0, 3, NUM), rng.uniform(0.5, 1.0, NUM)
    discounts[::4] = 0.0
    rows = Transition(np.zeros(NUM, int), rng.integers(0, ACTIONS, NUM), rewards, discounts, np.ones(NUM, int))
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32 if x.dtype == float else jnp.int32), rows)


def outputs(seed, num):
    """Of a network at x and at x', for each transition."""
    return jnp.asarray(np.random.default_rng(seed).normal(0, 2, (NUM, 2, ACTIONS, num)), jnp.float32)


def losses(agent, online, target):
    key = jax.random.key(0)
    each = jax.vmap(lambda n, t, s: loss_of(key, agent, lambda x: n[x], lambda x: t[x], s))
    return np.asarray(jax.jit(each)(online, target, transitions()))


@pytest.mark.parametrize("double", [False, True])
def test_dqn(double):
    online, target = outputs(1, 1), outputs(2, 1)

    def expected(n, t, s):
        q, following, chooser = n[0, :, 0], t[1, :, 0], n[1, :, 0]
        if double:
            error = rlax.double_q_learning(q, s.action, s.reward, s.discount, following, chooser)
        else:
            error = rlax.q_learning(q, s.action, s.reward, s.discount, following)
        return rlax.huber_loss(error)

    found = losses(DQN(double=double), online, target)
    np.testing.assert_allclose(found, jax.vmap(expected)(online, target, transitions()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("double", [False, True])
def test_c51(double):
    agent = C51(-2.0, 2.0, 11, double=double)
    online, target, atoms = outputs(3, 11), outputs(4, 11), jnp.asarray(agent.support)

    def expected(n, t, s):
        step = (atoms, n[0], s.action, s.reward, s.discount, atoms, t[1])
        if double:
            return rlax.categorical_double_q_learning(*step, jax.nn.softmax(n[1]) @ atoms)
        return rlax.categorical_q_learning(*step)

    found = losses(agent, online, target)
    np.testing.assert_allclose(found, jax.vmap(expected)(online, target, transitions()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_qr_dqn(double):
    online, target = outputs(5, 7), outputs(6, 7)
    levels = jnp.asarray(midpoint_levels(7), jnp.float32)

    def expected(n, t, s):
        chooser = n[1].T if double else t[1].T
        return rlax.quantile_q_learning(n[0].T, levels, s.action, s.reward, s.discount, chooser, t[1].T, 1.0)

    found = losses(QRDQN(7, double=double), online, target)
    np.testing.assert_allclose(found, jax.vmap(expected)(online, target, transitions()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_iqn(double):
    """Quantile functions that are cubic in the level; the random levels are drawn here as the agent draws them."""
    online, target = outputs(7, 4), outputs(8, 4)
    agent, key = IQN(5, 6, 9, double=double), jax.random.key(3)
    key_goal, key_levels = jax.random.split(key)
    key_action, key_goals = jax.random.split(key_goal)
    drawn = {"act": (key_action, 9), "level": (key_levels, 5), "goal": (key_goals, 6)}
    levels = {name: jax.random.uniform(k, (num,)) for name, (k, num) in drawn.items()}

    def quantiles(coefficients, at):
        return coefficients @ at ** jnp.arange(4)[:, None]

    def expected(n, t, s):
        chooser = quantiles(n[1] if double else t[1], levels["act"]).T
        now, goals = quantiles(n[0], levels["level"]).T, quantiles(t[1], levels["goal"]).T
        return rlax.quantile_q_learning(now, levels["level"], s.action, s.reward, s.discount, chooser, goals, 1.0)

    def found(n, t, s):
        return loss_of(key, agent, lambda x, at: quantiles(n[x], at), lambda x, at: quantiles(t[x], at), s)

    both = [jax.jit(jax.vmap(f))(online, target, transitions()) for f in (found, expected)]
    np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-5)
