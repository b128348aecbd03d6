"""Which rewards an environment pays, and between which numbers its returns lie.

Agents that learn distributions need both before they start. What a person says wins; then what is known of an
environment by its name; then what random play shows, which better play may exceed.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from bellsketch.core.errors import InputError
from bellsketch.deep.environments.atari import AtariEnvironments
from bellsketch.deep.environments.facts import ATARI, MEASURED_DISCOUNT, Facts, facts_of
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.environments.vector import VectorEnvironments

MAX_LISTED = 32
"""Rewards that are listed one by one; more of them are an interval."""

MARGIN = 0.25
"""Widens an interval of rewards that random play has shown, at both ends, in units of its width."""

PROBE_ENVIRONMENTS, PROBE_STEPS = 16, 500
"""How much random play: 8000 steps, long enough to see episodes of 500 end."""


@dataclasses.dataclass(frozen=True)
class Returns:
    """What is known of an environment: the rewards it pays, and between which numbers its returns lie."""

    low: float
    high: float
    rewards: tuple[float, ...] | None
    """All of them, or None if they are any numbers in ``reward_interval``."""
    reward_interval: tuple[float, float]
    source: str = "as given"
    """Where this comes from, for people to read."""
    between: bool = False
    """Whether there may be others in ``reward_interval`` than those that are listed."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InputError(f"returns in [{self.low}, {self.high}]: pass a finite range with low < high")


def find_returns(
    environment: NativeEnvironment | VectorEnvironments,
    discount: float,
    *,
    low: float | None = None,
    high: float | None = None,
    rewards: Sequence[float] | None = None,
    reward_interval: tuple[float, float] | None = None,
    reward_clip: float | None = None,
    seed: int = 0,
) -> Returns:
    """What is known of an environment's returns, or can be found out.

    An episode that is cut off at a time limit is learnt as if it went on, so that the limit bounds returns only where
    nothing else does, at γ = 1.

    Args:
        environment: Its state is left alone: random play is of another one made like it.
        discount: γ; 1 only where episodes are known to end.
        low: The least return, if you know better.
        high: The greatest return.
        rewards: All rewards it can pay.
        reward_interval: Instead, two numbers between which they lie.
        reward_clip: Rewards are learnt from as if none were larger than this, or smaller than its negative.
        seed: Of random play. Not that of a run: its seeds side by side are to be the same as one by one.
    """
    if not 0 <= discount <= 1:
        raise InputError(f"discount={discount}: pass a number in [0, 1]")
    facts, listed, interval, how = _rewards(environment, rewards, reward_interval, reward_clip, seed)
    limit = environment.max_episode_steps if discount == 1 else None
    if facts is None:
        least, most = _bounds(interval, (), discount, limit)
    else:
        limit = min((steps for steps in (facts.steps, limit) if steps is not None), default=None)
        least, most = _bounds(facts.repeated, facts.once, discount, limit)
        least = least if facts.low is None else facts.low * _widening(discount)
        most = most if facts.high is None else facts.high * _widening(discount)
    bounds = (low if low is not None else least, high if high is not None else most)
    if not np.all(np.isfinite(bounds)):
        why = f"rewards in {list(interval)} may go on forever"
        if facts is not None and facts.high is not None:
            why = f"the known range of its returns is for discount {MEASURED_DISCOUNT} and says nothing of them"
        raise InputError(
            f"environment {environment.name!r}: unbounded return range with no range given, since {why} at discount"
            f" {discount}; pass low and high (--return-low, --return-high), or a discount below 1"
        )
    if not bounds[0] < bounds[1]:
        raise InputError(
            f"environment {environment.name!r}: returns in [{bounds[0]}, {bounds[1]}] ({how}) are no range; pass low "
            "and high (--return-low, --return-high) with low < high"
        )
    source = f"{how}; {_how_bounded(facts, low, high, limit, discount)}"
    return Returns(*bounds, listed, interval, source, between=reward_interval is not None)


def _rewards(
    environment: NativeEnvironment | VectorEnvironments,
    rewards: Sequence[float] | None,
    interval: tuple[float, float] | None,
    clip: float | None,
    seed: int,
) -> tuple[Facts | None, tuple[float, ...] | None, tuple[float, float], str]:
    """Facts if it is they that tell; the rewards, or None; their interval; and where this comes from."""
    if isinstance(environment, AtariEnvironments) and interval is None:
        if rewards is None and clip == 1:
            return ATARI, ATARI.rewards, (-1.0, 1.0), "rewards clipped to 1"
        if rewards is None or clip is None or clip > max(map(abs, rewards), default=0.0):
            size = "of any size" if clip is None else "of any size up to that"
            missing = "" if rewards is None else f", and rewards={list(rewards)} would not list them"
            raise InputError(
                f"reward_clip={clip}: rewards of {environment.name!r} can be {size}{missing}. Set reward_clip to 1 and"
                " leave rewards out, or say what they are (--reward-interval LOW HIGH) and between which numbers"
                " returns lie (--return-low, --return-high)"
            )
    facts, listed, interval, how = _unclipped(environment, rewards, interval, seed)
    if clip is None or max(map(abs, interval)) <= clip:
        return facts, listed, interval, how
    low, high, *clipped = (min(max(reward, -clip), clip) for reward in (*interval, *(listed or ())))
    return None, tuple(sorted(set(clipped))) if listed else None, (low, high), f"{how}, clipped to {clip:g}"


def _unclipped(
    environment: NativeEnvironment | VectorEnvironments,
    rewards: Sequence[float] | None,
    interval: tuple[float, float] | None,
    seed: int,
) -> tuple[Facts | None, tuple[float, ...] | None, tuple[float, float], str]:
    if rewards is not None:
        if not rewards or not np.all(np.isfinite(rewards)):
            raise InputError(f"rewards={rewards}: pass at least one number, all of them finite")
        ends = (float(min(rewards)), float(max(rewards)))
        if interval is not None and not interval[0] <= ends[0] <= ends[1] <= interval[1]:
            raise InputError(f"reward_interval={interval} does not hold rewards={list(rewards)}: pass one of the two")
        return None, tuple(sorted(set(map(float, rewards)))), interval or ends, "rewards as given"
    if interval is not None:
        if not (np.all(np.isfinite(interval)) and interval[0] <= interval[1]):
            raise InputError(f"reward_interval={interval}: pass two finite numbers, the smaller first")
        return None, None, (float(interval[0]), float(interval[1])), "rewards in the interval given"
    facts = facts_of(environment)
    if facts is not None:
        ends = (facts.rewards[0], facts.rewards[-1])
        return facts, facts.rewards if facts.listed else None, ends, f"rewards known for {environment.name}"
    seen = random_rewards(environment, seed)
    if not np.all(np.isfinite(seen)):
        raise InputError(f"environment {environment.name!r} pays rewards that are not finite: it cannot be learned")
    how = f"rewards seen in {PROBE_ENVIRONMENTS * PROBE_STEPS} random steps, which may miss those of better play"
    ends = (float(seen.min()), float(seen.max()))
    if _is_list(seen):
        return None, tuple(map(float, seen)), ends, how
    return None, None, _widened(*ends), f"{how}, widened by {MARGIN:.0%}"


def _bounds(
    repeated: Sequence[float], once: Sequence[float], discount: float, max_steps: int | None
) -> tuple[float, float]:
    """Of the sum of any ``repeated`` rewards, and one of ``once``. One end is 0 where rewards have one sign."""
    if max_steps is not None:
        horizon = float(max_steps) if discount == 1 else (1 - discount**max_steps) / (1 - discount)
    else:
        horizon = np.inf if discount == 1 else 1 / (1 - discount)
    least, most = min([0.0, *repeated]), max([0.0, *repeated])
    low = least * horizon if least < 0 else 0.0
    high = most * horizon if most > 0 else 0.0
    return low + min([0.0, *once]), high + max([0.0, *once])


def _widening(discount: float) -> float:
    """Times a range of returns that holds at γ = 0.99, for another discount.

    At a larger γ' the return is G_0 + (γ' − γ) Σ_{t≥1} γ'^{t−1} G_t in terms of those at γ. If all of these lie in a
    range, it lies in (1 − γ)/(1 − γ') times that. At a smaller one returns of rewards that are not negative, as
    MinAtar's, only shrink. Atari's ±10 is no bound but the published choice, and stays.
    """
    if discount <= MEASURED_DISCOUNT:
        return 1.0
    return np.inf if discount == 1 else (1 - MEASURED_DISCOUNT) / (1 - discount)


def random_rewards(environment: NativeEnvironment | VectorEnvironments, seed: int) -> Float[np.ndarray, " r"]:
    """The distinct rewards of random play, in order."""
    first, reward = (
        _play_native(environment, jax.random.key(seed))
        if isinstance(environment, NativeEnvironment)
        else _play_host(environment, seed)
    )
    return np.unique(reward[~first] + 0.0).astype(np.float64)  # −0 is 0; the start of an episode pays nothing


def _play_host(environment: VectorEnvironments, seed: int) -> tuple[np.ndarray, np.ndarray]:
    another = environment.another(PROBE_ENVIRONMENTS)
    rng = np.random.default_rng(seed)
    another.reset(seed)
    actions = rng.integers(0, another.space.num_actions, (PROBE_STEPS, PROBE_ENVIRONMENTS))
    steps = [another.step(action) for action in actions]
    another.close()
    return np.stack([step.first for step in steps]), np.stack([step.reward for step in steps])


def _play_native(environment: NativeEnvironment, key: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    num_actions = environment.space.num_actions

    def advance(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        inner, step = carry
        key_action, key_step = jax.random.split(key)
        action = jax.random.randint(key_action, (PROBE_ENVIRONMENTS,), 0, num_actions)
        keys = jax.random.split(key_step, PROBE_ENVIRONMENTS)
        inner, step = jax.vmap(environment.step)(keys, inner, step, action)
        return (inner, step), (step.first, step.reward)

    @jax.jit
    def play(key: jax.Array) -> Any:
        key_reset, key_steps = jax.random.split(key)
        start = jax.vmap(environment.reset)(jax.random.split(key_reset, PROBE_ENVIRONMENTS))
        return jax.lax.scan(advance, start, jax.random.split(key_steps, PROBE_STEPS))[1]

    first, reward = play(key)
    return np.asarray(first), np.asarray(reward)


def _is_list(seen: np.ndarray) -> bool:
    """Whether these are likely to be all rewards: a few, and multiples of one number."""
    if seen.size > MAX_LISTED:
        return False
    gaps = np.diff(np.unique(np.append(seen, 0.0)))
    unit = 1.0 if np.all(seen == np.round(seen)) else gaps.min()
    return bool(np.all(np.abs(seen / unit - np.round(seen / unit)) < 1e-3))


def _widened(low: float, high: float) -> tuple[float, float]:
    """An interval with a margin, which does not change the sign of its ends."""
    margin = MARGIN * (high - low)
    return (max(low - margin, 0.0) if low >= 0 else low - margin), (
        min(high + margin, 0.0) if high <= 0 else high + margin
    )


def _how_bounded(facts: Facts | None, low: float | None, high: float | None, limit: int | None, discount: float) -> str:
    if low is not None and high is not None:
        return "returns as given"
    given = "".join(f", {name} as given" for name, end in (("low", low), ("high", high)) if end is not None)
    factor = _widening(discount)
    widened = f" at discount {MEASURED_DISCOUNT}, widened {factor:g} times for {discount:g}" if factor > 1 else ""
    if facts is ATARI:
        return f"returns as published agents take them{widened}{given}"
    if facts is not None and facts.high is not None and high is None:
        return f"highest return as measured{widened}{given}"
    over = "" if limit is None else f" in {limit} steps"
    return f"returns as far as they go{over} at discount {discount:g}{given}"
