"""What can be set on the page, and within which limits: whatever widgets hold passes through here."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, get_args

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.families import FAMILIES
from bellsketch.core.ranges import ANCHOR_MARGIN, ReturnRange
from bellsketch.core.regression import Intercept
from bellsketch.tabular.environments import NAMES

MOST_FEATURES = 80
"""More, and the page no longer answers at once."""
SLOPES = (0.1, 10.0)
"""Factors of the default slope."""
RIDGES = (1e-15, 1.0)
REACH = 1.5
"""Anchors lie no further from the returns than this many times their range."""
MOST_WORDS = 40
"""Characters of a value that a message repeats."""
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
        _known("environment", self.environment, NAMES)
        _known("feature family", self.family, FAMILIES)
        _known("intercept", self.intercept, INTERCEPTS)
        _check("num_features", self.num_features, 1, MOST_FEATURES)
        _check("slope_factor", self.slope_factor, *SLOPES)
        _check("ridge", self.ridge, *RIDGES)
        for end in self.anchors:
            _check("anchors", end, -REACH, 1 + REACH)
        if not self.anchors[0] < self.anchors[1]:
            raise InputError(f"anchors from {self.anchors[0]:g} to {self.anchors[1]:g}: must start before they end")

    def anchor_range(self, returns: ReturnRange) -> ReturnRange:
        """The features' range in units of the return."""
        low, high = (returns.low + share * returns.width for share in self.anchors)
        return ReturnRange(low, high)


def from_page(
    *, environment: Any, family: Any, num_features: Any, log_slope: Any, anchors: Any, log_ridge: Any, intercept: Any
) -> Settings:
    """Settings from what widgets hold, which may be anything. Slope and ridge are logarithms to base 10."""
    if not isinstance(anchors, list | tuple) or len(anchors) != 2:
        raise InputError(f"anchors={_short(anchors)}: pass where they start and where they end")
    if isinstance(num_features, float) and num_features.is_integer():
        num_features = int(num_features)
    if isinstance(num_features, bool) or not isinstance(num_features, int):
        raise InputError(f"num_features={_short(num_features)}: pass a whole number")
    low, high = (_number("anchors", end, -REACH, 1 + REACH) for end in anchors)
    return Settings(
        _text("environment", environment),
        _text("family", family),
        num_features,
        10 ** _number("log_slope", log_slope, *map(math.log10, SLOPES)),
        (low, high),
        10 ** _number("log_ridge", log_ridge, *map(math.log10, RIDGES)),
        _text("intercept", intercept),
    )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name}={_short(value)}: pass a name")
    return value


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name}={_short(value)}: pass a number from {low:g} to {high:g}")
    _check(name, value, low, high)
    return float(value)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # also catches NaN
        raise InputError(f"{name}={_short(value)}: must lie between {low:g} and {high:g}")


def _known(kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise UnknownNameError(kind, _short(name)[1:-1], known)


def _short(value: Any) -> str:
    words = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "an enormous number"
    return words if len(words) <= MOST_WORDS else words[: MOST_WORDS - 1] + "…"
