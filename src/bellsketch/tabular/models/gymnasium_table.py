"""Gymnasium's toy-text environments, which come with a table of what can happen."""

from typing import Any

from bellsketch.core.errors import InputError
from bellsketch.tabular.models.named import END, NamedDecisions

PREFIX = "gym:"


def read_gymnasium(name: str, discount: float, **options: Any) -> NamedDecisions:
    """The model of an environment, such as ``FrozenLake-v1``, with states and actions by number.

    Args:
      name: as Gymnasium knows it.
      discount: γ; the environments have none.
      options: of the environment, such as ``is_slippery=False``.
    """
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise InputError(f"{PREFIX}{name} needs gymnasium, which is not installed: pip install gymnasium") from None
    try:
        environment = gymnasium.make(name, **options)
    except (gymnasium.error.Error, TypeError) as error:
        raise InputError(f"{PREFIX}{name}: {error}") from None
    table = getattr(environment.unwrapped, "P", None)
    environment.close()
    if table is None:
        raise InputError(
            f"{PREFIX}{name}: has no table of what can happen; pass one that has, such as FrozenLake-v1, Taxi-v4 or"
            " CliffWalking-v1, or a log of transitions as a CSV file"
        )
    # What ends an episode has no value after it, whatever the table says of the state that it leads to.
    outcomes = {
        str(state): {
            str(action): tuple((float(p), float(r), END if ends else str(int(y))) for p, y, r, ends in rows)
            for action, rows in actions.items()
        }
        for state, actions in table.items()
    }
    return NamedDecisions(outcomes, discount)
