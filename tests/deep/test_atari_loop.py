"""Atari from end to end on a real game: that the replay holds what a slow reference makes of the frames shown."""

import jax
import numpy as np
import pytest

import tiny
from bellsketch.deep.environments import atari
from bellsketch.deep.environments.atari import grey_and_small
from bellsketch.deep.run import load_run, run_training

pytestmark = pytest.mark.usefixtures("quick_compiles")

DISCOUNT = 0.99
ATARI = {
    "small": True,
    "num": 51,
    "num_environments": 8,
    "update_period": 4,
    "batch_size": 8,
    "replay_capacity": 2_400,
    "learning_starts": 400,
    "threads": 2,
    "evaluations": 0,
    "frames": 6_400,
}


def watched(setup):
    """A runner whose environments write down what they show."""
    shown, environments = [], setup.runner.environments
    reset, recv = environments._reset, environments._recv

    def watch(seeds):
        observation = reset(seeds)
        shown.append((observation, np.ones(8, bool), np.zeros(8), np.ones(8), np.zeros(8, bool)))
        return observation

    def watch_recv(first):
        step = recv(first)
        shown.append(tuple(step))
        return step

    environments._reset, environments._recv = watch, watch_recv
    return shown


@pytest.fixture(scope="module", params=[False, True], ids=["fast", "exact"])
def breakout(request):
    setup = tiny.setup("c51", "breakout", **ATARI, exact=request.param)
    shown, runner = watched(setup), setup.runner
    state = runner.explore(runner.init(setup.keys), 100)
    state = runner.advance(state, 80)
    frames = np.stack([step[0] for step in shown])
    if request.param:
        frames = np.asarray(jax.jit(grey_and_small)(frames))
    first, reward, discount, ended = (np.stack([step[i] for step in shown]) for i in (1, 2, 3, 4))
    yield setup, state, (frames, first, reward, discount, ended)
    runner.close()


def seen(frames, first, t, e):
    """The last four frames of an episode, one after the other; zeros before its first."""
    stack = []
    for age in range(4):
        over = t - age < 0 or first[t - age + 1 : t + 1, e].any()
        stack.insert(0, np.zeros((84, 84)) if over else frames[t - age, e])
    return np.stack(stack, axis=-1)


def test_there_is_something_to_see(breakout):
    *_, (_, _, reward, discount, ended) = breakout
    assert ended.any()
    assert np.any((discount == 0) & ~ended)  # a life was lost
    assert reward.max() >= 1


def test_the_replay_is_what_a_slow_reference_makes_of_the_frames(breakout):
    _, state, (frames, first, reward, discount, ended) = breakout
    memory = jax.tree.map(lambda x: x[0], state.replay)
    assert int(memory.written) == len(frames) - 1
    batch, weights = jax.jit(lambda memory, key: memory.sample(key, 400, DISCOUNT))(memory, jax.random.key(0))
    assert np.all(weights)
    # A frame may be there more than once, but not with all that came before and after it.
    expected = {}
    for t in range(len(frames) - 1):
        for e in range(8):
            if not ended[t, e]:
                now, after = seen(frames, first, t, e), seen(frames, first, t + 1, e)
                numbers = (np.clip(reward[t + 1, e], -1, 1), np.float32(DISCOUNT) * discount[t + 1, e])
                expected.setdefault((now.astype(np.uint8).tobytes(), after.astype(np.uint8).tobytes()), set()).add(
                    numbers
                )
    for i in range(400):
        found = (np.asarray(batch.observation[i]).tobytes(), np.asarray(batch.next_observation[i]).tobytes())
        assert (float(batch.reward[i]), np.float32(batch.discount[i])) in expected[found]


def test_what_the_agent_sees_is_the_last_four_frames(breakout):
    _, state, (frames, first, *_) = breakout
    for e in range(8):
        np.testing.assert_array_equal(state.stacked[0, e], seen(frames, first, len(frames) - 1, e))


def test_returns_are_counted_without_clipping(breakout):
    _, state, (*_, reward, _, ended) = breakout
    np.testing.assert_array_equal(state.tally.episodes[0], ended.sum())
    under_way = np.where(state.step.ended[0], 0.0, state.returns[0]).sum()
    np.testing.assert_allclose(state.tally.total_return[0] + under_way, reward.sum())


def test_updates_and_frames_are_in_the_papers_ratio(breakout):
    setup, state, _ = breakout
    assert int(state.learner.updates[0]) * setup.config.loop.update_period == 80 * 8
    assert setup.config.iterations * setup.config.loop.steps * 4 == setup.config.frames - 4 * 400


def test_frames_are_counted_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(atari, "MAX_FRAMES", 1_000)
    options = ATARI | {"num": 21, "frames": 4_800, "records": 5, "evaluations": 1, "evaluation_frames": 4_400}
    setup = tiny.setup("qr_dqn", "pong", **options)
    assert setup.runner.loop.space.num_actions == 6
    run = run_training(setup, tmp_path, progress=False)
    assert run.records["frames"].tolist() == [1600, 2240, 2880, 3520, 4160, 4800]
    assert run.records["updates"].tolist() == [0, 40, 80, 120, 160, 200]
    assert (run.frames, run.evaluations["frames"].tolist()) == (4800, [4800])
    assert run.evaluations["mean_length"].iloc[0] == pytest.approx(250, abs=8)  # less those without an action
    assert run.evaluations["episodes"].tolist() == [4]  # in a stream of 1,100 steps
    assert load_run(tmp_path).frames == 4800
