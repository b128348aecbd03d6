"""Checks of arguments that several modules share."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bellsketch.core.errors import InputError, UnknownNameError


def positive_count(num_features: int) -> None:
    """Raise unless there is at least one feature."""
    if num_features < 1:
        raise InputError(f"num_features={num_features}: a feature map needs at least one feature (m ≥ 1)")


def known_keys(where: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise at the first key that nobody knows, and name the nearest."""
    if unknown := [key for key in given if key not in known]:
        raise UnknownNameError(f"key in {where}", unknown[0], known)


def increasing(name: str, values: Any, *, at_least: int) -> np.ndarray:
    """``values`` as a float64 vector, sorted without duplicates."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size < at_least:
        raise InputError(f"{name}: expected a vector of at least {at_least} numbers, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name}: all entries must be finite, entry {np.argmin(np.isfinite(array))} is not")
    if (bad := np.flatnonzero(np.diff(array) <= 0)).size:
        i = int(bad[0])
        raise InputError(
            f"{name} must be sorted without duplicates, but entry {i} is {array[i]} and entry {i + 1} is"
            f" {array[i + 1]}: pass np.unique({name})"
        )
    return array
