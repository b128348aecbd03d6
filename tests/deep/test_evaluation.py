"""Episodes on the host: side by side they count as if they had been played one after the other."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bellsketch as bs
import tiny
import toy_environments  # noqa: F401, registers them
from bellsketch.deep.environments.step import Step
from bellsketch.deep.evaluation import episodes_within
from bellsketch.deep.run import run_training
from bellsketch.deep.training import training

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")  # it checks toys with much care


def echo(**options):
    """Of episodes of five steps."""
    return tiny.setup("dqn", "gym:Echo-v0", discount=0.9, **options)


def in_parts(lengths, num_parts, num_environments):
    """Steps of each part, of seeds whose k-th episode to start has ``lengths[k]`` steps, and k of reward in each."""
    numbers = [itertools.count(num_parts * num_environments) for _ in lengths]
    for part in range(num_parts):
        playing = range(part * num_environments, (part + 1) * num_environments)
        seeds = [steps(own, list(playing), following) for own, following in zip(lengths, numbers, strict=True)]
        yield together(seeds)


def together(seeds):
    for of_seeds in zip(*seeds, strict=True):
        yield Step(None, *(np.stack(column) for column in list(zip(*of_seeds, strict=True))[1:]))


def steps(lengths, playing, numbers):
    """Of one seed, which plays some episodes, and then those of the next numbers."""
    num_environments = len(playing)
    taken, ended = [0] * num_environments, [False] * num_environments
    while True:
        first = list(ended)
        for e in range(num_environments):
            if first[e]:
                playing[e], taken[e] = next(numbers), 0
            else:
                taken[e] += 1
            ended[e] = taken[e] == lengths[playing[e] % len(lengths)]
        reward = np.where(first, 0.0, playing)
        yield Step(None, np.array(first), reward, np.ones(num_environments), np.array(ended))


def one_after_the_other(lengths, num_steps):
    found = list(itertools.takewhile(lambda total: total <= num_steps, itertools.accumulate(itertools.cycle(lengths))))
    return [lengths[k % len(lengths)] for k in range(len(found))]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=30), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 300),
)
def test_those_that_count_do_not_depend_on_how_many_play(lengths, num_parts, num_environments, num_steps):
    parts = list(in_parts(lengths, num_parts, num_environments))
    found = episodes_within(parts, (len(lengths), num_environments), num_steps)
    for own, episodes in zip(lengths, found, strict=True):
        expected = one_after_the_other(own, num_steps)
        assert episodes.lengths.tolist() == expected
        assert episodes.returns.tolist() == [k * length for k, length in enumerate(expected)]
        assert episodes.finished.all()


def test_an_episode_without_an_end_is_not_waited_for():
    (found,) = episodes_within(list(in_parts([[3, 3, 10**9]], 1, 4)), (1, 4), 50)
    assert found.lengths.tolist() == [3, 3]


def test_parts_stop_when_none_of_their_episodes_can_count():
    """Of 48 steps: the fifth episode cannot when 10 of each are played, the ninth after 6, the thirteenth after 4."""
    taken = [0] * 4

    def counted(part, stream):
        for step in stream:
            taken[part] += 1
            yield step

    parts = [counted(*part) for part in enumerate(in_parts([[10]], 4, 4))]
    (found,) = episodes_within(parts, (1, 4), 48)
    assert (found.lengths.tolist(), taken) == ([10] * 4, [10, 10, 6, 4])


@pytest.mark.parametrize("num_environments", [4, 40])
def test_episodes_that_end_within_so_many_frames(num_environments, monkeypatch):
    """Of five steps each, in environments side by side, in two parts if there are many."""
    setup = echo(seeds=2, num_environments=num_environments)
    state, (made, _) = setup.runner.init(setup.keys), watched(setup.runner, monkeypatch)
    for frames, num in ((4, 0), (5, 1), (9, 1), (10, 2), (600, 120)):
        played = setup.runner.evaluate_frames(setup.keys, state.learner.network, frames, 1.0)
        assert [len(episodes.returns) for episodes in played] == [num, num]
    assert all(np.all(episodes.lengths == 5) and np.all(episodes.finished) for episodes in played)
    assert all(0 < episodes.returns.mean() < 5 for episodes in played)
    assert not np.array_equal(*(episodes.returns for episodes in played))
    assert [part.num_environments for part in made] == 5 * ([8] if num_environments == 4 else [32, 32])
    first, second = np.split(played[0].returns[:32], 2)
    assert not np.array_equal(first, second)


def test_a_seed_is_evaluated_among_others_as_if_alone(monkeypatch):
    """With as many others as have no more environments than there are to learn from, 24."""
    setup = echo(seeds=3, num_environments=8)
    runner = setup.runner
    networks = runner.init(setup.keys).learner.network
    only = setup.keys[1:2], jax.tree.map(lambda x: x[1:2], networks)
    made, _ = watched(runner, monkeypatch)
    for num, expected in ((8, [24]), (10, [20, 10]), (30, [30, 30, 30])):
        among = runner.evaluate(setup.keys, networks, num, 0.5)
        assert ([part.num_environments for part in made], among.returns.shape) == (expected, (3, num))
        np.testing.assert_array_equal(among.returns[1], runner.evaluate(*only, num, 0.5).returns[0])
        made.clear()
    among, alone = (runner.evaluate_frames(*which, 48, 0.5) for which in ((setup.keys, networks), only))
    assert [part.num_environments for part in made] == [24, 8]
    np.testing.assert_array_equal(among[1].returns, alone[0].returns)


def watched(runner, monkeypatch):
    """Environments that are made from now on, and those that are closed."""
    made, closed, make = [], [], runner._make
    kind = type(runner.environments[0])
    close = kind.close

    def watch(environments):
        closed.append(environments)
        close(environments)

    monkeypatch.setattr(runner, "_make", lambda num: made.append(make(num)) or made[-1])
    monkeypatch.setattr(kind, "close", watch)
    return made, closed


def test_environments_that_start_anew_are_kept_while_there_are_some_to_learn_from(monkeypatch):
    """And play the same the second time."""
    setup = echo()
    runner = setup.runner
    network = runner.init(setup.keys).learner.network
    monkeypatch.setattr(type(runner.environments[0]), "starts_anew", True)
    made, closed = watched(runner, monkeypatch)

    def played():
        return [found.returns.tolist() for found in runner.evaluate_frames(setup.keys, network, 60, 0.5)]

    first = played()
    assert played() == first
    assert (len(made), closed) == (1, [])
    runner.evaluate(setup.keys, network, 3, 0.5)  # in three, which takes others
    assert (len(made), closed) == (2, made[:1])
    runner.close()
    assert closed[-1:] == made[1:]
    assert (played(), len(made), closed[-1:]) == (first, 3, made[2:])


def test_others_are_made_for_each_evaluation(monkeypatch):
    """Something of earlier episodes may be left in them, which a run that is resumed would not have."""
    setup = echo()
    runner = setup.runner
    network = runner.init(setup.keys).learner.network
    made, closed = watched(runner, monkeypatch)
    for num in (1, 2):
        runner.evaluate(setup.keys, network, 3, 0.5)
        assert (len(made), closed) == (num, made)


def test_a_run_is_evaluated_in_frames():
    run = run_training(echo(seeds=2, frames=200, evaluations=0), progress=False)
    played = run.evaluate_frames(600, epsilon=1.0)
    assert [len(episodes.returns) for episodes in played] == [120, 120]
    for frames, message in ((0, "a step has 1"), (4, "no episode ended within them; pass more")):
        with pytest.raises(bs.InputError, match=f"frames={frames}: {message}"):
            run.evaluate_frames(frames)


def test_training_is_evaluated_in_frames():
    """Of Echo's episodes of five steps, twelve end within 60."""
    *_, last = training(echo(frames=400, records=1, evaluations=1, evaluation_frames=60))
    assert [row["episodes"] for row in last.evaluations] == [12]
