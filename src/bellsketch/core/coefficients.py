"""Bellman coefficients: φ(r + γg) ≈ A φ(g) + c, for rewards × discounts."""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, MissingRewardError
from bellsketch.core.features import FeatureMap, Polynomial
from bellsketch.core.pytree import pytree, static
from bellsketch.core.regression import FitReport, Function, Regression
from bellsketch.core.rewards import Reward, as_reward


@pytree
class BellmanCoefficients:
    """A and c of φ(r + γg) ≈ A φ(g) + c, one pair for each reward i and discount j.

    For a random reward they are the expected coefficients, E[A_R] and E[c_R]. At discount 0 there is nothing to
    regress: A = 0 and c = E[φ(R)] exactly, which is what a terminating transition needs.
    """

    features: FeatureMap
    matrices: Float[Array, "r d m m"]
    """A, of shape [m_out, m_in] for each reward and discount."""
    offsets: Float[Array, "r d m"]
    """c."""
    rewards: tuple[Reward, ...] = static()
    discounts: tuple[float, ...] = static()
    reports: tuple[tuple[FitReport | None, ...], ...] = static()
    """The regression's error report for each reward and discount; None at discount 0, which is exact."""
    intercept: str = static()

    def index(self, reward: Any, discount: float) -> tuple[int, int]:
        """Where a reward and a discount stand; raises if there are no coefficients for them."""
        wanted = as_reward(reward)
        if wanted not in self.rewards:
            raise MissingRewardError(
                f"reward {wanted.name} has no Bellman coefficients; there are some for"
                f" {', '.join(r.name for r in self.rewards)}. Fit them with this reward in the list"
            )
        if discount not in self.discounts:
            raise MissingRewardError(
                f"discount {discount} has no Bellman coefficients; there are some for {self.discounts}."
                " Fit them with this discount in the list"
            )
        return self.rewards.index(wanted), self.discounts.index(discount)

    def at(self, reward: Any, discount: float) -> tuple[Float[Array, "m m"], Float[Array, " m"]]:
        """A and c for one reward and discount."""
        i, j = self.index(reward, discount)
        return self.matrices[i, j], self.offsets[i, j]

    @property
    def max_error(self) -> float:
        """The largest absolute regression error over all rewards and discounts."""
        return max((r.max_error for r in self._fitted), default=0.0)

    @property
    def max_norm_error(self) -> float:
        """The largest norm of the regression error: ε_B of Prop. 1 on the regression grid."""
        return max((r.max_norm_error for r in self._fitted), default=0.0)

    @property
    def operator_norm(self) -> float:
        """max_r ‖A_r‖₂: below 1, every backup contracts in L²."""
        return float(np.linalg.norm(np.asarray(self.matrices), ord=2, axis=(-2, -1)).max())

    @property
    def _fitted(self) -> list[FitReport]:
        return [report for row in self.reports for report in row if report is not None]


def fit_coefficients(
    features: FeatureMap,
    mu: AtomicDistribution,
    rewards: Iterable[Any],
    discounts: Iterable[float],
    *,
    ridge: float = 1e-9,
    intercept: str = "free",
    tolerance: float | None = None,
) -> BellmanCoefficients:
    """Fit Bellman coefficients for all rewards × discounts by regression under μ, in float64.

    Polynomial features need no regression: with a free intercept their coefficients are written down exactly.

    Args:
      features: φ.
      mu: the regression distribution over returns, for example ``ReturnRange(low, high).grid()``.
      rewards: numbers, atomic distributions or frozen ``scipy.stats`` distributions.
      discounts: each in [0, 1]; 0 stands for termination.
      ridge: penalty on the coefficients, per unit mass of μ.
      intercept: ``free``, ``penalised`` or ``none``, see :class:`Regression`.
      tolerance: raise if any regression error is larger than this.
    """
    rewards = tuple(dict.fromkeys(as_reward(r) for r in rewards))
    discounts = tuple(dict.fromkeys(float(d) for d in discounts))
    if not rewards or not discounts:
        raise InputError(f"need at least one reward and one discount, got {len(rewards)} and {len(discounts)}")
    if bad := [d for d in discounts if not 0 <= d <= 1]:
        raise InputError(f"discounts: {bad[0]} lies outside [0, 1]")

    m = features.num_features
    matrices = np.zeros((len(rewards), len(discounts), m, m))
    offsets = np.zeros((len(rewards), len(discounts), m))
    reports: list[list[FitReport | None]] = [[None] * len(discounts) for _ in rewards]
    wanted = [(i, j) for i in range(len(rewards)) for j, discount in enumerate(discounts) if discount > 0]
    if isinstance(features, Polynomial) and intercept == "free":
        for i, j in wanted:
            matrices[i, j], offsets[i, j] = _exact_coefficients(features, rewards[i], discounts[j])
    elif wanted:
        regression = Regression(features, mu, ridge=ridge, intercept=intercept)
        targets = [expected_features(features, rewards[i], discounts[j]) for i, j in wanted]
        for (i, j), fit in zip(wanted, regression.fit(*targets, tolerance=tolerance), strict=True):
            matrices[i, j], offsets[i, j], reports[i][j] = fit.matrix, fit.offset, fit.report
    for j, discount in enumerate(discounts):
        if discount == 0:
            for i, reward in enumerate(rewards):
                offsets[i, j] = expected_features(features, reward, 0.0)(np.zeros(1))[0]
    return BellmanCoefficients(
        features, matrices, offsets, rewards, discounts, tuple(tuple(row) for row in reports), intercept
    )


def _exact_coefficients(features: Polynomial, reward: Reward, discount: float) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of Bellman closed features: nothing to regress, and no error.

    With x = (g − centre)/scale, the transformed return is γx + (R + γ·centre − centre)/scale.
    """
    matrix = np.zeros((features.num_features, features.num_features))
    for atom, weight in zip(reward.atoms, reward.weights, strict=True):
        shift = (atom + (discount - 1) * features.centre) / features.scale
        matrix += weight * features.composition(discount, shift)
    offset = matrix[:, 0].copy()  # of the constant feature, which is 1
    matrix[:, 0] = 0.0
    return matrix, offset


@functools.lru_cache(maxsize=4)
def expected_features(features: FeatureMap, reward: Reward, discount: float) -> Function:
    """g ↦ E[φ(R + γg)], the target of the regression.

    Under a random reward that is expensive, and asked for again: by the report on a fit, and by fits with another
    intercept. So the last few targets are remembered, with their values on grids.
    """
    if reward.is_deterministic:
        return lambda returns: features(reward.atoms[0] + discount * returns)
    kept: dict[bytes, np.ndarray] = {}

    def target(returns: np.ndarray) -> np.ndarray:
        key = returns.tobytes()
        if key not in kept:
            values = np.zeros((len(returns), features.num_features))
            for atom, weight in zip(reward.atoms, reward.weights, strict=True):
                values += weight * features(atom + discount * returns)
            values.setflags(write=False)
            kept[key] = values
        return kept[key]

    return target
