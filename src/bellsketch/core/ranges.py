"""The interval returns live in, and the grids that the paper's heuristics build on it."""

import dataclasses

import numpy as np
from jaxtyping import Float

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError

ANCHOR_MARGIN = 0.4  # a in App. "Choices of feature function"
GRID_MARGIN = 0.2  # b in App. "Choices of regression distribution"


@dataclasses.dataclass(frozen=True)
class ReturnRange:
    """An interval [Ĝ_min, Ĝ_max] of returns, of width L̂."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"return range [{self.low}, {self.high}] is not an interval: pass finite numbers with low < high"
            )

    @property
    def width(self) -> float:
        """L̂, from the lowest to the highest."""
        return self.high - self.low

    def expand(self, margin: float) -> "ReturnRange":
        """Widen both ends by ``margin`` times the width."""
        return ReturnRange(self.low - margin * self.width, self.high + margin * self.width)

    def hull(self, other: "ReturnRange") -> "ReturnRange":
        """The least interval that contains both."""
        return ReturnRange(min(self.low, other.low), max(self.high, other.high))

    def points(self, num: int) -> Float[np.ndarray, " n"]:
        """``num`` evenly spaced points from end to end (the midpoint if there is only one)."""
        if num < 1:
            raise InputError(f"number of points must be at least 1, got {num}")
        return np.linspace(self.low, self.high, num) if num > 1 else np.array([(self.low + self.high) / 2])

    def grid(self, num_points: int = 10_000, margin: float = GRID_MARGIN) -> AtomicDistribution:
        """The paper's regression distribution μ: uniform on an even grid, slightly wider than the range."""
        if num_points < 2:
            raise InputError(f"num_points={num_points}: a regression grid needs at least 2 points")
        points = self.expand(margin).points(num_points)
        return AtomicDistribution(points, np.full(num_points, 1 / num_points))
