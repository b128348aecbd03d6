"""What fields of a configuration may hold, said in words."""

import math
import numbers
import types
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from bellsketch.core.errors import InputError

KINDS: dict[Any, tuple[type, str]] = {
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    bool: (bool, "true or false"),
    str: (str, "a text"),
    Literal: (str, "a text"),
    tuple: (tuple, "several numbers"),
    tuple[str, ...]: (tuple, "several texts, such as ('map_name=8x8',)"),
    type(None): (type(None), "None"),
}
"""What fields hold, and how it is called."""


def checked(part: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values for fields of a configuration, if they are of the kinds that these hold; lists become tuples."""
    hints, found = get_type_hints(part), {}
    for name, value in values.items():
        value = tuple(value) if isinstance(value, list) else value.item() if isinstance(value, np.generic) else value
        hint = hints[name]
        choices = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        kinds = [KINDS.get(kind) or KINDS.get(get_origin(kind)) or (kind, f"{kind.__name__}(…)") for kind in choices]
        if not any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind, _ in kinds):
            raise InputError(f"{name}={value!r}: pass {' or '.join(word for _, word in kinds)}")
        found[name] = value
    return found


def check_positive(config: Any, *names: str) -> None:
    """Raise if a number of a configuration, unless it is None, is not positive."""
    for name in names:
        if (value := getattr(config, name)) is not None and not 0 < value < math.inf:
            raise InputError(f"{name}={value}: must be positive, and finite")
