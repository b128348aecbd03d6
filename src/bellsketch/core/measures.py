"""Regression distributions μ that are not grids: uniform, normal, any density, and Lebesgue measure.

A grid is an ``AtomicDistribution``, for example ``ReturnRange(low, high).grid()``. Under the measures here moments of
features are found in closed form where ``closed_form`` has one, and by Gauss–Legendre quadrature otherwise.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import stats

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap

STANDARD_DEVIATIONS = 8.5
"""A normal density has no mass visible in float64 further out."""
PANEL_ORDER = 16
"""Gauss–Legendre nodes in each panel of a rule."""


class Measure(ABC):
    """A probability distribution with a density that vanishes, or is too small to see, outside an interval."""

    @property
    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """Where the density is."""

    @abstractmethod
    def density(self, points: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """At each point of the interval, up to a constant factor."""

    def rule(self, num_panels: int, breaks: Float[np.ndarray, " k"] | None = None) -> AtomicDistribution:
        """A composite Gauss–Legendre rule: points and weights that integrate smooth functions under this measure.

        ``breaks`` are points at which panels end too, because the functions to be integrated jump or bend there.
        """
        if num_panels < 1:
            raise InputError(f"num_panels={num_panels}: must be at least 1")
        low, high = self.interval
        edges = np.linspace(low, high, num_panels + 1)
        if breaks is not None:
            edges = np.unique(np.concatenate([edges, np.clip(breaks, low, high)]))
        x, w = np.polynomial.legendre.leggauss(PANEL_ORDER)
        halves = np.diff(edges)[:, None] / 2
        points = (edges[:-1, None] + halves * (x + 1)).ravel()
        weights = (halves * w).ravel() * self.density(points)
        return AtomicDistribution(points, weights / weights.sum())


@dataclasses.dataclass(frozen=True)
class Uniform(Measure):
    """Uniform on [low, high]."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InputError(f"[{self.low}, {self.high}] is not an interval: pass finite numbers with low < high")

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def density(self, points: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.ones(points.shape)


@dataclasses.dataclass(frozen=True)
class Normal(Measure):
    """A normal distribution."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.mean) and np.isfinite(self.std) and self.std > 0):
            raise InputError(f"Normal({self.mean}, {self.std}): needs a finite mean and a positive standard deviation")

    @property
    def interval(self) -> tuple[float, float]:
        reach = STANDARD_DEVIATIONS * self.std
        return self.mean - reach, self.mean + reach

    def density(self, points: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.asarray(stats.norm.pdf(points, self.mean, self.std))


@dataclasses.dataclass(frozen=True)
class Density(Measure):
    """Any density on [low, high], normalised or not."""

    pdf: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float

    def __post_init__(self) -> None:
        Uniform(self.low, self.high)

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def density(self, points: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        values = np.asarray(self.pdf(points), dtype=np.float64)
        good = values.shape == points.shape and np.all(np.isfinite(values)) and values.min() >= 0 < values.max()
        if not good:
            raise InputError(
                f"pdf: must take an array of points in [{self.low}, {self.high}] to as many finite numbers ≥ 0, not"
                " all of them 0"
            )
        return values


@dataclasses.dataclass(frozen=True)
class Lebesgue:
    """The whole line with density 1: no probability distribution, so that no intercept can be fitted under it."""


QUADRATURE_TOLERANCE = 1e-12
MAX_PANELS = 2_048


def quadrature_rule(features: FeatureMap, measure: Measure) -> AtomicDistribution:
    """A rule with panels halved until the second moments of the features no longer change.

    Panels end where features jump or bend, so that on each they are smooth. Moments with φ(r + γg), which bends
    elsewhere, have an error that falls with the panels' width.
    """
    panels, previous = 8, np.inf
    while True:
        rule = measure.rule(panels, None if features.breaks is None else np.asarray(features.breaks))
        phi = features(rule.locations)
        second = (phi * np.asarray(rule.probabilities)[:, None]).T @ phi
        if np.abs(second - previous).max() <= QUADRATURE_TOLERANCE * np.abs(second).max() or panels >= MAX_PANELS:
            return rule
        panels, previous = 2 * panels, second
