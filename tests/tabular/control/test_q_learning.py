"""Sketch Q-learning against value iteration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellsketch as bs

DECAY = bs.schedules.Decay(1.0, 0.9, 20.0)


@pytest.fixture(scope="module")
def problem():
    """Random transitions of four states and three actions, with a random reward, and all that learning needs."""
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.full(4, 0.5), (3, 4))
    rewards = rng.integers(-2, 3, (3, 4)).astype(float).tolist()
    rewards[2][1] = bs.AtomicDistribution([0.0, 2.0], [0.5, 0.5])
    ends = np.full((3, 4), 0.1)
    mdp = bs.MDP.from_arrays(0.9 * transitions, rewards, 0.8, ends)
    control = bs.policy_iteration(mdp, num_features=30)
    span, features = control.evaluator.return_range, control.solution.features
    split = [reward for action in mdp.actions for reward in action.split_rewards().rewards]
    coefficients = bs.fit_coefficients(features, span.grid(), split, (mdp.discount, 0.0))
    return mdp, control, coefficients, bs.fine_decoder(coefficients, span)


def best_values(mdp):
    """Q*, by value iteration."""
    q = np.zeros((mdp.num_states, mdp.num_actions))
    for _ in range(500):
        q = np.stack([a.mean_rewards + mdp.discount * (a.transitions @ q.max(axis=1)) for a in mdp.actions], axis=1)
    return q


def test_the_values_of_the_optimal_policy(problem):
    mdp, control, coefficients, decoder = problem
    learner = bs.sketch_q_learning(mdp, coefficients, decoder, DECAY, control.solution.readout(lambda g: g))
    states = bs.run(jax.random.split(jax.random.key(0), 4), learner, 20_000).state
    optimal = best_values(mdp)
    learnt = np.stack([learner.action_values(values) for values in states.values])
    np.testing.assert_allclose(learnt.mean(axis=0), optimal, atol=0.07)
    np.testing.assert_allclose(learnt, np.broadcast_to(optimal, learnt.shape), atol=0.25)
    assert np.all(learnt.argmax(axis=-1) == optimal.argmax(axis=-1))
    sketch = states.values.mean(axis=0)
    assert np.linalg.norm(sketch - control.action_sketches.reshape(sketch.shape), axis=1).max() < 0.05
    truth = bs.ground_truth(mdp.pairs(control.policy)).distribution
    first = learner.decode(jax.tree.map(lambda leaf: leaf[0], states))
    assert bs.cramer(first, truth).max() < 0.02


def test_along_a_trajectory(problem):
    mdp, control, coefficients, decoder = problem
    readout = control.solution.readout(lambda g: g)
    learner = bs.sketch_q_learning(mdp, coefficients, decoder, DECAY, readout, mode="trajectory", exploration=0.3)
    states = bs.run(jax.random.split(jax.random.key(0), 6), learner, 50_000).state
    optimal = best_values(mdp)
    learnt = np.stack([learner.action_values(values) for values in states.values])
    np.testing.assert_allclose(learnt.mean(axis=0), optimal, atol=0.2)
    assert learnt.mean(axis=0).argmax(axis=1).tolist() == optimal.argmax(axis=1).tolist()
    assert learner.policy(jax.tree.map(lambda leaf: leaf[0], states)).tolist() == learnt[0].argmax(axis=1).tolist()
    assert states.count.sum() == 6 * 50_000
    visits = states.count.sum(axis=0).reshape(optimal.shape)
    share = visits[np.arange(mdp.num_states), optimal.argmax(axis=1)].sum() / visits.sum()
    assert 0.6 < share < 0.85  # 0.8 where it goes on; every tenth step ends, and starts anywhere


def test_one_step_by_hand(problem):
    mdp, control, coefficients, decoder = problem
    readout = bs.fit_criterion(control.solution.features, bs.risk.ExponentialUtility(0.5), decoder_grid(control))
    learner = bs.sketch_q_learning(mdp, coefficients, decoder, 0.25, readout)
    rng = np.random.default_rng(0)
    span = control.evaluator.return_range
    values = control.solution.features(rng.uniform(span.low, span.high, mdp.num_states * mdp.num_actions))
    start = bs.run(jax.random.key(1), learner, 0).state
    with jax.enable_x64(True):
        start = type(start)(*(jnp.asarray(leaf) for leaf in (values, start.count, start.position)))
        after, _ = learner.step(jax.random.key(5), start)
        key, _ = jax.random.split(jax.random.key(5))
        _, rewards, successors = learner.sampler(key, np.arange(len(values)))
    utilities = np.asarray(readout(values)).reshape(mdp.num_states, -1)
    for pair, (reward, successor) in enumerate(zip(np.asarray(rewards), np.asarray(successors), strict=True)):
        if successor < 0:
            goal = control.solution.features(float(reward))
        else:
            following = successor // mdp.num_actions
            matrix, offset = coefficients.at(float(reward), mdp.discount)
            best = following * mdp.num_actions + utilities[following].argmax()
            goal = matrix @ values[best] + offset
        np.testing.assert_allclose(after.values[pair], 0.75 * values[pair] + 0.25 * goal, atol=1e-9)


def decoder_grid(control):
    return control.evaluator.return_range.grid()


def test_bad_input(problem):
    mdp, control, coefficients, decoder = problem
    readout = control.solution.readout(lambda g: g)
    with pytest.raises(bs.InputError, match="exploration=2"):
        bs.sketch_q_learning(mdp, coefficients, decoder, 0.1, readout, exploration=2.0)
    with pytest.raises(bs.InputError, match="mode='walk'"):
        bs.sketch_q_learning(mdp, coefficients, decoder, 0.1, readout, mode="walk")
