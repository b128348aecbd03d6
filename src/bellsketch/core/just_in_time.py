"""Bellman coefficients for rewards that are not known beforehand, computed when they are first met."""

import collections
import dataclasses
import threading
from typing import Any

from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.coefficients import AffineMap, CoefficientFitter, RegressionMeasure, check_discount
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.rewards import Reward, as_reward


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """How a cache has done so far."""

    hits: int
    misses: int
    size: int
    max_size: int

    @property
    def hit_rate(self) -> float:
        return self.hits / max(self.hits + self.misses, 1)


class JustInTimeCoefficients:
    """Coefficients by reward and discount, fitted on demand and kept, the least recently used dropped first.

    The covariance of the features is factorised once, so that a new reward costs one right-hand side. Any number of
    threads may ask at once.
    """

    def __init__(
        self,
        features: FeatureMap,
        mu: RegressionMeasure,
        *,
        ridge: float = 1e-9,
        intercept: str = "free",
        tolerance: float | None = None,
        max_size: int = 1_024,
    ):
        if max_size < 1:
            raise InputError(f"max_size={max_size}: the cache must hold at least one reward")
        self.features, self.max_size, self.tolerance = features, max_size, tolerance
        self._fitter = CoefficientFitter(features, mu, ridge=ridge, intercept=intercept)
        self._kept: collections.OrderedDict[tuple[Reward, float], AffineMap] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def at(self, reward: Any, discount: float) -> tuple[Float[Array, "m m"], Float[Array, " m"]]:
        """A and c for one reward (a number or a distribution) and discount."""
        found = self._look_up((as_reward(reward), check_discount(discount)))
        return found.matrix, found.offset

    def _look_up(self, key: tuple[Reward, float]) -> AffineMap:
        with self._lock:
            if key in self._kept:
                self._hits += 1
                self._kept.move_to_end(key)
                return self._kept[key]
        (fitted,) = self._fitter.fit(key, tolerance=self.tolerance)  # outside the lock: others need not wait
        for shared in (fitted.matrix, fitted.offset):
            shared.setflags(write=False)
        with self._lock:
            self._misses += 1
            self._kept[key] = fitted
            self._kept.move_to_end(key)
            while len(self._kept) > self.max_size:
                self._kept.popitem(last=False)
        return fitted

    @property
    def info(self) -> CacheInfo:
        """Hits, misses and how full it is."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._kept), self.max_size)
