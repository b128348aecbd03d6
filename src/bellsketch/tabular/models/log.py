"""Models estimated from a log of what happened: one line for each transition."""

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.tabular.model_input import TERMINAL
from bellsketch.tabular.models.named import END, NamedModel, errors_of, no_state_is_the_end
from bellsketch.tabular.mrp import MRP

COLUMNS = ("state", "reward", "next_state")


@dataclasses.dataclass(frozen=True)
class Log:
    """Transitions, sorted by state."""

    names: tuple[str, ...]
    state: Int[np.ndarray, " k"]
    reward: Any
    """[k]."""
    successor: Int[np.ndarray, " k"]
    """``TERMINAL`` where it ended."""

    def model(self, discount: float) -> NamedModel:
        """What happened, as often as it happened: reward and next state are drawn together."""
        return self._model(np.ones(self.state.size), discount)

    def resampled(self, rng: np.random.Generator, discount: float) -> NamedModel:
        """The model of another log like this one: as many transitions from each state, drawn from it again."""
        starts = np.searchsorted(self.state, np.arange(len(self.names)))
        counts = np.bincount(self.state, minlength=len(self.names))
        drawn = starts[self.state] + np.floor(rng.random(self.state.size) * counts[self.state]).astype(np.int64)
        return self._model(np.bincount(drawn, minlength=self.state.size).astype(float), discount)

    def _model(self, weights: np.ndarray, discount: float) -> NamedModel:
        totals = np.bincount(self.state, weights=weights, minlength=len(self.names))
        table = pd.DataFrame(
            {"x": self.state, "y": self.successor, "r": self.reward, "p": weights / totals[self.state]}
        )
        merged = table[table["p"] > 0].groupby(["x", "r", "y"], as_index=False)["p"].sum()
        rows = ((x, p, r, None if y == TERMINAL else y) for x, r, y, p in merged.itertuples(index=False))
        return NamedModel(MRP.from_outcomes(rows, discount, len(self.names)), self.names)


def read_log(path: Path) -> Log:
    """From a CSV file with the columns ``state``, ``reward`` and ``next_state``; the latter empty, or ``end``, where
    nothing followed.
    """
    try:
        table = pd.read_csv(path, dtype={"state": str, "next_state": str}, keep_default_na=False, skipinitialspace=True)
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from None
    if missing := [column for column in COLUMNS if column not in table]:
        header = ", ".join(map(str, table.columns))
        hint = "; separate them by commas" if len(table.columns) == 1 and re.search(r"[;\t|]", header) else ""
        raise InputError(f"{path}: has no column {missing[0]!r}, only {header}{hint}")
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes the first field of longer lines for an index
        raise InputError(f"{path}: line 2 has more fields than the first; write one for each of its columns")
    if table.empty:
        raise InputError(f"{path}: has no transitions in it")
    rewards = pd.to_numeric(table["reward"], errors="coerce")
    if (bad := np.flatnonzero(~np.isfinite(rewards))).size:
        raise InputError(f"{path}: line {bad[0] + 2} has the reward {table['reward'][bad[0]]!r}; write a number")
    if (empty := np.flatnonzero(table["state"] == "")).size:
        raise InputError(f"{path}: line {empty[0] + 2} has no state")
    names = tuple(dict.fromkeys(table["state"]))
    with errors_of(f"{path}: line {(table['state'] == END).argmax() + 2}"):
        no_state_is_the_end(names)
    number = {name: place for place, name in enumerate(names)}
    following = table["next_state"].replace("", END)
    if unseen := sorted(set(following) - set(names) - {END}):
        more = f" and {len(unseen) - 1} more states" if len(unseen) > 1 else ""
        warnings.warn(
            f"{path}: no line starts from {unseen[0]!r}{more}, and nothing is known of what follows; taken as the end",
            BellsketchWarning,
            stacklevel=2,
        )
    state = table["state"].map(number).to_numpy(np.int64)
    order = np.argsort(state, kind="stable")
    successor = np.array([number.get(name, TERMINAL) for name in following], dtype=np.int64)
    return Log(names, state[order], rewards.to_numpy(float)[order], successor[order])
