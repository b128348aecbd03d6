"""Categorical DP and TD (CDRL): probabilities of fixed atoms, kept there by an ℓ₂ projection.

p(x) ← Π E[(R + γ·)# p(X')]. Bellemare, Dabney & Munos (2017); Rowland et al. (2018).
"""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import BellsketchWarning
from bellsketch.core.projections import categorical_projection, check_support, project_cdf
from bellsketch.core.pytree import pytree
from bellsketch.core.rewards import Reward
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator, affine_operator
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous

CLIPPED_MASS = 1e-4
"""Warn if the support cuts off more than this share of any state's return distribution."""


@pytree
class CategoricalDP(Algorithm):
    """p ← Π 𝒯^π p, from the projection of δ_0. Its state is p, of shape [s, n]."""

    support: Float[Array, " n"]
    operator: AffineOperator

    def init(self, key: jax.Array) -> Float[jax.Array, "s n"]:
        return _point_at_zero(self.support, self.operator.offset.shape[0])

    def step(self, key: jax.Array, state: Float[Array, "s n"]) -> tuple[Float[jax.Array, "s n"], Info]:
        updated = self.operator(jnp.asarray(state))
        return updated, Info(jnp.max(jnp.abs(updated - state)))

    def decode(self, state: Float[Array, "s n"]) -> AtomicDistribution:
        return _on_support(self.support, state)


def categorical_dp(mrp: MRP, support: Any) -> CategoricalDP:
    """Categorical DP on any sorted support. Warns if the support cuts off part of the returns."""
    support = check_support(support)
    _warn_if_clipped(mrp, support)
    return CategoricalDP(support, categorical_operator(mrp, support).on_device())


def categorical_operator(mrp: MRP, support: Float[np.ndarray, " n"]) -> AffineOperator:
    """Π𝒯^π as a linear map of probabilities on a sorted support, on the host."""
    return affine_operator(mrp, *_of_rewards(mrp, support))


def categorical_fixed_point(mrp: MRP, support: Any) -> AtomicDistribution:
    """The fixed point of categorical DP by one linear solve (Rowland et al., 2024, arXiv:2402.07598).

    Probabilities sum to 1, so the equation for p is singular. In terms of the CDF at all atoms but the last it is not:
    there the operator contracts by √γ.
    """
    support = check_support(support)
    _warn_if_clipped(mrp, support)
    return _on_support(support, _probabilities(fixed_point(cumulative_operator(mrp, support)).sketch))


def cumulative_operator(mrp: MRP, support: Any) -> AffineOperator:
    """Categorical DP as an affine map of the CDF at all atoms but the last, where it is always 1."""
    support = check_support(support)
    n = support.size
    matrices, _, endings = _of_rewards(mrp, support)
    total, difference = np.tri(n), np.eye(n) - np.eye(n, k=-1)
    in_cdf = total @ matrices @ difference
    return affine_operator(mrp, in_cdf[:, :-1, :-1], in_cdf[:, :-1, -1], (endings @ total.T)[:, :-1])


@pytree
class CategoricalTD(TemporalDifference):
    """p(x) ← (1−α) p(x) + α Π (r + γ·)# p(x'), for any reward, known beforehand or not."""

    support: Float[Array, " n"]
    discount: Any

    def initial_values(self) -> Float[jax.Array, "s n"]:
        return _point_at_zero(self.support, self.num_states)

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b n"]:
        discount = self.discount * transition.goes_on
        moved = transition.reward[:, None] + discount[:, None] * jnp.asarray(self.support)
        target = categorical_projection(AtomicDistribution(moved, transition.following), self.support)
        return transition.values + step_size * (target.probabilities - transition.values)

    def decode(self, state: TDState) -> AtomicDistribution:
        return _on_support(self.support, state.values)


def categorical_td(mrp: MRP, support: Any, step_size: Any, *, mode: str = "synchronous") -> CategoricalTD:
    """Categorical TD on transitions drawn from a model."""
    support = check_support(support)
    _warn_if_clipped(mrp, support)
    sampler = transition_sampler(mrp.split_rewards())
    return CategoricalTD(sampler, as_schedule(step_size), is_synchronous(mode), support, mrp.discount)


def _of_rewards(mrp: MRP, support: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Π (R + γ·)# as a matrix for each of the model's rewards, zero offsets, and the projection of R itself."""
    matrices = np.stack([_projected(r, mrp.discount * support, support).T for r in mrp.rewards])
    endings = np.stack([_projected(r, np.zeros(1), support)[0] for r in mrp.rewards])
    return matrices, np.zeros_like(endings), endings


def _projected(reward: Reward, shifts: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The projection of R + shift, for each shift."""
    if not reward.is_finite:
        return np.stack([project_cdf(functools.partial(_shifted_cdf, reward, shift), support) for shift in shifts])
    atoms = AtomicDistribution(shifts[:, None] + np.array(reward.atoms), np.array(reward.weights))
    return np.asarray(categorical_projection(atoms, support).probabilities)


def _shifted_cdf(reward: Reward, shift: float, z: np.ndarray) -> np.ndarray:
    return reward.cdf(z - shift)


def _warn_if_clipped(mrp: MRP, support: np.ndarray) -> None:
    least, greatest = mrp.return_bounds
    if support[0] <= least.min() and greatest.max() <= support[-1]:
        return
    # Look at what the fixed point would push beyond the ends.
    p = _probabilities(fixed_point(cumulative_operator(mrp, support)).sketch)
    o = mrp.outcomes
    outside = np.zeros((len(mrp.rewards), support.size + 1))
    for r, reward in enumerate(mrp.rewards):
        for j, shift in enumerate([*(mrp.discount * support), 0.0]):
            outside[r, j] = _outside(reward, support[0] - shift, support[-1] - shift)
    each = np.where(o.terminal, outside[o.reward, -1], np.sum(p[o.successor] * outside[o.reward, :-1], axis=1))
    clipped = np.bincount(o.state, weights=o.probability * each)
    if clipped.max() > CLIPPED_MASS:
        warnings.warn(
            f"support [{support[0]:g}, {support[-1]:g}] misses part of the returns, which lie in [{least.min():g},"
            f" {greatest.max():g}]: each backup of state {clipped.argmax()} clips {clipped.max():.2g} of its mass"
            " to the ends. Use a wider support",
            BellsketchWarning,
            stacklevel=3,
        )


def _outside(reward: Reward, low: float, high: float) -> float:
    """The mass of a reward outside [low, high], apart from what an end misses by a thousandth of the support."""
    slack = 1e-3 * (high - low)
    low, high = low - slack, high + slack
    if reward.is_finite:
        atoms = np.array(reward.atoms)
        return float(np.sum(np.array(reward.weights)[(atoms < low) | (atoms > high)]))
    return float(reward.frozen.cdf(low) + reward.frozen.sf(high))


def _probabilities(cumulative: np.ndarray) -> np.ndarray:
    p = np.diff(cumulative, prepend=0.0, append=1.0, axis=-1)
    return np.maximum(p, 0.0) / np.maximum(p, 0.0).sum(axis=-1, keepdims=True)


def _on_support(support: Any, probabilities: Any) -> AtomicDistribution:
    return AtomicDistribution(np.broadcast_to(np.asarray(support), probabilities.shape), np.asarray(probabilities))


def _point_at_zero(support: Any, num_states: int) -> jax.Array:
    return jnp.tile(categorical_projection(dirac(jnp.zeros(())), jnp.asarray(support)).probabilities, (num_states, 1))
