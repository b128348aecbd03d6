"""Saying that something does not fit before it is allocated."""

import psutil

from bellsketch.core.errors import AllocationError


def available_bytes() -> int:
    """Memory that can be used without swapping."""
    return int(psutil.virtual_memory().available)


def check_fits(what: str, num_bytes: float, remedy: str, available: int | None = None) -> None:
    """Raise if ``num_bytes`` are more than the machine has left, or than are ``available``."""
    available = available_bytes() if available is None else available
    if num_bytes > available:
        raise AllocationError(
            f"{what} would take {num_bytes / 1e9:,.1f} GB, and {available / 1e9:,.1f} GB of memory are available for"
            f" it: {remedy}"
        )
