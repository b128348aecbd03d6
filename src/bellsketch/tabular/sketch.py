"""Sketch-DP and Sketch-TD: distributional dynamic programming and TD learning that never leave sketch space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder
from bellsketch.core.pytree import pytree
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator, affine_operator
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous


def sketch_operator(mrp: MRP, coefficients: BellmanCoefficients) -> AffineOperator:
    """𝒯_φ, the sketch Bellman operator of a model, on the host.

    ``coefficients`` must cover the model's rewards at its discount and at 0. For a model whose random rewards are split
    into outcomes (see :meth:`MRP.split_rewards`) this is the general form; otherwise random rewards enter through
    expected coefficients.
    """
    return affine_operator(mrp, *_of_rewards(mrp, coefficients))


def _of_rewards(mrp: MRP, coefficients: BellmanCoefficients) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, c and E[φ(R)] of each of the model's rewards."""
    going_on = [coefficients.index(r, mrp.discount) for r in mrp.rewards]
    ending = [coefficients.index(r, 0.0) for r in mrp.rewards]
    return (
        np.stack([coefficients.matrices[i] for i in going_on]),
        np.stack([coefficients.offsets[i] for i in going_on]),
        np.stack([coefficients.offsets[i] for i in ending]),
    )


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


def sketch_dp(mrp: MRP, coefficients: BellmanCoefficients, decoder: Decoder) -> SketchDP:
    """Sketch-DP for a model."""
    return SketchDP(coefficients.features, sketch_operator(mrp, coefficients).on_device(), decoder)


@pytree
class SketchTD(TemporalDifference):
    """Sketch-TD: U(x) ← (1−α) U(x) + α (A_r U(x') + c_r), with target φ(r) where the episode ends."""

    features: FeatureMap
    matrices: Float[Array, "r m m"]
    offsets: Float[Array, "r m"]
    endings: Float[Array, "r m"]
    """φ(r), the target of a terminating transition."""
    decoder: Decoder

    def initial_values(self) -> Float[jax.Array, "s m"]:
        return _sketch_of_zero(self.features, self.num_states)

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b m"]:
        # Applying every reward's matrix and keeping one costs less than gathering a matrix per state: it is one GEMM
        # that all seeds and step sizes share.
        index, m = transition.reward_index, transition.values.shape[-1]
        rows = jnp.asarray(self.matrices).reshape(-1, m)
        backed_up = (transition.following @ rows.T).reshape(*index.shape, -1, m)
        chosen = jnp.take_along_axis(backed_up, index[..., None, None], axis=-2)[..., 0, :]
        chosen += jnp.asarray(self.offsets)[index]
        target = jnp.where(transition.goes_on[..., None] > 0, chosen, jnp.asarray(self.endings)[index])
        return transition.values + step_size * (target - transition.values)

    def decode(self, state: TDState) -> AtomicDistribution:
        return self.decoder(state.values)


def sketch_td(
    mrp: MRP, coefficients: BellmanCoefficients, decoder: Decoder, step_size: Any, *, mode: str = "synchronous"
) -> SketchTD:
    """Sketch-TD on transitions drawn from a model.

    Random rewards are drawn from the atoms of ``mrp.split_rewards("quadrature")``, whose coefficients must be there.

    Args:
      mrp: the model to draw from.
      coefficients: for every reward that can be drawn, at the model's discount and at 0.
      decoder: how to read distributions off the sketch.
      step_size: a number, or a function of the number of updates a state has had (see ``bellsketch.schedules``).
      mode: ``synchronous`` or ``trajectory``.
    """
    split = mrp.split_rewards("quadrature")
    return SketchTD(
        transition_sampler(split),
        as_schedule(step_size),
        is_synchronous(mode),
        coefficients.features,
        *_of_rewards(split, coefficients),
        decoder,
    )


def _sketch_of_zero(features: FeatureMap, num_states: int) -> jax.Array:
    return jnp.tile(features(jnp.zeros(())), (num_states, 1))
