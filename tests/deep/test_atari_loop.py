"""Atari from end to end on a real game: that the replay holds what a slow reference makes of the frames shown."""

import jax
import numpy as np
import pytest

import bellsketch as bs
import tiny
from bellsketch.deep.environments import atari
from bellsketch.deep.environments.atari import grey_and_small
from bellsketch.deep.environments.step import Step
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
    "groups": 2,
    "evaluations": 0,
    "frames": 6_400,
}


def watched(environments):
    """Environments that write down what they show."""
    shown, taken, num = [], [], environments.num_environments
    reset, step = environments._reset, environments._step

    def watch(seeds):
        observation = reset(seeds)
        shown.append((observation, np.ones(num, bool), np.zeros(num), np.ones(num), np.zeros(num, bool)))
        return observation

    def watch_step(actions, first):
        taken.append((actions,))
        shown.append(tuple(step(actions, first)))
        return Step(*shown[-1])

    environments._reset, environments._step = watch, watch_step
    return shown, taken


def together(groups):
    """What groups of environments wrote down, [t, e, …]; they take turns, so that every other one is of the same."""
    parts = [[np.stack(column) for column in zip(*written, strict=True)] for written in groups]
    return [np.stack(both, axis=2).reshape(len(both[0]), 8, *both[0].shape[2:]) for both in zip(*parts, strict=True)]


@pytest.fixture(scope="module", params=["breakout", pytest.param("space_invaders", marks=pytest.mark.slow)])
def played(request):
    """A game that ends or is cut off, in frames that ALE makes; and one with large rewards, in exact frames."""
    exact = request.param == "space_invaders"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atari, "MAX_FRAMES", 600)
        agent = "c51" if exact else "sketch_dqn"
        setup = tiny.setup(agent, request.param, **ATARI, exact=exact, **({} if exact else {"slope_factor": 1.0}))
        runner = setup.runner
        shown, taken = zip(*map(watched, runner.environments), strict=True)
        state = runner.explore(runner.init(setup.keys), 100)
        state = runner.advance(state, 80)
        frames, *numbers = together(shown)
        if exact:
            frames = np.asarray(jax.jit(grey_and_small)(frames))
        yield setup, state, (frames, *numbers, *together(taken))
        runner.close()


def seen(frames, first, t, e):
    """The last four frames of an episode, one after the other; zeros before its first."""
    stack = []
    for age in range(4):
        over = t - age < 0 or first[t - age + 1 : t + 1, e].any()
        stack.insert(0, np.zeros((84, 84)) if over else frames[t - age, e])
    return np.stack(stack, axis=-1)


def test_there_is_something_to_see(played):
    setup, _, (_, _, reward, discount, ended, _) = played
    assert np.any((discount == 0) & ~ended)  # a life was lost
    if setup.config.environment == "breakout":
        assert np.any((discount == 0) & ended)
        assert reward.max() == 1
    else:
        assert reward.max() > 1
    assert np.any((discount == 1) & ended)


def test_the_replay_is_what_a_slow_reference_makes_of_the_frames(played):
    _, state, (frames, first, reward, discount, ended, taken) = played
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
                numbers = (taken[t, e], np.clip(reward[t + 1, e], -1, 1), np.float32(DISCOUNT) * discount[t + 1, e])
                expected.setdefault((now.astype(np.uint8).tobytes(), after.astype(np.uint8).tobytes()), set()).add(
                    numbers
                )
    for i in range(400):
        found = (np.asarray(batch.observation[i]).tobytes(), np.asarray(batch.next_observation[i]).tobytes())
        numbers = (int(batch.action[i]), float(batch.reward[i]), np.float32(batch.discount[i]))
        assert numbers in expected[found]


def test_what_the_agent_sees_is_the_last_four_frames(played):
    _, state, (frames, first, *_) = played
    for e in range(8):
        np.testing.assert_array_equal(state.stacked[0, e], seen(frames, first, len(frames) - 1, e))


def test_evaluations_see_the_last_four_frames(monkeypatch):
    """And draw every action anew; the next one is in the same games, and the same."""
    monkeypatch.setattr(atari, "MAX_FRAMES", 240)
    setup = tiny.setup("c51", "breakout", **ATARI)
    runner = setup.runner
    network, make, greedy = runner.init(setup.keys).learner.network, runner._make, runner._greedy
    written, stacks = [], []

    def choose(*given):
        keys, actions, stacked = greedy(*given)
        stacks.append(np.asarray(stacked[0]))
        return keys, actions, stacked

    monkeypatch.setattr(runner, "_make", lambda num: written.append(watched(made := make(num))) or made)
    monkeypatch.setattr(runner, "_greedy", choose)
    (episodes,) = runner.evaluate_frames(setup.keys, network, 2_000, 1.0)
    assert len(episodes.returns) >= 2_000 // 240
    ((shown, taken),) = written
    frames, first, *_ = (np.stack(column) for column in zip(*shown, strict=True))
    (again,) = runner.evaluate_frames(setup.keys, network, 2_000, 1.0)
    runner.close()
    assert (len(written), again.returns.tolist()) == (1, episodes.returns.tolist())
    np.testing.assert_array_equal(*np.split(np.array(taken), 2))
    taken = taken[: len(taken) // 2]
    assert first[1:].any(axis=0).all()  # episodes follow each other
    for t in range(len(frames)):
        for e in range(8):
            np.testing.assert_array_equal(stacks[t][e], seen(frames, first, t, e))
    for e in range(8):
        assert {int(actions[e]) for (actions,) in taken} == set(range(4))


def test_returns_are_counted_without_clipping(played):
    _, state, (_, _, reward, _, ended, _) = played
    np.testing.assert_array_equal(state.tally.episodes[0], ended.sum())
    under_way = np.where(state.step.ended[0], 0.0, state.returns[0]).sum()
    np.testing.assert_allclose(state.tally.total_return[0] + under_way, reward.sum())


def test_updates_and_frames_are_in_the_papers_ratio(played):
    setup, state, _ = played
    assert int(state.learner.updates[0]) * setup.config.loop.update_period == 80 * 8
    learnt_from = int(state.steps[0]) * setup.config.loop.frame_skip - 100 * 8 * 4
    assert learnt_from / int(state.learner.updates[0]) == 16


@pytest.mark.slow
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
    assert run.evaluations["episodes"].tolist() == [4]  # of at most 250 steps; a fifth would end after more than 1,100
    assert load_run(tmp_path).frames == 4800


def test_a_run_that_is_resumed_starts_new_episodes(tmp_path):
    """And no stack of frames reaches from one into the other."""
    setup = tiny.setup("c51", "breakout", **ATARI)
    runner = setup.runner
    state = runner.explore(runner.init(setup.keys), 6)
    before = np.array(state.step.observation[0])
    assert runner.save_environments() is None
    state = runner.explore(runner.restore_environments(state, None), 1)
    runner.close()
    rows = jax.tree.map(lambda x: np.asarray(x[0]), state.replay.rows)
    np.testing.assert_array_equal(rows.frame[6], before)
    assert not rows.acted[6].any()
    assert rows.first[7].all()
    assert not np.any(state.stacked[0][..., :2])
    np.testing.assert_array_equal(state.stacked[0][..., 2], rows.frame[7])


def test_a_replay_without_room_for_a_stack():
    with pytest.raises(bs.InputError, match=r"replay_capacity=40, num_environments=8: each has 5 .* at least 6"):
        tiny.setup("c51", "pong", **ATARI | {"replay_capacity": 40})
