"""The fused loop: what happens in it, step by step, and that seeds are different runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.environments.native import make_native
from bellsketch.deep.evaluation import play
from bellsketch.deep.learner import LearnerConfig
from bellsketch.deep.loops.fused import FusedLoop, LoopConfig


def catch_loop(**options):
    settings = {"num_environments": 4, "replay_capacity": 20_000, "learning_starts": 500, "exploration_steps": 5_000}
    learner = LearnerConfig(learning_rate=1e-3, target_period=200)
    return FusedLoop(DQN(), make_native("Catch-bsuite"), learner, LoopConfig(**(settings | options)))


def test_an_episode_of_catch_is_nine_steps_a_last_frame_and_a_new_start():
    loop = catch_loop()
    state, finished = jax.jit(lambda s: jax.lax.scan(loop.act, s, None, 30))(loop.init(jax.random.key(0)))
    rows = jax.tree.map(lambda x: np.asarray(x)[:30], state.replay.rows)
    for e in range(4):
        np.testing.assert_array_equal(np.flatnonzero(rows.first[:, e]), [0, 10, 20])
        np.testing.assert_array_equal(np.flatnonzero(~rows.acted[:, e]), [9, 19, 29])
        np.testing.assert_array_equal(np.flatnonzero(rows.discount[:, e] == 0), [8, 18, 28])
        assert set(np.flatnonzero(rows.reward[:, e])) <= {8, 18, 28}
        np.testing.assert_array_equal(np.asarray(finished)[[8, 18, 28], e], rows.reward[[8, 18, 28], e])
        assert rows.frame[9, e].sum() >= 1  # the ball on the paddle's row, not the next episode's first frame
        assert np.argmax(rows.frame[9, e].sum(axis=1)) == 9
    assert np.isnan(np.asarray(finished)).sum() == 30 * 4 - 12


def test_seeds_are_different_runs():
    loop = catch_loop()
    keys = jax.random.split(jax.random.key(0), 3)
    states = jax.vmap(loop.init)(keys)
    states, _ = jax.jit(jax.vmap(lambda s: jax.lax.scan(loop.act, s, None, 20)))(states)
    weights = np.asarray(states.learner.network.head.weight)
    frames, actions = np.asarray(states.replay.rows.frame[:, :20]), np.asarray(states.replay.rows.action[:, :20])
    for several in (weights, frames, actions):
        assert not any(np.array_equal(several[i], several[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    alone, _ = jax.jit(lambda s: jax.lax.scan(loop.act, s, None, 20))(loop.init(keys[1]))
    np.testing.assert_array_equal(np.asarray(alone.replay.rows.action[:20]), actions[1])


def test_updates_follow_steps_and_exploration_falls():
    loop = catch_loop(update_period=8)
    state, info = jax.jit(lambda s: jax.lax.scan(loop.learn, s, None, 25))(loop.init(jax.random.key(0)))
    assert (int(state.steps), int(state.learner.updates)) == (200, 25)
    assert info.finished.shape == (25, 8)
    epsilons = [float(loop.epsilon(jnp.asarray(n))) for n in (0, 500, 3_000, 5_500, 10**6)]
    np.testing.assert_allclose(epsilons, [1.0, 1.0, 0.505, 0.01, 0.01], atol=1e-6)


@pytest.mark.slow
def test_dqn_learns_catch():
    loop, key = catch_loop(), jax.random.key(0)
    state, _ = jax.jit(lambda s: jax.lax.scan(loop.act, s, None, 125))(loop.init(key))
    state, _ = jax.jit(lambda s: jax.lax.scan(loop.learn, s, None, 6_000))(state)
    episodes = jax.jit(lambda n: play(key, loop.agent, n, loop.environment, 200, 10))(state.learner.network)
    assert np.all(episodes.finished)
    assert float(episodes.returns.mean()) >= 0.95
