"""What to be greedy in: criteria of a return distribution of the form max_j E[f_j(G)].

Each is linear in the distribution for fixed j, so that it can be read off a sketch as well as off atoms. The
conditional value at risk is one of them: CVaR_α(G) = max_c { c − E[(c − G)⁺]/α } (Rockafellar & Uryasev, 2000).
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import final

import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError

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
class Exceeds(Criterion):
    """P(G > threshold)."""

    threshold: float

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
        return -namespace(returns).expm1(-self.aversion * returns[:, None]) / self.aversion


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
        if not self.low < self.high:
            raise InputError(f"[{self.low}, {self.high}] is not an interval of returns: pass low < high")

    def __call__(self, returns: Float[Array, " n"]) -> Float[Array, "n j"]:
        c = np.linspace(self.low, self.high, THRESHOLDS, dtype=returns.dtype)
        return c - namespace(returns).maximum(c - returns[:, None], 0.0) / self.level
