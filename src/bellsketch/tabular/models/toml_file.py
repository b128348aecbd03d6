"""Models as people write them: a TOML file with a table for each state.

See docs/models.md for the format.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import scipy.stats

from bellsketch.core.checks import known_keys
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.runs.files import read_toml
from bellsketch.tabular.models.named import END, ONLY, NamedDecisions, Outcome, check_shares, errors_of

KEYS = ("discount", "states", "policy")
STATE_KEYS = ("reward", "next", "outcomes", "actions")
OUTCOME_KEYS = ("probability", "reward", "next")


def read_model(path: Path) -> NamedDecisions:
    """The model in a file."""
    table = read_toml(path)
    with errors_of(path):
        return read_table(table)


def read_table(table: Mapping[str, Any]) -> NamedDecisions:
    """The model that a file says."""
    known_keys("the file", table, KEYS)
    for key in ("discount", "states"):
        if key not in table:
            raise InputError(f"{key}: is missing; write for example {EXAMPLES[key]}")
    if not isinstance(table["states"], dict) or not table["states"]:
        raise InputError(f"states: there are none; write for example {EXAMPLES['states']}")
    states = {name: _actions(f"states.{name}", _section(f"states.{name}", s)) for name, s in table["states"].items()}
    policy = table.get("policy", {})
    if not isinstance(policy, dict):
        raise InputError(f"policy={policy!r}: write [policy], and below it an action for each state: a = 'run'")
    policy = {name: _choice(name, choice) for name, choice in policy.items()}
    return NamedDecisions(states, _number("discount", table["discount"]), policy)


BELOW = "reward = 1 and next = { working = 0.9, end = 0.1 }"
EXAMPLES = {
    "discount": "discount = 0.95",
    "states": f"[states.working], and below it {BELOW}",
}


def _actions(where: str, state: Mapping[str, Any]) -> dict[str, tuple[Outcome, ...]]:
    """What each action brings; a state without actions has one that has no name."""
    known_keys(where, state, STATE_KEYS)
    if "actions" not in state:
        return {ONLY: _outcomes(where, state)}
    if len(state) > 1:
        other = next(key for key in state if key != "actions")
        raise InputError(f"{where}: has actions and {other}; write that in each action")
    where, actions = f"{where}.actions", state["actions"]
    if not isinstance(actions, dict):
        raise InputError(f"{where}={actions!r}: write [{where}.run], and below it {BELOW}")
    if not actions:
        raise InputError(f"{where}: there are none; leave it out where there is no choice")
    return {name: _outcomes(f"{where}.{name}", _section(f"{where}.{name}", action)) for name, action in actions.items()}


def _choice(name: str, chosen: Any) -> str | dict[str, float]:
    if isinstance(chosen, str):
        return chosen
    if not isinstance(chosen, dict):
        raise InputError(
            f"policy.{name}={chosen!r}: write a table of shares, such as {{ run = 0.5, wait = 0.5 }}, or the name of an"
            " action"
        )
    return {action: _number(f"policy.{name}.{action}", p) for action, p in chosen.items()}


def _outcomes(where: str, state: Mapping[str, Any]) -> tuple[Outcome, ...]:
    """Either one reward and several next states, or several outcomes with a reward each."""
    if "outcomes" in state:
        if len(state) > 1:
            other = next(key for key in state if key != "outcomes")
            raise InputError(f"{where}: has outcomes and {other}; write one or the other")
        listed = state["outcomes"]
        if not isinstance(listed, list):
            raise InputError(f"{where}.outcomes={listed!r}: write [[{where}.outcomes]] for each")
        if strange := [entry for entry in listed if not isinstance(entry, dict)]:
            raise InputError(f"{where}.outcomes has {strange[0]!r} in it: write [[{where}.outcomes]] for each")
        outcomes = tuple(_outcome(f"{where}.outcomes[{i}]", entry) for i, entry in enumerate(listed))
        rest = f"where it ends with the rest, write [[{where}.outcomes]] and below it probability = {{}}"
        check_shares(f"{where}.outcomes: the probabilities", [p for p, _, _ in outcomes], rest)
        return outcomes
    known_keys(where, state, ("reward", "next"))
    reward = read_reward(f"{where}.reward", state.get("reward", 0.0))
    following = state.get("next", END)
    following = {following: 1.0} if isinstance(following, str) else _table(f"{where}.next", following)
    shares = {name: _number(f"{where}.next.{name}", share) for name, share in following.items()}
    rest = f"where it ends with the rest, write {END} = {{}}"
    check_shares(f"{where}.next: the probabilities", list(shares.values()), rest)
    return tuple((share, reward, name) for name, share in shares.items())


def _outcome(where: str, entry: Mapping[str, Any]) -> Outcome:
    known_keys(where, entry, OUTCOME_KEYS)
    if "probability" not in entry:
        raise InputError(f"{where}: has no probability; write for example probability = 0.5")
    reward = read_reward(f"{where}.reward", entry.get("reward", 0.0))
    return _number(f"{where}.probability", entry["probability"]), reward, str(entry.get("next", END))


def read_reward(where: str, value: Any) -> Any:
    """A number, values with probabilities, or a distribution of SciPy's by name."""
    if not isinstance(value, dict):
        return _number(where, value)
    if "values" in value:
        known_keys(where, value, ("values", "probabilities"))
        values = value["values"]
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}.values={values!r}: write a list of numbers")
        shares = value.get("probabilities", [1 / len(values)] * len(values))
        if not isinstance(shares, list) or len(shares) != len(values):
            raise InputError(f"{where}: has {len(values)} values and probabilities={shares!r}; write one for each")
        with errors_of(where):
            return AtomicDistribution([_number(where, v) for v in values], [_number(where, p) for p in shares])
    if "distribution" not in value:
        raise InputError(f"{where}={value!r}: write a number, values = […], or distribution = 'norm'")
    kinds = distributions()
    name = str(value["distribution"])
    if name not in kinds:
        raise UnknownNameError(f"distribution in {where}", name, kinds)
    parameters = {key: _number(f"{where}.{key}", v) for key, v in value.items() if key != "distribution"}
    try:
        return kinds[name](**parameters)
    except TypeError as error:
        raise InputError(f"{where}: {name} cannot be made with {parameters}: {error}") from None


def distributions() -> dict[str, Any]:
    """SciPy's, by name."""
    kinds = (scipy.stats.rv_continuous, scipy.stats.rv_discrete)
    return {name: kind for name, kind in vars(scipy.stats).items() if isinstance(kind, kinds)}


def _section(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}={value!r}: write [{where}], and below it {BELOW}")
    return value


def _table(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}={value!r}: write a table, such as {{ name = 0.5, end = 0.5 }}")
    return value


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}={value!r}: write a number")
    return float(value)
