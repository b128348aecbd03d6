"""Bellman coefficients: φ(r + γg) ≈ A φ(g) + c, for rewards × discounts."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.closed_form import ClosedFormRegression, has_closed_form
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError, MissingRewardError
from bellsketch.core.features import FeatureMap, Polynomial
from bellsketch.core.measures import Lebesgue, Measure, quadrature_rule
from bellsketch.core.memory import check_fits
from bellsketch.core.pytree import pytree, static
from bellsketch.core.regression import FitReport, Function, Regression, check_tolerance
from bellsketch.core.rewards import Reward, as_reward
from bellsketch.core.structure import choose_form

RegressionMeasure = AtomicDistribution | Measure | Lebesgue
"""What a regression distribution μ can be."""


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

    def structure(self, tolerance: float | None = None) -> dict[tuple[str, float], str]:
        """What ``choose_form`` makes of each A, in words, by the reward's name and the discount (above 0)."""
        return {
            (reward.name, discount): choose_form(np.asarray(self.matrices[i, j]), tolerance).description
            for i, reward in enumerate(self.rewards)
            for j, discount in enumerate(self.discounts)
            if discount > 0
        }

    @property
    def _fitted(self) -> list[FitReport]:
        return [report for row in self.reports for report in row if report is not None]


def fit_coefficients(
    features: FeatureMap,
    mu: RegressionMeasure,
    rewards: Iterable[Any],
    discounts: Iterable[float],
    *,
    ridge: float = 1e-9,
    intercept: str = "free",
    tolerance: float | None = None,
) -> BellmanCoefficients:
    """Fit Bellman coefficients for all rewards × discounts by regression under μ, in float64.

    Args:
      features: φ.
      mu: the regression distribution over returns: a grid such as ``ReturnRange(low, high).grid()``, or a measure
        (see ``bellsketch.measures``), whose moments are in closed form or by quadrature.
      rewards: numbers, atomic distributions or frozen ``scipy.stats`` distributions.
      discounts: each in [0, 1]; 0 stands for termination.
      ridge: penalty on the coefficients, per unit mass of μ.
      intercept: ``free``, ``penalised`` or ``none``, see :class:`Regression`.
      tolerance: raise if any regression error is larger than this.
    """
    rewards = tuple(dict.fromkeys(as_reward(r) for r in rewards))
    discounts = tuple(dict.fromkeys(check_discount(d) for d in discounts))
    if not rewards or not discounts:
        raise InputError(f"need at least one reward and one discount, got {len(rewards)} and {len(discounts)}")
    check_fits(
        f"coefficients of {len(rewards):,} rewards × {len(discounts)} discounts × {features.num_features}² features",
        2.0 * 8 * len(rewards) * len(discounts) * features.num_features**2,
        "use fewer features, or JustInTimeCoefficients",
    )
    pairs = [(reward, discount) for reward in rewards for discount in discounts]
    if any(discount > 0 for discount in discounts):
        fitted = CoefficientFitter(features, mu, ridge=ridge, intercept=intercept).fit(*pairs, tolerance=tolerance)
    else:
        fitted = [_of_termination(features, reward) for reward in rewards]
    m, shape = features.num_features, (len(rewards), len(discounts))
    columns = len(discounts)
    return BellmanCoefficients(
        features,
        np.stack([pair.matrix for pair in fitted]).reshape(*shape, m, m),
        np.stack([pair.offset for pair in fitted]).reshape(*shape, m),
        rewards,
        discounts,
        tuple(tuple(pair.report for pair in fitted[i * columns : (i + 1) * columns]) for i in range(len(rewards))),
        intercept,
    )


@dataclasses.dataclass(frozen=True)
class AffineMap:
    """φ(r + γg) ≈ matrix φ(g) + offset, for one reward and discount."""

    matrix: Float[np.ndarray, "m m"]
    offset: Float[np.ndarray, " m"]
    report: FitReport | None
    """None if it is exact."""


class CoefficientFitter:
    """Fits coefficients for any reward and discount; what they share, the factorised covariance, is computed once.

    Polynomial features with a free intercept need no regression: their coefficients are written down exactly.
    """

    def __init__(self, features: FeatureMap, mu: RegressionMeasure, *, ridge: float = 1e-9, intercept: str = "free"):
        self.features, self.ridge, self.intercept = features, ridge, intercept
        options: dict[str, Any] = {"ridge": ridge, "intercept": intercept}
        self._closed: ClosedFormRegression | None = None
        self._regression: Regression | None = None
        if isinstance(features, Polynomial) and intercept == "free":
            self.method = "exact"
        elif not isinstance(mu, AtomicDistribution) and has_closed_form(features, mu):
            self._closed, self.method = ClosedFormRegression(features, mu, **options), "closed form"
        elif isinstance(mu, Lebesgue):
            raise InputError(f"mu: {type(features).__name__} features cannot be integrated over the whole line")
        else:
            self.method = "regression" if isinstance(mu, AtomicDistribution) else "quadrature"
            grid = mu if isinstance(mu, AtomicDistribution) else quadrature_rule(features, mu)
            self._regression = Regression(features, grid, **options)

    def fit(self, *pairs: tuple[Reward, float], tolerance: float | None = None) -> list[AffineMap]:
        """A and c of each (reward, discount)."""
        going_on = [(reward, discount) for reward, discount in pairs if discount > 0]
        fits = iter(self._fit_going_on(going_on, tolerance))
        return [next(fits) if discount > 0 else _of_termination(self.features, reward) for reward, discount in pairs]

    def _fit_going_on(self, pairs: list[tuple[Reward, float]], tolerance: float | None) -> list[AffineMap]:
        if isinstance(self.features, Polynomial) and self.method == "exact":
            return [AffineMap(*_exact_coefficients(self.features, *pair), None) for pair in pairs]
        targets = [expected_features(self.features, reward, discount) for reward, discount in pairs]
        if self._closed is not None:
            fits = [self._closed.fit(target, *pair) for target, pair in zip(targets, pairs, strict=True)]
            check_tolerance(fits, tolerance, self.ridge)
        else:
            assert self._regression is not None
            fits = self._regression.fit(*targets, tolerance=tolerance)
        return [AffineMap(fit.matrix, fit.offset, fit.report) for fit in fits]


def _of_termination(features: FeatureMap, reward: Reward) -> AffineMap:
    m = features.num_features
    return AffineMap(np.zeros((m, m)), expected_features(features, reward, 0.0)(np.zeros(1))[0], None)


def check_discount(discount: Any) -> float:
    """A discount as a number in [0, 1]."""
    if not 0 <= float(discount) <= 1:
        raise InputError(f"discounts: {float(discount)} lies outside [0, 1]")
    return float(discount)


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
