"""What can be set on the page, and within which limits. Everything that comes from there passes through here."""

import dataclasses
import math
from typing import Any, get_args

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.families import FAMILIES
from bellsketch.core.ranges import ANCHOR_MARGIN, ReturnRange
from bellsketch.core.regression import Intercept
from bellsketch.tabular.environments import NAMES

MOST_FEATURES = 80
"""With more, a change takes longer than a second."""
SLOPES = (0.1, 10.0)
"""Factors of the default slope."""
RIDGES = (1e-15, 1.0)
REACH = 1.5
"""Anchors lie no further from the returns than this many times their range."""
INTERCEPTS: tuple[str, ...] = get_args(Intercept)


@dataclasses.dataclass(frozen=True)
class Settings:
    """One choice of everything."""

    environment: str = "loopy_fork"
    family: str = "sigmoid"
    num_features: int = 20
    """m."""
    slope_factor: float = 1.0
    """Multiplies the family's default slope, 5 × width / (range of returns)."""
    anchors: tuple[float, float] = (-ANCHOR_MARGIN, 1 + ANCHOR_MARGIN)
    """Where the features' range starts and ends, on a scale on which returns range from 0 to 1."""
    ridge: float = 1e-9
    intercept: str = "free"

    def __post_init__(self) -> None:
        _one_of("environment", self.environment, NAMES)
        _one_of("feature family", self.family, FAMILIES)
        _one_of("intercept", self.intercept, INTERCEPTS)
        _between("num_features", self.num_features, 1, MOST_FEATURES)
        if self.num_features != int(self.num_features):
            raise InputError(f"num_features={self.num_features}: pass a whole number")
        _between("slope_factor", self.slope_factor, *SLOPES)
        _between("ridge", self.ridge, *RIDGES)
        if not isinstance(self.anchors, list | tuple) or len(self.anchors) != 2:
            raise InputError(f"anchors={_short(self.anchors)}: pass where they start and where they end")
        for end in self.anchors:
            _between("anchors", end, -REACH, 1 + REACH)
        if not self.anchors[0] < self.anchors[1]:
            raise InputError(f"anchors from {self.anchors[0]:g} to {self.anchors[1]:g}: must start before they end")
        object.__setattr__(self, "num_features", int(self.num_features))
        object.__setattr__(self, "anchors", tuple(self.anchors))

    def anchor_range(self, returns: ReturnRange) -> ReturnRange:
        """The features' range in units of the return."""
        low, high = (returns.low + share * returns.width for share in self.anchors)
        return ReturnRange(low, high)


def from_page(*, log_slope: Any, log_ridge: Any, **values: Any) -> Settings:
    """Settings from what the widgets hold, of which slope and ridge are logarithms to base 10."""
    slope = _power("log_slope", log_slope, *map(math.log10, SLOPES))
    ridge = _power("log_ridge", log_ridge, *map(math.log10, RIDGES))
    return Settings(slope_factor=slope, ridge=ridge, **values)


def _power(name: str, value: Any, low: float, high: float) -> float:
    _between(name, value, low, high)
    return float(10.0**value)


def _one_of(kind: str, name: Any, known: Any) -> None:
    if not isinstance(name, str):
        raise InputError(f"{kind}={_short(name)}: pass a name")
    if name not in known:
        raise UnknownNameError(kind, name[:40], known)


def _between(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{name}={_short(value)}: pass a finite number from {low:g} to {high:g}")
    if not low <= value <= high:
        raise InputError(f"{name}={value:g}: must lie between {low:g} and {high:g}")


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 40 else words[:39] + "…"
