"""What goes wrong, by name. Every message says which argument, which value, and what to do instead."""

import difflib
from collections.abc import Iterable
from typing import Any

SHOWN, NEAREST = 30, 10
"""Names that a message lists, at most; of more, those that are nearest."""


class BellsketchError(Exception):
    """Base of all errors the library raises on purpose."""


class InputError(BellsketchError, ValueError):
    """An argument cannot be used as given."""


class BusyError(InputError):
    """Somebody else is at work there."""


class NodeError(BellsketchError):
    """A machine cannot do what its neighbours can."""


class UnknownNameError(InputError):
    """A name at the edge of the library (an environment, a feature family) is not known."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = sorted(known)
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        shown, among = known, ""
        if len(known) > SHOWN:
            shown, among = (
                difflib.get_close_matches(name, known, n=NEAREST, cutoff=0.0),
                f", of {len(known)} the nearest",
            )
        super().__init__(f"unknown {kind} {name!r}.{hint} Known{among}: {', '.join(shown)}.")
        self._arguments = (kind, name, known)

    def __reduce__(self) -> tuple[type, tuple[str, str, list[str]]]:
        return type(self), self._arguments  # what is pickled is made again from these, not from the message


class ToleranceError(BellsketchError, ValueError):
    """A regression is less accurate than the caller said it must be."""


class MissingRewardError(BellsketchError, KeyError):
    """A reward has no Bellman coefficients. It never silently becomes another reward."""

    batch: Any = None
    """In training, the transitions that it was met in."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the message in quotes


class DivergenceError(BellsketchError, ArithmeticError):
    """An iteration left the finite numbers."""

    batch: Any = None
    """In training, the transitions that it would have learnt from."""


class BellsketchWarning(UserWarning):
    """The answer is as asked for, but probably not what was wanted."""


class AllocationError(BellsketchError):
    """Something would not fit into memory."""
