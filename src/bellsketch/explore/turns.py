"""One page computes at a time, and none while Python ends.

Every open page has a thread. What they share (filters of warnings, threads of BLAS) is not theirs alone to change, and
a thread that is in compiled code when the interpreter ends takes the process down with it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 20.0
"""Seconds to wait for a page that is at work."""

_turn = threading.Lock()


@contextmanager
def my_turn() -> Iterator[None]:
    """For whoever computes: waits until nobody else does."""
    with _turn:
        yield


def no_more_turns() -> bool:
    """Wait for whoever computes, and let nobody start again; returns whether all is quiet."""
    return _turn.acquire(timeout=PATIENCE)
