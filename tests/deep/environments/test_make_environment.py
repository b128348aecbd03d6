"""Environments by name."""

import jax
import numpy as np
import pytest

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.environments import HostEnvironments, NativeEnvironment, Space, make_environment, make_native
from bellsketch.deep.environments.make import check_name


def test_gymnax_comes_first():
    assert isinstance(make_environment("CartPole-v1"), NativeEnvironment)
    assert isinstance(make_environment("gym:CartPole-v1", 2), HostEnvironments)
    assert isinstance(make_environment("CartPole-v0"), HostEnvironments)


def test_options_are_gymnasiums():
    lake = make_environment("FrozenLake-v1", options={"map_name": "8x8"})
    assert lake.space.observation_shape == (64,)
    with pytest.raises(InputError, match="gym:CartPole-v1"):
        make_environment("CartPole-v1", options={"sutton_barto_reward": True})


def test_modules_are_imported():
    assert make_environment("gym:toy_environments:Mixed-v0", 3).num_environments == 3
    assert make_environment("toy_environments:Mixed-v0").registered_name == "Mixed-v0"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("Breakout-MinAtr", "Breakout-MinAtar"), ("FrozenLake-v7", "FrozenLake-v1"), ("gym:Taxi-v0", "Taxi-v4")],
)
def test_names_that_nobody_knows(name, nearest):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{nearest}'"):
        make_environment(name)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gym:nowhere:Taxi-v4", "nowhere"),
        ("gym:a:b:c", "module:Name-v0"),
        ("gym:", "Malformed"),
        ("gym:Pendulum-v1", "finitely many"),
        ("Pendulum-v1", "finitely many"),
    ],
)
def test_names_that_cannot_be_used(name, remedy):
    with pytest.raises(InputError, match=remedy):
        make_environment(name)


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("Pong", "pong"),
        ("space invaders", "space_invaders"),
        ("VideoPinball", "video_pinball"),
        ("BREAKOUT", "breakout"),
    ],
)
def test_games_in_other_spellings(name, game):
    for takes_a_name in (make_environment, check_name):
        with pytest.raises(InputError, match=f"environment '{name}': Atari's is '{game}' here"):
            takes_a_name(name)


def test_numbered_observations_are_one_hot():
    lake = make_native("FrozenLake-misc")
    assert lake.space == Space((16,), np.float32, 4)
    inner, step = lake.reset(jax.random.key(0))
    np.testing.assert_array_equal(step.observation, np.eye(16)[0])
    _, step = lake.step(jax.random.key(1), inner, step, 1)
    assert step.observation.shape == (16,)
    assert step.observation.sum() == 1


@pytest.mark.parametrize("name", ["Breakout-MinAtar", "Catch-bsuite", "DeepSea-bsuite"])
def test_images_of_zeros_and_ones_take_a_byte(name):
    environment = make_native(name)
    assert environment.space.frame_dtype == np.uint8
    _, step = environment.reset(jax.random.key(0))
    assert set(np.unique(step.observation)) == {0.0, 1.0}
