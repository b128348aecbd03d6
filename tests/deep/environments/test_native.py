"""Environments on the device, step by step."""

import dataclasses

import jax
import numpy as np
import pytest

from bellsketch.deep.environments.native import make_native
from bellsketch.deep.environments.step import Step


def push(max_steps, num_steps=20):
    """CartPole, cut off after ``max_steps`` and always pushed to the right: all steps stacked, [time, …]."""
    environment = make_native("CartPole-v1")
    parameters = environment.parameters.replace(max_steps_in_episode=max_steps)
    environment = dataclasses.replace(environment, parameters=parameters)
    assert environment.max_episode_steps == max_steps
    step, keys = jax.jit(environment.step), jax.random.split(jax.random.key(0), num_steps + 1)
    states = [environment.reset(keys[0])]
    for key in keys[1:]:
        states.append(step(key, *states[-1], 1))
    return Step(*map(np.stack, zip(*(shown for _, shown in states), strict=True)))


def falls(step):
    """Where the pole leans by more than 12°, CartPole's termination."""
    return np.abs(step.observation[:, 2]) > np.deg2rad(12)


@pytest.fixture(scope="module")
def fallen():
    """When it falls first, if nothing cuts it off."""
    return int(np.argmax(falls(push(500))))


def test_where_an_episode_is_cut_off_its_discount_is_1():
    step = push(5)
    assert not falls(step).any()
    np.testing.assert_array_equal(np.flatnonzero(step.ended), [5, 11, 17])
    np.testing.assert_array_equal(np.flatnonzero(step.first), [0, 6, 12, 18])
    np.testing.assert_array_equal(step.discount, np.ones(21))
    np.testing.assert_array_equal(step.reward, ~step.first)
    # The last frame is of the same episode: positions move by velocities.
    before, last = step.observation[4], step.observation[5]
    np.testing.assert_allclose(last[[0, 2]], before[[0, 2]] + 0.02 * before[[1, 3]], rtol=1e-5)


def test_where_an_episode_terminates_its_discount_is_0(fallen):
    """At the limit too."""
    assert 5 < fallen < 15
    for max_steps in (500, fallen):
        step = push(max_steps)
        np.testing.assert_array_equal(np.flatnonzero(step.ended[: fallen + 1]), [fallen])
        np.testing.assert_array_equal(np.flatnonzero(step.discount[: fallen + 1] == 0), [fallen])
        assert step.first[fallen + 1]
        assert step.discount[fallen + 1] == 1
