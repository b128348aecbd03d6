"""A model by name or by file, whatever it is."""

import dataclasses
from pathlib import Path

from bellsketch.core.errors import InputError
from bellsketch.tabular import environments
from bellsketch.tabular.models.arrays_file import read_npz
from bellsketch.tabular.models.gymnasium_table import PREFIX, read_gymnasium
from bellsketch.tabular.models.log import Log, read_log
from bellsketch.tabular.models.named import NamedDecisions, NamedModel, Policy, errors_of
from bellsketch.tabular.models.toml_file import read_model
from bellsketch.tabular.mrp import MRP


def load_model(
    name: str | Path, *, discount: float | None = None, policy: str | Policy | None = None, risk: str = "mean"
) -> NamedModel:
    """A model by what it is called.

    Args:
      name: an environment of the paper's, such as ``random_chain``; ``gym:FrozenLake-v1``, or another of Gymnasium's
        with a table; a file: ``.toml``, ``.npz``, or ``.csv`` with a log of transitions.
      discount: γ, instead of the file's own, or of 0.9.
      policy: for models with actions: ``uniform``, ``optimal``, or for each state an action or the share of each.
      risk: what the optimal policy is greedy in: ``mean``, ``cvar:0.1``, ``exceeds:3``, ``utility:0.5``.
    """
    name, path = _named(name)
    if _has_actions(name):
        decisions = load_decisions(name, discount=discount)
        with errors_of(name):
            return decisions.under(policy, risk)
    if policy is not None or risk != "mean":
        raise InputError(f"policy={policy!r}, risk={risk!r}: {name} has no actions; leave them out")
    if path.suffix == ".csv":
        return load_log(name).model(_default(discount))
    if path.suffix == ".npz":
        found = read_npz(_there(path))
        return found if discount is None else NamedModel(_rediscounted(found.mrp, discount), found.names)
    mrp = environments.make(name, _default(discount))
    return NamedModel(mrp, tuple(map(str, range(mrp.num_states))))


def load_decisions(name: str | Path, *, discount: float | None = None) -> NamedDecisions:
    """A model with actions, before a policy is followed; its ``mdp`` is for :func:`policy_iteration` and the like.

    Args:
      name: ``gym:FrozenLake-v1``, or another of Gymnasium's with a table; a ``.toml`` file.
      discount: γ, instead of the file's own, or of 0.9.
    """
    name, path = _named(name)
    if not _has_actions(name):
        raise InputError(f"{name}: has no actions; pass a .toml file or {PREFIX}NAME, or use load_model")
    if name.startswith(PREFIX):
        return read_gymnasium(name.removeprefix(PREFIX), _default(discount))
    decisions = read_model(_there(path))
    return decisions if discount is None else dataclasses.replace(decisions, discount=discount)


def _has_actions(name: str) -> bool:
    return name.startswith(PREFIX) or Path(name).suffix == ".toml"


def load_log(name: str | Path) -> Log:
    """A log of transitions."""
    return read_log(_there(_named(name)[1]))


def _named(name: str | Path) -> tuple[str, Path]:
    if not isinstance(name, str | Path):
        raise InputError(f"name={name!r}: pass the name of a model, or the path of a file")
    return str(name), Path(name)


def _default(discount: float | None) -> float:
    return environments.DISCOUNT if discount is None else discount


def _rediscounted(mrp: MRP, discount: float) -> MRP:
    o = mrp.outcomes
    return MRP._from_arrays(o.state, o.successor, o.probability, mrp.rewards, o.reward, mrp.num_states, discount)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the path")
    return path
