"""Statistical functional DP and TD with expectiles (SFDP; Rowland et al., 2019).

The sketch is the expectiles at levels τ_i = (2i−1)/2m. Unlike Sketch-DP, every backup has to impute distributions from
the sketch first. Two imputations: ours (exact derivatives, warm start, batched), and the paper's (SciPy's ``minimize``
at its defaults), which is what its timing figure measures.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.expectiles import expectiles, impute_particles, spread_out
from bellsketch.core.projections import midpoint_levels, quantile_projection
from bellsketch.core.pytree import pytree, static
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.backup import DistributionalBackup, distributional_backup
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.quantile import equally_weighted, particle_targets
from bellsketch.tabular.sampling import transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.temporal_difference import TDState, TemporalDifference, Transition, is_synchronous


@pytree
class ExpectileState:
    """Expectiles, and where the imputation of particles from them starts: quantiles of the last backup."""

    expectiles: Float[Array, "s m"]
    start: Float[Array, "s m"]


@pytree
class ExpectileDP(Algorithm):
    """e(x) ← expectiles of 𝒯^π applied to particles imputed from e; from e = 0."""

    backup: DistributionalBackup
    levels: Float[Array, " m"]
    imputation: str = static(default="ours")
    """``ours`` or ``scipy``."""

    def init(self, key: jax.Array) -> ExpectileState:
        zeros = jnp.zeros((self.backup.probability.shape[0], self.levels.shape[0]))
        return ExpectileState(zeros, zeros)

    def step(self, key: jax.Array, state: ExpectileState) -> tuple[ExpectileState, Info]:
        particles = self._impute(jnp.asarray(state.expectiles), jnp.asarray(state.start))
        backed_up = self.backup.of_particles(particles)
        updated = expectiles(backed_up, jnp.asarray(self.levels))
        start = quantile_projection(backed_up, self.levels.shape[0]).locations
        return ExpectileState(updated, start), Info(jnp.max(jnp.abs(updated - state.expectiles)))

    def _impute(self, values: jax.Array, start: jax.Array) -> jax.Array:
        if self.imputation == "ours":
            return jax.vmap(impute_particles, in_axes=(0, None, 0))(values, self.levels, start)
        # As bits: callbacks may run in a thread of XLA's, where JAX would make single precision of numbers.
        bits, levels = (jax.lax.bitcast_convert_type(x, jnp.uint32) for x in (values, jnp.asarray(self.levels)))
        shape = jax.ShapeDtypeStruct(bits.shape, bits.dtype)
        found = jax.pure_callback(_impute_with_scipy, shape, bits, levels, vmap_method="sequential")
        return jax.lax.bitcast_convert_type(found, values.dtype)

    def decode(self, state: ExpectileState) -> AtomicDistribution:
        """The particles imputed from the expectiles."""
        with jax.enable_x64(True):
            values, start = jnp.asarray(state.expectiles), jnp.asarray(state.start)
            return equally_weighted(self._impute(values, start))


def _impute_with_scipy(value_bits: Array, level_bits: Array) -> np.ndarray:
    """The paper's imputation: BFGS with numerical derivatives, started at the expectiles."""
    e, tau = _numbers(value_bits, 2), _numbers(level_bits, 1)

    def objective(theta: np.ndarray, e: np.ndarray) -> float:
        weights = np.where(theta < e[:, None], 1 - tau[:, None], tau[:, None])
        return float(np.sum(np.mean(weights * (theta - e[:, None]), axis=1) ** 2))

    found = np.stack([minimize(objective, row, args=(row,)).x for row in e]).astype(e.dtype)
    return found.view(np.uint32).reshape(value_bits.shape)


def _numbers(bits: Array, ndim: int) -> np.ndarray:
    """Of so many dimensions; in double precision each has two words, along an axis of its own."""
    words = np.ascontiguousarray(bits)
    return words.view(np.float64)[..., 0] if words.ndim > ndim else words.view(np.float32)


def expectile_dp(mrp: MRP, num: int, *, imputation: str = "ours") -> ExpectileDP:
    """Expectile SFDP with ``num`` expectiles per state; ``imputation`` is ``ours`` or the paper's ``scipy``."""
    if imputation not in ("ours", "scipy"):
        raise InputError(f"imputation={imputation!r}: choose 'ours' or 'scipy'")
    return ExpectileDP(distributional_backup(mrp), midpoint_levels(num), imputation)


@pytree
class ExpectileTD(TemporalDifference):
    """e_i(x) ← e_i(x) + (α/m) Σ_j |1{t_j < e_i} − τ_i| (t_j − e_i), t_j = r + γθ_j(x') with θ imputed from e(x')."""

    levels: Float[Array, " m"]
    discount: Any

    def initial_values(self) -> Float[jax.Array, "s m"]:
        return jnp.zeros((self.num_states, self.levels.shape[0]))

    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b m"]:
        levels = jnp.asarray(self.levels)
        guess = spread_out(transition.following)
        following = jax.vmap(impute_particles, in_axes=(0, None, 0))(transition.following, levels, guess)
        targets = particle_targets(dataclasses.replace(transition, following=following), self.discount)[:, None, :]
        e = transition.values[:, :, None]
        weights = jnp.where(targets < e, 1 - levels[:, None], levels[:, None])
        return transition.values + step_size * jnp.mean(weights * (targets - e), axis=-1)

    def decode(self, state: TDState) -> AtomicDistribution:
        with jax.enable_x64(True):
            values = jnp.asarray(state.values)
            return equally_weighted(
                jax.vmap(impute_particles, in_axes=(0, None, 0))(values, self.levels, spread_out(values))
            )


def expectile_td(mrp: MRP, num: int, step_size: Any, *, mode: str = "synchronous") -> ExpectileTD:
    """Expectile TD on transitions drawn from a model."""
    sampler = transition_sampler(mrp.split_rewards())
    return ExpectileTD(sampler, as_schedule(step_size), is_synchronous(mode), midpoint_levels(num), mrp.discount)
