"""Drawing transitions and returns from a model, under jit."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.arrays import Array
from bellsketch.core.errors import InputError
from bellsketch.core.pytree import pytree
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.mrp import MRP

PAPER_HORIZONS = {"finite": 110, "continuous": 200}  # App. "Tabular environments", for a discount of 0.9
PAPER_ROLLOUTS = 100_000
MAX_RANGE_STEPS = 110_000_000
"""Transitions drawn at most to estimate a return range: the paper's for ten states at discount 0.9."""

FEWEST_ROLLOUTS = 100
NORMAL_REACH = 4.5
"""The largest of 10⁵ normal draws stays within so many standard deviations seven times in ten."""


@pytree
class TransitionSampler:
    """The outcomes of each state as a table to draw from. Row x lists x's outcomes, padded with impossible ones."""

    cumulative: Float[Array, "s k"]
    successor: Int[Array, "s k"]
    reward: Int[Array, "s k"]
    """Index into the model's rewards."""
    tables: Float[Array, "r t"]
    """Reward values against normal scores; constant rows for deterministic rewards."""
    scores: Float[Array, "2"]
    """First normal score of the tables, and table entries per unit of it."""

    def __call__(
        self, key: jax.Array, state: Int[Array, "..."]
    ) -> tuple[Int[jax.Array, "..."], Float[jax.Array, "..."], Int[jax.Array, "..."]]:
        """Reward index, reward and successor (``TERMINAL`` at the end) of one transition from each given state."""
        key_outcome, key_reward = jax.random.split(key)
        uniform = jax.random.uniform(key_outcome, state.shape)
        choice = jnp.sum(uniform[..., None] >= jnp.asarray(self.cumulative)[state], axis=-1)
        index = jnp.asarray(self.reward)[state, choice]
        return index, self._draw(key_reward, index), jnp.asarray(self.successor)[state, choice]

    def _draw(self, key: jax.Array, index: Int[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        tables = jnp.asarray(self.tables)
        if tables.shape[1] == 1:
            return tables[index, 0]
        place = (jax.random.normal(key, index.shape) - self.scores[0]) * self.scores[1]
        place = jnp.clip(place, 0, tables.shape[1] - 1.001)
        cell = place.astype(jnp.int32)
        low, high = tables[index, cell], tables[index, cell + 1]
        return low + (place - cell) * (high - low)


def transition_sampler(mrp: MRP) -> TransitionSampler:
    """A sampler for a model whose random rewards are all continuous (split finite ones into outcomes first)."""
    if any(r.is_finite and not r.is_deterministic for r in mrp.rewards):
        raise InputError("mrp: split its finite random rewards first, with mrp.split_rewards()")
    o = mrp.outcomes
    first = np.searchsorted(o.state, o.state)
    column = o.column
    shape = (mrp.num_states, int(column.max()) + 1)
    cumulative = np.full(shape, 2.0)  # an impossible outcome: no uniform draw reaches it
    successor, reward = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    running = np.cumsum(o.probability)
    cumulative[o.state, column] = running - (running[first] - o.probability[first])
    last = np.append(np.flatnonzero(np.diff(o.state)), o.state.size - 1)
    cumulative[o.state[last], column[last]] = 2.0  # the last outcome takes whatever rounding leaves
    successor[o.state, column], reward[o.state, column] = o.successor, o.reward
    continuous = [not r.is_finite for r in mrp.rewards]
    if not any(continuous):
        return TransitionSampler(
            cumulative, successor, reward, np.array([[r.mean] for r in mrp.rewards]), np.array([0.0, 1.0])
        )
    scores, _ = mrp.rewards[continuous.index(True)].sampling_table()
    rows = [np.full(scores.size, r.mean) if r.is_finite else r.sampling_table()[1] for r in mrp.rewards]
    return TransitionSampler(
        cumulative, successor, reward, np.stack(rows), np.array([scores[0], 1 / (scores[1] - scores[0])])
    )


def sample_returns(
    key: jax.Array, mrp: MRP, num_rollouts: int = PAPER_ROLLOUTS, horizon: int | None = None
) -> Float[np.ndarray, "s n"]:
    """First-visit Monte Carlo returns: ``num_rollouts`` independent returns from each state.

    As in the paper, each state starts its own rollouts, so that its first visit is at the start. The default horizon
    is the paper's (110 steps for finite and 200 for continuous rewards at discount 0.9), adapted to the discount.
    """
    if num_rollouts < 1:
        raise InputError(f"num_rollouts={num_rollouts}: must be at least 1")
    split = mrp.split_rewards()
    horizon = default_horizon(mrp) if horizon is None else horizon
    start = np.repeat(np.arange(mrp.num_states, dtype=np.int32)[:, None], num_rollouts, axis=1)
    return np.asarray(_rollouts(key, transition_sampler(split), start, mrp.discount, horizon), dtype=np.float64)


def default_horizon(mrp: MRP) -> int:
    """The paper's horizon at discount 0.9, or the one with the same discounted rest at another discount."""
    finite = all(r.is_finite for r in mrp.rewards)
    steps = PAPER_HORIZONS["finite" if finite else "continuous"]
    return max(1, int(np.ceil(steps * np.log(0.9) / np.log(mrp.discount)))) if mrp.discount > 0 else 1


@functools.partial(jax.jit, static_argnames="horizon")
def _rollouts(key: jax.Array, sampler: TransitionSampler, start: Any, discount: Any, horizon: int) -> jax.Array:
    def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        state, weight, total = carry
        _, reward, successor = sampler(key, state)
        total = total + weight * reward
        # A finished rollout stays somewhere, with weight zero.
        return (jnp.maximum(successor, 0), weight * discount * (successor >= 0), total), None

    zeros = jnp.zeros(start.shape)
    (_, _, total), _ = jax.lax.scan(step, (start, zeros + 1, zeros), jax.random.split(key, horizon))
    return total


def returns_within_reach(mrp: MRP) -> tuple[float, float]:
    """The least and the greatest of mean ± ``NORMAL_REACH`` standard deviations, over all states."""
    reach = NORMAL_REACH * np.sqrt(mrp.return_variance)
    return float((mrp.value - reach).min()), float((mrp.value + reach).max())


def estimate_return_range(key: jax.Array, mrp: MRP, num_rollouts: int | None = None) -> ReturnRange:
    """The paper's estimate: the smallest and largest Monte Carlo return. It includes 0 if the model terminates.

    ``num_rollouts`` is per state: the paper's 10⁵ by default, fewer for larger models and discounts near 1. Where not
    even a hundred can be afforded, the range is that of mean ± 4.5 standard deviations, which are known exactly.
    """
    affordable = MAX_RANGE_STEPS // (mrp.num_states * default_horizon(mrp))
    if num_rollouts is None and affordable < FEWEST_ROLLOUTS:
        low, high = returns_within_reach(mrp)
    else:
        num_rollouts = min(PAPER_ROLLOUTS, affordable) if num_rollouts is None else num_rollouts
        returns = sample_returns(key, mrp, num_rollouts)
        low, high = float(returns.min()), float(returns.max())
    return _interval(mrp, low, high)


def possible_reach(mrp: MRP) -> ReturnRange:
    """Mean ± 4.5 standard deviations over all states, within what is possible, and 0 if the model terminates."""
    least, greatest = mrp.return_bounds
    spread = NORMAL_REACH * np.sqrt(mrp.return_variance)
    low = float(np.maximum(mrp.value - spread, least).min())
    high = float(np.minimum(mrp.value + spread, greatest).max())
    return _interval(mrp, low, high)


def _interval(mrp: MRP, low: float, high: float) -> ReturnRange:
    if mrp.terminates:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-6 * max(abs(low), abs(high)):  # one deterministic return: any interval around it will do
        pad = max(abs(low), 1.0) / 2
        low, high = low - pad, high + pad
    return ReturnRange(low, high)
