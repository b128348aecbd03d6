"""The fused loop: what happens in it, step by step, and that seeds are different runs."""

import dataclasses

import jax
import numpy as np
import pytest

import tiny
from bellsketch.deep.loops.fused import FusedRunner
from bellsketch.deep.loops.loop import seed_of

pytestmark = pytest.mark.usefixtures("quick_compiles")

KEYS = jax.vmap(jax.random.key)(np.arange(2))


def catch(**options):
    return tiny.setup(**options).runner


@pytest.fixture(scope="module")
def runner():
    return catch()


@pytest.fixture(scope="module")
def explored(runner):
    """Thirty steps of four environments of two seeds, before any learning."""
    return runner.explore(runner.init(KEYS), 30)


@pytest.fixture(scope="module")
def learnt(runner, explored):
    """And then twenty iterations."""
    return runner.advance(jax.tree.map(lambda x: x.copy(), explored), 20)  # what it is given it takes to pieces


def rows_of(state, num):
    return jax.tree.map(lambda x: np.asarray(x)[:, :num], state.replay.rows)


def test_an_episode_of_catch_is_nine_steps_a_last_frame_and_a_new_start(explored):
    every = rows_of(explored, 30)
    for seed in range(2):
        rows = jax.tree.map(lambda x: x[seed], every)  # noqa: B023
        for e in range(4):
            np.testing.assert_array_equal(np.flatnonzero(rows.first[:, e]), [0, 10, 20])
            np.testing.assert_array_equal(np.flatnonzero(~rows.acted[:, e]), [9, 19, 29])
            np.testing.assert_array_equal(np.flatnonzero(rows.discount[:, e] == 0), [8, 18, 28])
            np.testing.assert_array_equal(np.flatnonzero(rows.reward[:, e]), [8, 18, 28])
            assert rows.frame[9, e].sum() >= 1  # the ball on the paddle's row, not the next episode's first frame
            assert np.argmax(rows.frame[9, e].sum(axis=1)) == 9
        assert int(explored.tally.episodes[seed]) == 12
        assert float(explored.tally.total_return[seed]) == rows.reward.sum()
    np.testing.assert_array_equal(explored.steps, [120] * 2)
    np.testing.assert_array_equal(explored.replay.written, [30] * 2)
    np.testing.assert_array_equal(explored.tally.updates, [0] * 2)


def test_what_is_cut_off_is_learnt_from_as_if_it_went_on():
    """CartPole of five steps at most, where the pole falls so easily that some episodes terminate before."""
    runner = catch(environment="CartPole-v1")
    parameters = runner.environment.parameters.replace(max_steps_in_episode=5, theta_threshold_radians=0.06)
    runner = FusedRunner(runner.loop, dataclasses.replace(runner.environment, parameters=parameters))
    state = seed_of(runner.explore(runner.init(KEYS[:1]), 60), 0)
    rows = jax.tree.map(lambda x: np.asarray(x)[:60], state.replay.rows)
    batch, _ = jax.jit(lambda memory, key: memory.sample(key, 2_000, 0.9))(state.replay, KEYS[0])
    before, after, discount = map(np.asarray, (batch.observation, batch.next_observation, batch.discount))
    # Every next frame is of the same episode, the last one too: positions move by velocities.
    np.testing.assert_allclose(after[:, [0, 2]], before[:, [0, 2]] + 0.02 * before[:, [1, 3]], rtol=1e-5, atol=1e-7)
    fell = np.abs(after[:, 2]) > 0.06
    np.testing.assert_array_equal(discount, np.where(fell, np.float32(0), np.float32(0.9)))
    # A frame is the last one if nothing was done there.
    last = (after[:, None] == rows.frame[~rows.acted]).all(axis=-1).any(axis=1)
    assert np.all(last[fell])
    assert np.any(last & ~fell)
    lengths = [np.diff(np.flatnonzero(rows.first[:, e])) - 1 for e in range(4)]
    assert max(map(max, lengths)) == 5
    assert min(map(min, lengths)) < 5


def test_returns_under_way_are_those_of_the_episode(runner):
    state = runner.explore(runner.init(KEYS), 8)
    np.testing.assert_array_equal(state.returns, np.zeros((2, 4)))
    state = runner.explore(state, 1)
    np.testing.assert_array_equal(state.returns, state.step.reward)
    assert set(np.asarray(state.returns).ravel()) == {-1.0, 1.0}
    state = runner.explore(state, 1)
    np.testing.assert_array_equal(state.returns, np.zeros((2, 4)))  # another one has started
    assert np.all(state.step.first)


def test_seeds_are_different_runs(runner, learnt):
    start = runner.init(KEYS)
    rows = rows_of(learnt, 50)
    different = {
        "networks": start.learner.network.head.weight,
        "trained networks": learnt.learner.network.head.weight,
        "starts": start.step.observation,
        "frames": rows.frame,
        "actions": rows.action,
        "batches": learnt.tally.total_loss,
    }
    for name, several in different.items():
        several = np.asarray(several)
        assert not np.array_equal(several[0], several[1]), name


def test_environments_of_a_seed_explore_for_themselves(learnt):
    rows = rows_of(learnt, 50)
    for several in (np.moveaxis(rows.frame, 2, 0), np.moveaxis(rows.action, 2, 0)):
        assert not any(np.array_equal(several[i], several[j]) for i in range(4) for j in range(i))


def test_a_seed_among_others_is_as_if_alone(runner, learnt):
    alone = runner.advance(runner.explore(runner.init(KEYS[1:2]), 30), 20)
    for one, among in zip(jax.tree.leaves(rows_of(alone, 50)), jax.tree.leaves(rows_of(learnt, 50)), strict=True):
        np.testing.assert_array_equal(one[0], among[1])
    one, among = seed_of(alone.learner.network, 0), seed_of(learnt.learner.network, 1)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(among), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)  # sums of many seeds at once are rounded in another order


def test_what_is_learnt_follows_what_is_done(learnt):
    np.testing.assert_array_equal(learnt.steps, [200] * 2)
    np.testing.assert_array_equal(learnt.learner.updates, [20] * 2)
    np.testing.assert_array_equal(learnt.tally.updates, [20] * 2)
    assert np.all(np.asarray(learnt.tally.total_loss) > 0)
    assert not np.any(learnt.failure.happened)


@pytest.mark.parametrize(
    ("num_environments", "update_period", "steps", "updates"),
    # Two updates after an act; two acts before an update.
    [(8, 4, 200, 50), pytest.param(4, 8, 200, 25, marks=pytest.mark.slow)],
)
def test_updates_follow_steps(num_environments, update_period, steps, updates):
    runner = catch(num_environments=num_environments, update_period=update_period)
    state = runner.advance(runner.init(KEYS[:1]), 25)
    assert (int(state.steps[0]), int(state.learner.updates[0])) == (steps, updates)
    assert steps / updates == update_period
    assert int(state.replay.written[0]) == steps / num_environments


def test_exploration_falls():
    loop, steps = tiny.config().loop, (0, 100, 350, 600, 10**6)
    np.testing.assert_allclose([loop.epsilon(n) for n in steps], [1.0, 1.0, 0.505, 0.01, 0.01], atol=1e-6)
    np.testing.assert_allclose(loop.epsilon(np.array(steps)), [loop.epsilon(n) for n in steps])


def test_acts_greedily_where_it_does_not_explore():
    runner = catch(learning_starts=0, exploration_steps=1, exploration_final=0.0)
    state = runner.explore(runner.init(KEYS[:1]), 31)
    rows = jax.tree.map(lambda x: np.asarray(x)[0, :31], state.replay.rows)
    network = seed_of(state.learner.network, 0)
    greedy = np.argmax(jax.vmap(jax.vmap(network))(rows.frame)[..., 0], axis=-1)
    chosen = rows.acted & (np.arange(31) > 0)[:, None]  # the first step is taken before ε has fallen
    np.testing.assert_array_equal(rows.action[chosen], greedy[chosen])


@pytest.mark.slow
def test_dqn_learns_catch():
    runner = catch(frames=24_500, replay_capacity=20_000, exploration_steps=5_000)
    state = runner.advance(runner.explore(runner.init(KEYS), 125), 6_000)
    episodes = runner.evaluate(KEYS, state.learner.network, 200, 0.0)
    assert np.all(episodes.finished)
    assert np.all(np.asarray(episodes.lengths) == 9)
    assert np.all(np.asarray(episodes.returns).mean(axis=1) >= 0.95)
