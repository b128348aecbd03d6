"""Errors can be caught by what they are in Python, and read."""

import pytest

from bellsketch.core.errors import (
    BellsketchError,
    DivergenceError,
    InputError,
    MissingRewardError,
    ToleranceError,
    UnknownNameError,
)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InputError, ValueError),
        (UnknownNameError, ValueError),
        (ToleranceError, ValueError),
        (MissingRewardError, KeyError),
        (DivergenceError, ArithmeticError),
    ],
)
def test_errors_are_ours_and_pythons(error, builtin):
    assert issubclass(error, BellsketchError)
    assert issubclass(error, builtin)


def test_a_missing_reward_reads_like_a_sentence():
    assert str(MissingRewardError("reward 1 has no coefficients")) == "reward 1 has no coefficients"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tre", "unknown environment 'tre'. Did you mean 'tree'? Known: cycle, tree."),
        ("xyz", "unknown environment 'xyz'. Known: cycle, tree."),
    ],
)
def test_unknown_names_list_the_known_ones_and_hint_at_near_ones_only(name, message):
    assert str(UnknownNameError("environment", name, {"tree": 1, "cycle": 2})) == message


def test_of_many_names_only_the_nearest_are_listed():
    known = [f"game_{i}" for i in range(50)] + ["breakout", "break_in"]
    message = str(UnknownNameError("environment", "brekout", known))
    assert message.startswith(
        "unknown environment 'brekout'. Did you mean 'breakout'? Known, of 52 the nearest: breakout"
    )
    assert message.count("game_") == 8
    assert "break_in" in message
