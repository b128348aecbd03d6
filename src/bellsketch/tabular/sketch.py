"""Sketch-DP and Sketch-TD: distributional dynamic programming and TD learning that never leave sketch space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import MissingRewardError
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder
from bellsketch.core.interpolation import InterpolatedCoefficients
from bellsketch.core.just_in_time import JustInTimeCoefficients
from bellsketch.core.pytree import pytree
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator, affine_operator
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous

Coefficients = BellmanCoefficients | JustInTimeCoefficients
"""Fitted beforehand for a list of rewards, or for any reward when it is met."""


def sketch_operator(mrp: MRP, coefficients: Coefficients) -> AffineOperator:
    """𝒯_φ, the sketch Bellman operator of a model, on the host.

    ``coefficients`` must cover the model's rewards at its discount and at 0. For a model whose random rewards are split
    into outcomes (see :meth:`MRP.split_rewards`) this is the general form; otherwise random rewards enter through
    expected coefficients.
    """
    return affine_operator(mrp, *_of_rewards(mrp, coefficients))


def _of_rewards(mrp: MRP, coefficients: Coefficients) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, c and E[φ(R)] of each of the model's rewards."""
    matrices, offsets = zip(*(coefficients.at(r, mrp.discount) for r in mrp.rewards), strict=True)
    _, endings = zip(*(coefficients.at(r, 0.0) for r in mrp.rewards), strict=True)
    return np.stack(matrices), np.stack(offsets), np.stack(endings)


@pytree
class SketchDP(Algorithm):
    """Sketch-DP: U ← 𝒯_φ U, from U(x) = φ(0). Its state is the sketch, of shape [s, m]."""

    features: FeatureMap
    operator: AffineOperator
    decoder: Decoder

    def init(self, key: jax.Array) -> Float[jax.Array, "s m"]:
        return _sketch_of_zero(self.features, self.operator.offset.shape[0])

    def step(self, key: jax.Array, state: Float[Array, "s m"]) -> tuple[Float[jax.Array, "s m"], Info]:
        updated = self.operator(jnp.asarray(state))
        return updated, Info(jnp.max(jnp.abs(updated - state)))

    def decode(self, state: Float[Array, "s m"]) -> AtomicDistribution:
        return self.decoder(state)


def sketch_dp(mrp: MRP, coefficients: Coefficients, decoder: Decoder) -> SketchDP:
    """Sketch-DP for a model."""
    return SketchDP(coefficients.features, sketch_operator(mrp, coefficients).on_device(), decoder)


@pytree
class RewardTable:
    """A_r and c_r of finitely many rewards, looked up by the reward's index."""

    matrices: Float[Array, "r m m"]
    offsets: Float[Array, "r m"]
    endings: Float[Array, "r m"]
    """φ(r), the target of a terminating transition."""

    def targets(self, transition: Transition) -> Float[jax.Array, "b m"]:
        """A_r U(x') + c_r, or φ(r) at the end."""
        # Applying every reward's matrix and keeping one costs less than gathering a matrix per state: it is one GEMM
        # that all seeds and step sizes share.
        index, m = transition.reward_index, transition.values.shape[-1]
        rows = jnp.asarray(self.matrices).reshape(-1, m)
        backed_up = (transition.following @ rows.T).reshape(*index.shape, -1, m)
        chosen = jnp.take_along_axis(backed_up, index[..., None, None], axis=-2)[..., 0, :]
        chosen += jnp.asarray(self.offsets)[index]
        return jnp.where(transition.goes_on[..., None] > 0, chosen, jnp.asarray(self.endings)[index])


def reward_table(mrp: MRP, coefficients: Coefficients) -> RewardTable:
    """Of a model's rewards."""
    return RewardTable(*_of_rewards(mrp, coefficients))


@pytree
class RewardInterval:
    """A_r and c_r of every reward in an interval, interpolated."""

    coefficients: InterpolatedCoefficients

    def targets(self, transition: Transition) -> Float[jax.Array, "b m"]:
        """A_r U(x') + c_r, or φ(r) at the end."""
        backed_up = self.coefficients.back_up(transition.reward, transition.following)
        ending = self.coefficients.features.evaluate(transition.reward)
        return jnp.where(transition.goes_on[..., None] > 0, backed_up, ending)


@pytree
class SketchTD(TemporalDifference):
    """Sketch-TD: U(x) ← (1−α) U(x) + α (A_r U(x') + c_r), with target φ(r) where the episode ends."""

    features: FeatureMap
    backups: RewardTable | RewardInterval
    decoder: Decoder

    def initial_values(self) -> Float[jax.Array, "s m"]:
        return _sketch_of_zero(self.features, self.num_states)

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b m"]:
        return transition.values + step_size * (self.backups.targets(transition) - transition.values)

    def decode(self, state: TDState) -> AtomicDistribution:
        return self.decoder(state.values)


def sketch_td(
    mrp: MRP,
    coefficients: Coefficients | InterpolatedCoefficients,
    decoder: Decoder,
    step_size: Any,
    *,
    mode: str = "synchronous",
) -> SketchTD:
    """Sketch-TD on transitions drawn from a model.

    Args:
      mrp: the model to draw from.
      coefficients: for every reward that can be drawn. A finite table, at the model's discount and at 0: continuous
        rewards are then drawn from the atoms of ``mrp.split_rewards("quadrature")``. Or interpolated over an interval
        that contains all rewards: continuous rewards are then drawn as they are.
      decoder: how to read distributions off the sketch.
      step_size: a number, or a function of the number of updates a state has had (see ``bellsketch.schedules``).
      mode: ``synchronous`` or ``trajectory``.
    """
    if isinstance(coefficients, InterpolatedCoefficients):
        split = mrp.split_rewards()
        _check_interval(split, coefficients)
        backups: RewardTable | RewardInterval = RewardInterval(coefficients)
    else:
        split = mrp.split_rewards("quadrature")
        backups = reward_table(split, coefficients)
    return SketchTD(
        transition_sampler(split), as_schedule(step_size), is_synchronous(mode), coefficients.features, backups, decoder
    )


def _check_interval(mrp: MRP, coefficients: InterpolatedCoefficients) -> None:
    """Raise unless all rewards lie in the interval and the discounts agree."""
    if coefficients.discount != mrp.discount:
        raise MissingRewardError(
            f"coefficients are for discount {coefficients.discount}, the model has {mrp.discount}: interpolate them"
            " for that"
        )
    for reward in mrp.rewards:
        low, high = reward.sampled_range
        if low < coefficients.low or high > coefficients.high:
            raise MissingRewardError(
                f"reward {reward.name} ranges over [{low:g}, {high:g}], beyond the interpolated interval"
                f" [{coefficients.low:g}, {coefficients.high:g}]: interpolate over an interval that contains it"
            )


def _sketch_of_zero(features: FeatureMap, num_states: int) -> jax.Array:
    return jnp.tile(features(jnp.zeros(())), (num_states, 1))
