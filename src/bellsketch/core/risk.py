"""What to be greedy in: criteria of a return distribution of the form max_j E[f_j(G)].

Each is linear in the distribution for fixed j, so that it can be read off a sketch as well as off atoms. The
conditional value at risk is one of them: CVaR_α(G) = max_c { c − E[(c − G)⁺]/α } (Rockafellar & Uryasev, 2000).
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.ranges import ReturnRange

THRESHOLDS = 101
"""Candidates for the maximising c of a CVaR, over the return range."""


class Criterion(ABC):
    """max_j E[f_j(G)]."""

    @abstractmethod
    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        """f_j at each return."""

    @final
    def of(self, distribution: AtomicDistribution) -> Float[Array, "*batch"]:
        """The value of each distribution of a batch."""
        z, p = distribution.locations, distribution.probabilities
        values = self(z.reshape(-1)).reshape(*z.shape, -1)
        return (p[..., None] * values).sum(axis=-2).max(axis=-1)


@dataclasses.dataclass(frozen=True)
class Mean(Criterion):
    """E[G]."""

    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        return returns[:, None]


MEAN = Mean()
"""What everybody is greedy in by default."""


@dataclasses.dataclass(frozen=True)
class Utility(Criterion):
    """E[f(G)] for any function f of arrays."""

    f: Callable[[Any], Any]

    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        xp = namespace(returns)
        with np.errstate(all="ignore"):  # what is not finite is an error below
            values = xp.asarray(self.f(returns), dtype=returns.dtype)
        if values.shape != returns.shape:
            raise InputError(f"f must map {returns.size} returns to as many numbers, got shape {values.shape}")
        wrong = _first_not_finite(values)
        if wrong is not None:
            raise InputError(
                f"f({returns[wrong]:.6g}) = {values[wrong]}, and returns may be that: pass an f that is finite for all"
                " of them, such as lambda g: np.log(np.maximum(g, 0.01)), or a return_range, where it is taken, on"
                " which f is finite with some room to spare"
            )
        return values[:, None]


@dataclasses.dataclass(frozen=True)
class Exceeds(Criterion):
    """P(G > threshold)."""

    threshold: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise InputError(f"threshold={self.threshold}: pass a finite number")

    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        return (returns[:, None] > self.threshold).astype(returns.dtype)


@dataclasses.dataclass(frozen=True)
class ExponentialUtility(Criterion):
    """E[(1 − e^{−kG})/k]: risk-averse for k > 0, risk-seeking for k < 0."""

    aversion: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.aversion) and self.aversion != 0):
            raise InputError(f"aversion={self.aversion}: pass a finite number other than 0, or use Mean()")

    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        with np.errstate(over="ignore"):  # an error below
            values = -namespace(returns).expm1(-self.aversion * returns) / self.aversion
        wrong = _first_not_finite(values)
        if wrong is not None:
            largest = np.log(np.finfo(values.dtype).max) / abs(float(returns[wrong]))
            raise InputError(
                f"aversion={self.aversion}: e^(-aversion * return) overflows at a return of {returns[wrong]:.6g}; pass"
                f" an aversion of at most {largest:.2g} in size, or measure rewards in larger units"
            )
        return values[:, None]


@dataclasses.dataclass(frozen=True)
class CVaR(Criterion):
    """The mean of the worst share ``level`` of returns in [low, high].

    Only so many c are tried, 2h from one to the next: the value is too low by at most max(1, 1/level − 1) h.
    :meth:`AtomicDistribution.cvar` is exact.
    """

    level: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.level <= 1:
            raise InputError(f"level={self.level}: must lie in (0, 1]; 1 is the mean")
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise InputError(f"[{self.low}, {self.high}] is not an interval of returns: pass finite low < high")

    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        c = np.linspace(self.low, self.high, THRESHOLDS, dtype=returns.dtype)
        return c - namespace(returns).maximum(c - returns[:, None], 0.0) / self.level


def _first_not_finite(values: Any) -> int | None:
    """Where NumPy values are infinite or not a number; those of JAX may not be known yet."""
    if not isinstance(values, np.ndarray) or np.isfinite(values).all():
        return None
    return int(np.argmin(np.isfinite(values)))


def make_criterion(name: str, returns: ReturnRange) -> Criterion:
    """``mean``, ``cvar:LEVEL``, ``exceeds:THRESHOLD`` or ``utility:AVERSION``."""
    kind, _, number = name.partition(":")
    kinds: dict[str, Any] = {
        "mean": lambda _: MEAN,
        "cvar": lambda level: CVaR(level, returns.low, returns.high),
        "exceeds": Exceeds,
        "utility": ExponentialUtility,
    }
    if kind not in kinds:
        raise UnknownNameError("risk", kind, kinds)
    if kind == "mean" and number:
        raise InputError(f"risk={name!r}: mean takes no number")
    try:
        value = float(number) if kind != "mean" else 0.0
    except ValueError:
        raise InputError(f"risk={name!r}: write a number after {kind}, such as {kind}:0.25") from None
    if not np.isfinite(value):
        raise InputError(f"risk={name!r}: the number after {kind} must be finite, such as {kind}:0.25")
    return kinds[kind](value)


def as_criterion(value: Any, returns: ReturnRange) -> Criterion:
    """A criterion, its name, or a function f that stands for E[f(G)]."""
    if isinstance(value, Criterion):
        return value
    if isinstance(value, str):
        return make_criterion(value, returns)
    if callable(value):
        return Utility(value)
    raise InputError(f"criterion={value!r}: pass a name such as 'cvar:0.1', a function of returns or a Criterion")
