"""Particles moved by the gradient of a maximum mean discrepancy (MMDRL; Nguyen et al., 2020).

MMD²(Σ_i δ_{θ_i(x)}/m, Σ_j δ_{r+γθ_j(x')}/m) is decreased with respect to θ(x), the targets held fixed. With the kernel
−|x − y| this is the energy distance, twice the Cramér distance on the line; Gaussian kernels of several bandwidths are
the original's choice for deep agents. There is no projection in closed form and so no dynamic programming proper:
the model-based form below follows the expected gradient.
"""

from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.projections import midpoint_levels
from bellsketch.core.pytree import pytree
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.backup import DistributionalBackup, distributional_backup
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.quantile import equally_weighted, particle_targets
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous


class Kernel(ABC):
    """k(x, y) as a function of the distance x − y."""

    @abstractmethod
    def __call__(self, distance: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        """k."""


@pytree
class GaussianMixture(Kernel):
    """Σ_h exp(−d²/h): one term for each bandwidth."""

    bandwidths: Float[Array, " h"]

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.bandwidths) > 0):
            raise InputError(f"bandwidths={self.bandwidths}: must be positive")

    def __call__(self, distance: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.exp(-(distance[..., None] ** 2) / jnp.asarray(self.bandwidths)).sum(axis=-1)


@pytree
class Unrectified(Kernel):
    """−|d|^β with 0 < β < 2: the energy distance, scale-sensitive as 𝒯^π's contraction needs it."""

    power: Any = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.power < 2:
            raise InputError(f"power={self.power}: must lie strictly between 0 and 2")

    def __call__(self, distance: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        # Where the distance is zero the gradient is taken to be zero too.
        apart = jnp.abs(distance) > 1e-12
        return jnp.where(apart, -(jnp.abs(jnp.where(apart, distance, 1.0)) ** self.power), 0.0)


def mmd_loss(
    kernel: Kernel, particles: Float[jax.Array, " m"], targets: Float[jax.Array, " n"], weights: Float[jax.Array, " n"]
) -> Float[jax.Array, ""]:
    """The part of MMD² between equally weighted particles and weighted targets that depends on the particles."""
    among = jnp.mean(kernel(particles[:, None] - particles[None, :]))
    across = jnp.mean(kernel(particles[:, None] - targets[None, :]) @ weights)
    return among - 2 * across


def _descend(kernel: Kernel, particles: Any, targets: Any, weights: Any, step_size: Any) -> jax.Array:
    """One gradient step for each state. The factor m makes the speed of a particle independent of their number."""
    gradient = jax.vmap(jax.grad(mmd_loss, argnums=1), in_axes=(None, 0, 0, 0))(kernel, particles, targets, weights)
    return particles - step_size * particles.shape[-1] * gradient


@pytree
class ParticleDP(Algorithm):
    """θ(x) ← θ(x) − α m ∇ MMD²(θ(x), (𝒯^π θ)(x)): the expected update of MMD-TD. Its state is (θ, step count)."""

    backup: DistributionalBackup
    kernel: Kernel
    start: Float[Array, "s m"]
    step_size: Any

    def init(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(self.start), jnp.zeros((), jnp.int32)

    def step(self, key: jax.Array, state: Any) -> tuple[Any, Info]:
        particles, count = jnp.asarray(state[0]), jnp.asarray(state[1])
        targets = self.backup.of_particles(particles)
        step_size = self.step_size(count)
        updated = _descend(self.kernel, particles, targets.locations, targets.probabilities, step_size)
        return (updated, count + 1), Info(jnp.max(jnp.abs(updated - particles)))

    def decode(self, state: Any) -> AtomicDistribution:
        return equally_weighted(state[0])


@pytree
class ParticleTD(TemporalDifference):
    """θ(x) ← θ(x) − α m ∇ MMD²(θ(x), r + γθ(x'))."""

    kernel: Kernel
    start: Float[Array, "s m"]
    discount: Any

    def initial_values(self) -> Float[jax.Array, "s m"]:
        return jnp.asarray(self.start)

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b m"]:
        targets = particle_targets(transition, self.discount)
        weights = jnp.full(targets.shape, 1 / targets.shape[-1])
        return _descend(self.kernel, transition.values, targets, weights, step_size)

    def decode(self, state: TDState) -> AtomicDistribution:
        return equally_weighted(state.values)


def particle_dp(
    mrp: MRP, num: int, return_range: ReturnRange, step_size: Any, kernel: Kernel | None = None
) -> ParticleDP:
    """Model-based MMD particles, which start evenly over the return range; the kernel defaults to −|x − y|.

    With that kernel ``step_size`` has the unit of a return, with Gaussian ones of its square.
    """
    start = _start(mrp, num, return_range)
    return ParticleDP(distributional_backup(mrp), kernel or Unrectified(), start, as_schedule(step_size))


def particle_td(
    mrp: MRP,
    num: int,
    return_range: ReturnRange,
    step_size: Any,
    kernel: Kernel | None = None,
    *,
    mode: str = "synchronous",
) -> ParticleTD:
    """MMD-TD on transitions drawn from a model; as :func:`particle_dp` otherwise."""
    sampler, start = transition_sampler(mrp.split_rewards()), _start(mrp, num, return_range)
    return ParticleTD(
        sampler, as_schedule(step_size), is_synchronous(mode), kernel or Unrectified(), start, mrp.discount
    )


def _start(mrp: MRP, num: int, return_range: ReturnRange) -> np.ndarray:
    """Particles that start at one point would feel one gradient and never part."""
    return np.tile(return_range.low + return_range.width * midpoint_levels(num), (mrp.num_states, 1))
