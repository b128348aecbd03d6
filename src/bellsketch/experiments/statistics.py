"""Interquartile means of scores over games and seeds, with stratified bootstrap intervals (Agarwal et al., 2021)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float

from bellsketch.core.errors import InputError

Statistic = Callable[..., Any]
"""From scores [..., s, k], of one method or of several, to numbers [...]."""

NUM_RESAMPLES = 2_000
LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number, or an array of them, and the interval in which it probably lies."""

    value: Any
    low: Any
    high: Any

    def end(self, relation: str) -> Any:
        """The end that decides whether all of the interval lies above (>, ≥) or below (<, ≤) a threshold."""
        return self.low if relation in (">", "≥") else self.high

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interquartile_mean(scores: Float[np.ndarray, "*b s k"]) -> Any:
    """The mean of the middle half of all runs, whatever their game; s seeds, k games.

    It ignores outlying runs as a median does, but is as certain as a mean of half as many.
    """
    flat = scores.reshape(*scores.shape[:-2], -1)
    # NaN sorts behind all numbers and would be trimmed as if it were the best run.
    return np.where(np.isnan(flat).any(axis=-1), np.nan, scipy.stats.trim_mean(flat, 0.25, axis=-1))[()]


def run_mean(scores: Float[np.ndarray, "*b s k"]) -> Any:
    """Of all runs, whatever their game."""
    return scores.mean(axis=(-2, -1))


def seed_mean(scores: Float[np.ndarray, "*b s k"]) -> Any:
    """Of each game."""
    return scores.mean(axis=-2)


def resample(
    rng: np.random.Generator, scores: Float[np.ndarray, "s k"], num: int = NUM_RESAMPLES
) -> Float[np.ndarray, "{num} s k"]:
    """As many seeds as there are, drawn with replacement in each game by itself: games are not random, seeds are."""
    seeds, games = scores.shape
    drawn = rng.integers(seeds, size=(num, seeds, games))
    return scores[drawn, np.arange(games)]


def bootstrap(
    rng: np.random.Generator,
    statistic: Statistic,
    *scores: Float[np.ndarray, "s _"],
    num: int = NUM_RESAMPLES,
    level: float = LEVEL,
) -> Estimate:
    """A statistic of the scores of one or several methods, with its percentile interval.

    Methods are resampled independently of each other, since seeds of different methods have nothing in common.
    """
    if not scores or any(table.size == 0 for table in scores):
        raise InputError("scores: there are none; pass at least one seed of one game")
    tail = 100 * (1 - level) / 2
    values = statistic(*(resample(rng, table, num) for table in scores))
    low, high = np.percentile(values, [tail, 100 - tail], axis=0)
    return Estimate(statistic(*scores), low, high)
