"""Expectiles of atomic distributions, and particles that have given expectiles.

The τ-expectile e of Z solves E[|1{Z < e} − τ| (Z − e)] = 0 (Newey & Powell, 1987). For an atomic distribution the left
side is piecewise linear in e, so that the solution is exact; for m equally weighted particles it is piecewise linear in
the particles too, which is what imputation solves.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError

MAX_NEWTON_STEPS = 40
RESIDUAL = 1e-12
STALLED = 1e-3
"""Stop once a step lowers the objective by less than this share: some sets of expectiles fit no m particles."""


def expectiles(distribution: AtomicDistribution, levels: Float[Array, " m"]) -> Float[Array, "*b m"]:
    """The expectiles of each distribution in a batch, exactly."""
    check_levels(levels)
    xp = namespace(distribution.locations, levels)
    d = distribution.sorted()
    z, p = d.locations, d.probabilities
    mass, moment = xp.cumsum(p, axis=-1), xp.cumsum(p * z, axis=-1)
    mean = moment[..., -1:]
    # At atom k, E[(z_k − Z)₊] and E[(Z − z_k)₊]; their balance falls as k rises and changes sign at the expectile.
    below = z * mass - moment
    above = (mean - moment) - z * (mass[..., -1:] - mass)
    tau = levels[:, None]
    balance = tau * above[..., None, :] - (1 - tau) * below[..., None, :]
    k = xp.clip(xp.sum(balance >= 0, axis=-1) - 1, 0, z.shape[-1] - 1)  # the last atom at or below the expectile
    low, low_moment = (xp.take_along_axis(a, k, axis=-1) for a in (mass, moment))
    weight_above = levels * (mass[..., -1:] - low)
    weight_below = (1 - levels) * low
    return (levels * (mean - low_moment) + (1 - levels) * low_moment) / (weight_above + weight_below)


def first_order_conditions(
    particles: Float[jax.Array, " m"], values: Float[jax.Array, " k"], levels: Float[Array, " k"]
) -> tuple[Float[jax.Array, " k"], Float[jax.Array, "k m"]]:
    """(1/m) Σ_j |1{θ_j < e_i} − τ_i| (θ_j − e_i) for each i, and its derivative with respect to the particles."""
    weights = jnp.where(particles[None, :] < values[:, None], 1 - levels[:, None], levels[:, None])
    weights = weights / particles.shape[0]
    return jnp.sum(weights * (particles[None, :] - values[:, None]), axis=1), weights


def impute_particles(
    values: Float[jax.Array, " m"], levels: Float[Array, " m"], start: Float[jax.Array, " m"]
) -> Float[jax.Array, " m"]:
    """Equally weighted particles whose expectiles are ``values``, by a damped Gauss–Newton method from ``start``.

    Minimises the sum of squared first-order conditions (Rowland et al., 2019; Bellemare, Dabney & Rowland, 2023, Sec.
    8.6) with exact derivatives. The conditions are piecewise linear, so a good start takes a few steps; particles that
    start at the same place stay together.
    """
    levels = jnp.asarray(levels)
    scale = 1 + jnp.max(jnp.abs(values))

    def loss(theta: jax.Array) -> jax.Array:
        return jnp.sum(first_order_conditions(theta, values, levels)[0] ** 2)

    def body(carry: Any) -> Any:
        theta, damping, current, count, _ = carry
        residual, jacobian = first_order_conditions(theta, values, levels)
        normal = jacobian.T @ jacobian
        ridge = damping * jnp.trace(normal) / theta.shape[0]
        trial = theta - jnp.linalg.solve(normal + ridge * jnp.eye(theta.shape[0]), jacobian.T @ residual)
        value = loss(trial)
        better = value < current
        theta = jnp.where(better, trial, theta)
        # Levenberg and Marquardt's rule: trust the linear model more after a success, less after a failure.
        damping = jnp.clip(jnp.where(better, damping / 10, damping * 10), 1e-14, 1e3)
        stalled = better & (value > (1 - STALLED) * current)
        return theta, damping, jnp.where(better, value, current), count + 1, stalled

    def unfinished(carry: Any) -> jax.Array:
        _, damping, current, count, stalled = carry
        return (current > (RESIDUAL * scale) ** 2) & (count < MAX_NEWTON_STEPS) & (damping < 1e3) & ~stalled

    start_carry = (start, jnp.asarray(1e-6, start.dtype), loss(start), 0, False)
    return jax.lax.while_loop(unfinished, body, start_carry)[0]


def spread_out(values: Float[jax.Array, "*b m"]) -> Float[jax.Array, "*b m"]:
    """A start for imputation where there is nothing better: expectiles lie closer together than what they describe."""
    centre = jnp.mean(values, axis=-1, keepdims=True)
    return centre + 1.5 * (values - centre)


def check_levels(levels: Any) -> None:
    """Raise unless all levels lie strictly between 0 and 1."""
    if isinstance(levels, jax.core.Tracer):
        return
    values = np.asarray(levels)
    if values.ndim != 1 or values.size < 1 or not np.all((values > 0) & (values < 1)):
        raise InputError(f"levels={values}: expectile levels must be a vector of numbers strictly between 0 and 1")
