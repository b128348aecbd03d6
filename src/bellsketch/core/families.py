"""Feature maps by name, spread over a range of returns by the paper's heuristics."""

import functools
import inspect
from collections.abc import Callable

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.features import (
    Bins,
    Erf,
    FeatureMap,
    Fourier,
    Gaussian,
    Indicator,
    Morlet,
    Parabolic,
    Polynomial,
    Quartic,
    Sigmoid,
    Tanh,
)
from bellsketch.core.ranges import ReturnRange

FAMILIES: dict[str, Callable[..., FeatureMap]] = {
    "sigmoid": Sigmoid.from_range,
    "gaussian": Gaussian.from_range,
    "tanh": Tanh.from_range,
    "erf": Erf.from_range,
    "parabolic": Parabolic.from_range,
    "quartic": Quartic.from_range,
    "morlet": Morlet.from_range,
    "indicator": Indicator.from_range,
    "bins": Bins.from_range,
    "overlapping_bins": functools.partial(Bins.from_range, overlap=2),
    "fourier": Fourier.from_range,
    "polynomial": Polynomial.from_range,
}
"""Constructors from a return range by the paper's heuristics (App. "Choices of feature function"), by name."""


def make_features(
    name: str,
    return_range: ReturnRange,
    num_features: int,
    *,
    slope_factor: float = 1.0,
    margin: float | None = None,
) -> FeatureMap:
    """The family of that name, spread over a return range.

    ``slope_factor`` multiplies its default slope, and ``margin`` is how far features reach beyond the range; default:
    the family's.
    """
    if name not in FAMILIES:
        raise UnknownNameError("feature family", name, FAMILIES)
    options = {} if margin is None else {"margin": margin}
    if slope_factor != 1.0:
        if "slope_factor" not in inspect.signature(FAMILIES[name]).parameters:
            raise InputError(f"slope_factor={slope_factor}: {name} features have no slope; leave it at 1")
        options["slope_factor"] = slope_factor
    return FAMILIES[name](return_range, num_features, **options)
