"""Episodes side by side count as if they had been played one after the other."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bellsketch.deep.environments.step import Step
from bellsketch.deep.evaluation import episodes_within


def side_by_side(lengths, num_environments):
    """Steps of one seed, whose k-th episode to start has ``lengths[k]`` steps, and k of reward in each of them."""
    playing, numbers = list(range(num_environments)), itertools.count(num_environments)
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
    st.integers(1, 9),
    st.integers(0, 300),
)
def test_those_that_count_do_not_depend_on_how_many_play(lengths, num_environments, num_steps):
    streams = zip(*(side_by_side(own, num_environments) for own in lengths), strict=True)
    steps = (Step(None, *(np.stack(part) for part in list(zip(*of_seeds, strict=True))[1:])) for of_seeds in streams)
    found = episodes_within(steps, (len(lengths), num_environments), num_steps)
    for own, episodes in zip(lengths, found, strict=True):
        expected = one_after_the_other(own, num_steps)
        assert episodes.lengths.tolist() == expected
        assert episodes.returns.tolist() == [k * length for k, length in enumerate(expected)]
        assert episodes.finished.all()


def test_an_episode_without_an_end_is_not_waited_for():
    (found,) = episodes_within(
        (Step(None, *(np.stack([part]) for part in step[1:])) for step in side_by_side([3, 3, 10**9], 4)), (1, 4), 50
    )
    assert found.lengths.tolist() == [3, 3]
