"""Suites from tables and TOML files."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bellsketch.core.checks import known_keys
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.environments.games import GAMES
from bellsketch.deep.run_directory import CHECKPOINT_SECONDS
from bellsketch.experiments.deep_comparison import GAMES as MINATAR
from bellsketch.experiments.suite.suite import FigureGrid, Resources, Setting, Suite, TrainingGrid, agents
from bellsketch.runs.files import read_toml

GROUPS: Mapping[str, tuple[str, ...]] = {
    "atari57": GAMES,
    "minatar": tuple(f"{game}-MinAtar" for game in MINATAR),
}
"""Names that stand for many environments."""
ABOUT = ("name", "extends", "resources", "checkpoint_seconds")
GRID_KEYS = ("agents", *(field.name for field in dataclasses.fields(TrainingGrid)))
WHOLE = ("frames", "seeds_per_job", "seed")
NUMBERS = (*WHOLE, "cores", "gpus", "memory_gb")
TEXTS = ("name", "preset", "experiment", "scale")
EXAMPLES = {"agents": "agents = ['sketch_dqn', 'dqn']", "environments": "environments = ['pong', 'breakout']"}


def read_table(table: Mapping[str, Any], presets: Mapping[str, Suite], name: str = "suite") -> Suite:
    """A suite from what a file says.

    Args:
      table: keys and values, as in TOML.
      presets: what ``extends`` may name; the file's own keys go before.
      name: if the table has none.
    """
    given = dict(table)
    if (base := given.pop("extends", None)) is not None:
        if not isinstance(base, str) or base not in presets:
            raise UnknownNameError("preset in extends", str(base), presets)
        given = {**presets[base].table(), "name": name, **_extended(presets[base], given)}
    about = {
        "name": _checked("name", given.pop("name", name)),
        "resources": _part(Resources, given.pop("resources", {}), "resources"),
        "checkpoint_seconds": _number("checkpoint_seconds", given.pop("checkpoint_seconds", CHECKPOINT_SECONDS)),
    }
    if "experiment" in given:
        return Suite(grid=_part(FigureGrid, given, "a suite of a figure", ABOUT), **about)
    if "agents" in given or "settings" in given:
        given["settings"] = _settings(given.pop("agents", []), given.get("settings", []))
    if "environments" in given:
        given["environments"] = environments(given["environments"])
    if "seeds" in given:
        given["seeds"] = seeds(given["seeds"])
    if missing := [key for key in ("settings", "environments") if key not in given]:
        known_keys("a suite", given, [*GRID_KEYS, *ABOUT])
        word = "agents" if missing[0] == "settings" else missing[0]
        raise InputError(f"{word}: is missing; write for example {EXAMPLES[word]}, or extends = 'minatar'")
    return Suite(grid=_part(TrainingGrid, given, "a suite", ("agents", *ABOUT)), **about)


def read_file(path: Path, presets: Mapping[str, Suite]) -> Suite:
    """A suite from a TOML file."""
    table = read_toml(path)
    try:
        return read_table(table, presets, path.stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def environments(names: Any) -> tuple[str, ...]:
    """Environments, with groups such as ``atari57`` spelt out."""
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or any(not isinstance(name, str) for name in listed):
        raise InputError(f"environments={names!r}: write a list, such as {EXAMPLES['environments']}")
    return tuple(member for name in listed for member in GROUPS.get(name, (name,)))


def seeds(given: Any) -> tuple[int, ...]:
    """A number of them, from 0 on, or a list."""
    whole = [] if isinstance(given, bool) else [given] if isinstance(given, int) else given
    listed = list(range(given)) if isinstance(given, int) else given
    if not isinstance(whole, list | tuple) or not whole or any(type(seed) is not int or seed < 0 for seed in whole):
        raise InputError(f"seeds={given!r}: write how many, such as 3, or a list, such as [0, 1, 2]")
    return tuple(listed)


def _extended(base: Suite, given: dict[str, Any]) -> dict[str, Any]:
    """What a file changes in a preset. Agents take the place of its settings, unless there are settings, too."""
    changed = dict(given)
    if "agents" in changed:
        changed.setdefault("settings", [])
    for key in ("options", "resources"):
        if isinstance(changed.get(key), dict):
            changed[key] = {**base.table().get(key, {}), **changed[key]}
    return changed


def _settings(names: Any, listed: Any) -> tuple[Setting, ...]:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"agents={names!r}: write a list, such as {EXAMPLES['agents']}")
    if not isinstance(listed, list | tuple):
        raise InputError(f"settings={listed!r}: write [[settings]] and a line for each option")
    found = list(agents(names))
    for entry in listed:
        if not isinstance(entry, dict) or "agent" not in entry:
            raise InputError(f"settings: {entry!r} names no agent; write [[settings]] with agent = 'sketch_dqn'")
        options = {key: value for key, value in entry.items() if key not in ("name", "agent")}
        words = [str(entry["agent"]), *(f"{key}={value}" for key, value in options.items())]
        found.append(Setting(str(entry.get("name", " ".join(words))), str(entry["agent"]), options))
    return tuple(found)


def _part(kind: Any, given: Any, where: str, also: Sequence[str] = ()) -> Any:
    if not isinstance(given, dict):
        raise InputError(f"{where}={given!r}: write a table with keys")
    known = [field.name for field in dataclasses.fields(kind)]
    known_keys(where, given, [*known, *also])
    return kind(**{name: _checked(name, value) for name, value in given.items()})


def _checked(name: str, value: Any) -> Any:
    """A value of the kind that its key asks for."""
    if name in NUMBERS:
        return _number(name, value)
    if name in TEXTS and not isinstance(value, str):
        raise InputError(f"{name}={value!r}: write a text, in quotes")
    if name == "options" and not isinstance(value, dict):
        raise InputError(f"options={value!r}: write a table, [options] and a line for each")
    return value


def _number(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{name}={value!r}: write a number")
    if name in WHOLE and value != int(value):
        raise InputError(f"{name}={value!r}: write a whole number")
    return int(value) if name in WHOLE else float(value)
