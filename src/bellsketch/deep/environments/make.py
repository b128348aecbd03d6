"""Environments by name, wherever they run."""

import difflib
from collections.abc import Mapping
from typing import Any

import gymnasium
import gymnax

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.environments.atari import AtariEnvironments
from bellsketch.deep.environments.games import GAMES
from bellsketch.deep.environments.host import HostEnvironments
from bellsketch.deep.environments.native import NativeEnvironment, make_native
from bellsketch.deep.environments.vector import VectorEnvironments

PREFIX = "gym:"
"""Of names that are Gymnasium's, where Gymnax has the same."""


def check_name(name: str) -> None:
    """Raise if nobody knows an environment of that name, without making one."""
    plain = name.removeprefix(PREFIX)
    _check_spelling(name)
    if name in GAMES or name in gymnax.registered_envs or plain in gymnasium.registry or ":" in plain:
        return
    raise _unknown(plain)


def _check_spelling(name: str) -> None:
    """Raise if somebody meant a game of Atari: Gymnasium takes Pong for a game of its own, without a version."""
    plain = "".join(filter(str.isalnum, name.lower()))
    game = next((game for game in GAMES if game.replace("_", "") == plain), name)
    if game != name:
        raise InputError(f"environment {name!r}: Atari's is {game!r} here; Gymnasium's have a version, as ALE/Pong-v5")


def _unknown(name: str) -> UnknownNameError:
    near = difflib.get_close_matches(name, gymnasium.registry, n=5)  # of more than a hundred
    return UnknownNameError("environment", name, {*gymnax.registered_envs, *GAMES, *near})


def make_environment(
    name: str,
    num_environments: int = 1,
    *,
    options: Mapping[str, Any] | None = None,
    asynchronous: bool = False,
    render: bool = False,
) -> NativeEnvironment | VectorEnvironments:
    """A Gymnax environment, which callers batch as they like, or ``num_environments`` of Gymnasium's or of Atari.

    Args:
        name: A game of Atari, such as ``breakout``; a name Gymnax knows, such as ``Breakout-MinAtar``; or else one
            Gymnasium knows, such as ``FrozenLake-v1``. ``gym:CartPole-v1`` is Gymnasium's though Gymnax has one too;
            ``gym:module:Name-v0`` imports a module that registers it.
        num_environments: How many on the host.
        options: Arguments of a Gymnasium environment, or of ``AtariEnvironments``.
        asynchronous: Whether each on the host runs in a process of its own.
        render: Whether those on the host can be rendered.
    """
    _check_spelling(name)
    if name in GAMES:
        return AtariEnvironments(name, num_environments, **dict(options or {}))
    if not name.startswith(PREFIX) and name in gymnax.registered_envs:
        if options or asynchronous:
            given = f"environment_options={dict(options)}" if options else "asynchronous=True"
            raise InputError(
                f"{given}: is for Gymnasium's environments, and {name!r} is Gymnax's; take {PREFIX + name!r}, or leave"
                " it out"
            )
        return make_native(name)
    plain = name.removeprefix(PREFIX)
    if plain.count(":") > 1:
        raise InputError(f"environment {name!r}: write {PREFIX}Name-v0 or {PREFIX}module:Name-v0")
    try:
        return HostEnvironments(plain, num_environments, options=options, asynchronous=asynchronous, render=render)
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise _unknown(plain) from error
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise InputError(f"environment {name!r} needs what is not installed: {error}") from error
    except gymnasium.error.Error as error:
        raise InputError(f"environment {name!r}: {error}") from error
    except TypeError as error:
        if not options:
            raise
        raise InputError(f"environment_options={dict(options)}: {name!r} does not take them ({error})") from error
