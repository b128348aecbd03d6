"""The loop with environments on the host: that the replay holds what happened there, and nothing else."""

import functools
import itertools
import threading

import jax
import numpy as np
import pytest

import bellsketch as bs
import tiny
import toy_environments  # noqa: F401, registers them
from bellsketch.deep.loops.loop import over_seeds, seed_of
from bellsketch.deep.run import run_training
from bellsketch.deep.run_directory import TrainingDirectory
from bellsketch.deep.training import training

pytestmark = [
    pytest.mark.usefixtures("quick_compiles"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium"),  # it checks toys with much care
]

DISCOUNT = 0.99


def toy(name="Mixed-v0", agent="dqn", **options):
    return tiny.setup(agent, f"gym:{name}", discount=DISCOUNT, **options)


def rows_of(state):
    """What was written, [s, t, e, …]."""
    return jax.tree.map(lambda x: np.asarray(x)[:, : int(state.replay.written[0])], state.replay.rows)


def transitions(state, seed):
    """All that can be sampled: columns episode, time, length, action, reward, discount, and those three afterwards."""
    sample = jax.jit(lambda memory, key: memory.sample(key, 4_000, DISCOUNT))
    batch, weights = sample(seed_of(state.replay, seed), jax.random.key(0))
    columns = (batch.observation, batch.action, batch.reward, batch.discount, batch.next_observation)
    table = np.concatenate([np.asarray(c).reshape(4_000, -1) for c in columns], axis=1)
    return np.unique(table[np.asarray(weights) > 0], axis=0)


def assert_true(table):
    """Every transition is one that the counter makes."""
    episode, time, length, action, reward, discount, next_episode, next_time, next_length = table.T
    np.testing.assert_array_equal(next_episode, episode)
    np.testing.assert_array_equal(next_length, length)
    np.testing.assert_array_equal(next_time, time + 1)
    np.testing.assert_array_equal(reward, 10 * time + action)
    np.testing.assert_array_equal(discount, np.where(next_time == length, 0.0, np.float32(DISCOUNT)))


@pytest.fixture(scope="module", params=[1, 4], ids=["together", "in four groups"])
def mixed(request):
    """Two seeds with four or sixteen environments each, whose episodes terminate or are cut off after four steps."""
    setup = toy(seeds=2, **in_groups(request.param))
    return setup, setup.runner.advance(setup.runner.explore(setup.runner.init(setup.keys), 25), 20)


def in_groups(num):
    return {"groups": num, "num_environments": 4 * num, "update_period": 4}


def test_the_replay_holds_the_transitions_that_happened(mixed):
    _, state = mixed
    for seed in range(2):
        table = transitions(state, seed)
        assert_true(table)
        discount, next_time = table[:, 5], table[:, 7]
        assert np.any(discount == 0)
        assert np.any((next_time == 4) & (discount > 0))  # cut off: the target is that of an episode that goes on


def test_every_environment_has_a_column_of_its_own(mixed):
    """From one row to the next an episode goes on, or it has ended and another one starts."""
    _, state = mixed
    rows = rows_of(state)
    now, following = rows.frame[:, :-1], rows.frame[:, 1:]
    acted = rows.acted[:, :-1]
    np.testing.assert_array_equal(following[acted], now[acted] + [0, 1, 0])
    np.testing.assert_array_equal(following[~acted][:, :2], now[~acted][:, :2] * [1, 0] + [1, 0])
    np.testing.assert_array_equal(rows.first[:, 1:], ~acted)
    time, length = now[..., 1], now[..., 2]
    np.testing.assert_array_equal(acted, time < np.minimum(length, 4))
    columns = np.moveaxis(rows.frame[..., 2], 1, -1).reshape(
        -1, len(rows.frame[0])
    )  # the lengths of its episodes tell which it is
    assert len(np.unique(columns, axis=0)) == len(columns) == state.step.ended.size


def test_steps_updates_and_episodes_are_counted(mixed):
    setup, state = mixed
    rows, num = rows_of(state), setup.config.groups
    np.testing.assert_array_equal(state.steps, [180 * num] * 2)
    np.testing.assert_array_equal(state.replay.written, [45, 45])
    np.testing.assert_array_equal(state.learner.updates, [20 * num] * 2)
    ended = np.asarray(state.step.ended) + (~rows.acted).sum(axis=1)
    np.testing.assert_array_equal(state.tally.episodes, ended.sum(axis=1))
    under_way = np.where(state.step.ended, 0.0, state.returns).sum(axis=1)
    paid = (rows.reward * rows.acted).sum(axis=(1, 2))
    np.testing.assert_allclose(state.tally.total_return, paid - under_way)


def test_seeds_are_different_runs(mixed):
    _, state = mixed
    rows = rows_of(state)
    for several in (state.learner.network.head.weight, rows.frame, rows.action, state.tally.total_loss):
        assert not np.array_equal(several[0], several[1])


def test_a_seed_among_others_is_as_if_alone(mixed):
    among_others, state = mixed
    setup = toy(seed=1, **in_groups(among_others.config.groups))
    alone = setup.runner.advance(setup.runner.explore(setup.runner.init(setup.keys), 25), 20)
    for one, among in zip(jax.tree.leaves(rows_of(alone)), jax.tree.leaves(rows_of(state)), strict=True):
        np.testing.assert_array_equal(one[0], among[1])
    one, among = seed_of(alone.learner.network, 0), seed_of(state.learner.network, 1)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(among), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("num", "axes"), [(1, 2), (3, 3)])
def test_only_several_seeds_are_a_batch(num, axes):
    part, x = over_seeds(lambda x: x @ x), np.arange(4.0 * num, dtype=np.float32).reshape(num, 2, 2)
    (product,) = (e for e in jax.make_jaxpr(part)(x).eqns if e.primitive.name == "dot_general")
    assert product.invars[0].aval.ndim == axes
    np.testing.assert_array_equal(part(x), x @ x)


@pytest.mark.parametrize(
    ("num_environments", "update_period", "steps", "updates"),
    [(4, 8, 80, 10), pytest.param(8, 4, 80, 20, marks=pytest.mark.slow)],
)
def test_updates_follow_steps(num_environments, update_period, steps, updates):
    setup = toy(num_environments=num_environments, update_period=update_period)
    state = setup.runner.advance(setup.runner.init(setup.keys), 10)
    assert (int(state.steps[0]), int(state.learner.updates[0])) == (steps, updates)


@pytest.mark.parametrize("groups", [1, 4])
def test_learns_while_environments_play(monkeypatch, groups):
    """None of them need be done with a step before the device is given the updates of their turn."""
    runner = (setup := toy(**in_groups(groups))).runner
    state, turns, more, waited = runner.init(setup.keys), 0, threading.Condition(), []
    learn = runner._learn

    def spied(state):
        nonlocal turns
        with more:
            turns += 1
            more.notify_all()
        return learn(state)

    def slow(step, numbers):
        def wait(*given):
            with more:
                turn = next(numbers)
                waited.append(more.wait_for(lambda: turns > turn, 5))
            return step(*given)

        return wait

    monkeypatch.setattr(runner, "_learn", spied)
    for i, environments in enumerate(runner.environments):
        environments._step = slow(environments._step, itertools.count(i, groups))
    runner.advance(state, 3)
    assert waited == [True] * 3 * groups


def test_learns_from_returns_of_three_steps(monkeypatch):
    """Or of as many as there are up to termination."""
    setup = toy(agent="sketch_dqn", num_steps=3, num=51)
    learner, given = setup.runner.loop.learner, []
    update = learner.update

    def spied(keys, state, batches, weights):
        jax.debug.callback(lambda *now: given.append(jax.tree.map(np.asarray, now)), batches, weights)
        return update(keys, state, batches, weights)

    monkeypatch.setattr(learner, "update", spied)
    state = setup.runner.advance(setup.runner.explore(setup.runner.init(setup.keys), 25), 3)
    assert 0 < state.tally.total_loss[0] < np.inf
    assert not state.failure.happened[0]
    jax.effects_barrier()
    assert len(given) == 3
    batches, weights = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[0], *given)
    before, action, reward, discount, after = (x[weights > 0] for x in batches)
    time, length = before[:, 1], before[:, 2]
    num, goes_on = np.minimum(3, length - time), time + 3 < length
    assert set(num) == {1, 2, 3}
    assert 0 < goes_on.mean() < 1
    # An action pays 10 time + action; of the three the first is known, and the others are between 0 and 3.
    counts = (np.arange(3) < num[:, None]) * DISCOUNT ** np.arange(3)
    least = (counts * 10 * (time[:, None] + np.arange(3))).sum(axis=1) + action
    assert np.all((least - 1e-3 < reward) & (reward < least + 3 * counts[:, 1:].sum(axis=1) + 1e-3))
    np.testing.assert_allclose(discount, np.where(goes_on, DISCOUNT**3, 0.0), rtol=1e-6)
    np.testing.assert_array_equal(after[goes_on], before[goes_on] + np.array([0, 3, 0]))


def test_the_same_twice():
    options = {"frames": 400, "records": 3}

    def rows(seed):
        progress = list(training(toy("CutOff-v0", seed=seed, **options)))  # when an evaluation is done may differ
        records, evaluations = [p.records for p in progress], [row for p in progress for row in p.evaluations]
        assert len(evaluations) == 2
        return str((records, evaluations))

    assert rows(0) == rows(0)  # as text: what is missing is not a number
    assert rows(1) != rows(0)


def test_shapes_are_those_of_a_state(mixed):
    setup, state = mixed
    found = jax.tree.map(lambda x: (x.shape, x.dtype), setup.shape())
    assert found == jax.tree.map(lambda x: (x.shape, x.dtype), state)


@pytest.fixture(scope="module")
def unsaved():
    """A run whose environments could not be saved, before it was stopped and after it was restored."""
    setup = toy("Locked-v0", seeds=2)
    state = setup.runner.explore(setup.runner.init(setup.keys), 10)
    with pytest.warns(bs.BellsketchWarning, match="cannot be saved"):
        assert setup.runner.save_environments() is None
    assert setup.runner.save_environments() is None  # and is said once
    before = jax.tree.map(lambda x: x.copy(), state)
    other = toy("Locked-v0", seeds=2)
    restored = other.runner.restore_environments(state, None)
    return before, jax.tree.map(lambda x: x.copy(), restored), other.runner.explore(restored, 12)


def test_where_environments_cannot_be_saved_new_episodes_start(unsaved):
    before, restored, _ = unsaved
    np.testing.assert_array_equal(restored.steps, before.steps)
    np.testing.assert_array_equal(restored.tally.episodes, before.tally.episodes)
    np.testing.assert_array_equal(restored.returns, np.zeros((2, 4)))
    assert np.all(restored.step.first)
    np.testing.assert_array_equal(restored.step.observation[..., 1], np.zeros((2, 4)))


def test_no_transition_leads_from_one_into_the_other(unsaved):
    before, _, after = unsaved
    rows = rows_of(after)
    np.testing.assert_array_equal(rows.frame[:, 10], before.step.observation)
    assert not rows.acted[:, 10].any()
    assert rows.first[:, 11].all()
    for seed in range(2):
        table = transitions(after, seed)
        assert_true(table)
        # The last transition before is still there, and the first one afterwards.
        for t in (9, 11):
            for e in range(4):
                if rows.acted[seed, t, e]:
                    found = np.all(table[:, :4] == [*rows.frame[seed, t, e], rows.action[seed, t, e]], axis=1)
                    assert found.any()


def test_a_run_goes_on_with_new_episodes(tmp_path):
    setup = toy("Locked-v0", frames=400, records=3, evaluations=0)
    directory = TrainingDirectory(tmp_path, setup.config, seconds=1e9)
    progress = [next(stream) for stream in [training(setup, directory)] for _ in range(2)]
    with pytest.warns(bs.BellsketchWarning, match="cannot be saved"):
        directory.checkpoint(setup, progress[1].state, now=True)
    directory.release()
    with pytest.warns(bs.BellsketchWarning, match="cannot be saved"):
        run = run_training(toy("Locked-v0", frames=400, records=3, evaluations=0), tmp_path, progress=False)
    assert run.records["frames"].tolist() == [100, 200, 300, 400]
    assert run.records["updates"].tolist() == [0, 25, 50, 75]
    assert run.records["loss"].iloc[1] == progress[1].records[0]["loss"]


@pytest.mark.parametrize("groups", [1, 4])
def test_stops_between_steps(groups, monkeypatch):
    setup = toy("Echo-v0", **in_groups(groups))
    stopped, taken = threading.Event(), []
    setup.runner.init(setup.keys)

    def counted(step, actions):
        taken.append(actions)
        if len(taken) >= 5 * groups:
            stopped.set()
        return step(actions)

    for environments in setup.runner.environments:
        monkeypatch.setattr(environments, "step", functools.partial(counted, environments.step))
    for play in (setup.runner.explore, setup.runner.advance):
        taken.clear()
        stopped.clear()
        with pytest.raises(KeyboardInterrupt):
            play(setup.runner.init(setup.keys), 1_000, stopped)
        assert 5 * groups <= len(taken) <= 7 * groups  # with those that were under way


def test_learns():
    *_, last = training(toy("Echo-v0", frames=3_000, evaluations=1, records=1))
    assert last.evaluations[0]["mean_return"] == 5.0
    assert last.evaluations[0]["mean_length"] == 5.0
