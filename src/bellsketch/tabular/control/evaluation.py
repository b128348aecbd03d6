"""What a policy and each deviation from it bring, as sketches, and what a criterion says of them."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.coefficients import BellmanCoefficients, fit_coefficients
from bellsketch.core.errors import InputError
from bellsketch.core.families import make_features
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder, fine_decoder
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.readout import CriterionReadout, fit_criterion
from bellsketch.core.risk import Criterion, ExponentialUtility, as_criterion
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.operator import AffineOperator
from bellsketch.tabular.sketch import sketch_operator
from bellsketch.tabular.solve import READOUT_TOLERANCE, Solution

READOUT_GAIN, DECODED_GAIN = 1e-6, 1e-3
"""An action is left for another only for a gain of this share of f's spread: what readouts and decoded distributions
can tell apart."""
LARGEST_RATIO = 1e4
"""Of e^{−kg} over the range: beyond, what a readout can tell apart at the steep end hides all that happens at the flat
one."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How policies are evaluated."""

    features: str | FeatureMap
    num_features: int
    ridge: float


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates policies of one MDP with one set of features, over a range that their returns do not leave."""

    mdp: MDP
    criterion: Criterion
    return_range: ReturnRange
    coefficients: BellmanCoefficients
    ridge: float

    def solution(self, policy: Int[np.ndarray, " s"]) -> Solution:
        """Of following the policy."""
        mrp = self.mdp.mrp(policy)
        operator = sketch_operator(mrp, self.coefficients)
        return Solution(
            mrp,
            self.coefficients.features,
            self.return_range,
            self.coefficients,
            operator,
            self.decoder,
            fixed_point(operator),
            self.ridge,
        )

    def action_sketches(self, sketch: Float[np.ndarray, "s m"]) -> Float[np.ndarray, "s a m"]:
        """U(x, a) = E[A_R U(X') + c_R | x, a]: one backup for each action."""
        return np.stack([operator(sketch) for operator in self._operators], axis=1)

    def values(self, sketch: Float[np.ndarray, "... m"]) -> Float[np.ndarray, "..."]:
        """The criterion, read off sketches; of decoded distributions where it jumps."""
        if self.smooth:
            return np.asarray(self.readout(sketch))
        return np.asarray(self.criterion.of(self.decoder(sketch)))

    @property
    def least_gain(self) -> float:
        """What another action must bring to be worth a change of policy."""
        return (READOUT_GAIN if self.smooth else DECODED_GAIN) * self._spread

    @functools.cached_property
    def smooth(self) -> bool:
        """Whether features can express the criterion."""
        return self.readout.report.max_error <= READOUT_TOLERANCE * self._spread

    @functools.cached_property
    def readout(self) -> CriterionReadout:
        grid = self.return_range.grid()
        return fit_criterion(self.coefficients.features, self.criterion, grid, ridge=self.ridge)

    @functools.cached_property
    def decoder(self) -> Decoder:
        return fine_decoder(self.coefficients, self.return_range)

    @functools.cached_property
    def _spread(self) -> float:
        """Between the 10% and the 90% point of f's values, so that the steep end of an exponential does not count."""
        values = self.criterion(self.return_range.grid().locations)
        return float(np.ptp(np.percentile(values, [10, 90], axis=0), axis=0).max())

    @functools.cached_property
    def _operators(self) -> tuple[AffineOperator, ...]:
        return tuple(sketch_operator(action, self.coefficients) for action in self.mdp.actions)


def make_evaluator(mdp: MDP, criterion: Any, return_range: ReturnRange, settings: Settings) -> Evaluator:
    """An evaluator for returns in that range."""
    chosen = as_criterion(criterion, return_range)
    if isinstance(chosen, ExponentialUtility):
        _check_aversion(chosen.aversion, return_range)
    features = settings.features
    if isinstance(features, str):
        features = make_features(features, return_range, settings.num_features)
    coefficients = fit_coefficients(
        features, return_range.grid(), mdp.rewards, (mdp.discount, 0.0), ridge=settings.ridge
    )
    return Evaluator(mdp, chosen, return_range, coefficients, settings.ridge)


def _check_aversion(aversion: float, return_range: ReturnRange) -> None:
    """Whether readouts can tell the values of an exponential utility apart."""
    largest = np.log(LARGEST_RATIO) / return_range.width
    if abs(aversion) > largest:
        digit = 10 ** np.floor(np.log10(largest) - 1)  # two digits, rounded down
        raise InputError(
            f"criterion: over returns from {return_range.low:.6g} to {return_range.high:.6g} a utility with"
            f" aversion={aversion:g} varies by more than a sketch can tell apart; pass at most"
            f" utility:{np.floor(largest / digit) * digit:.2g} in size, or use best_with_stock, which needs no sketch"
            " to choose"
        )
