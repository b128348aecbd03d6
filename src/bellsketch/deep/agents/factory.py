"""Agents by name, from what is known of an environment's rewards and returns."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.families import make_features
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.agents.building import build_sketch_dqn
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN
from bellsketch.deep.config import AgentConfig
from bellsketch.deep.environments.returns import Returns
from bellsketch.deep.networks import TorsoOptions

ROUNDING = 1e-6
"""Relative error of a sum of two rewards in single precision, with room to spare."""
MOST_SUMS = 100
"""Of several rewards, that are listed. To fit 81 takes as long as to interpolate: 20 s and 17 s with 401 features."""
HUBER = 1 / 20
"""DQN's threshold in units of the width of returns: the published 1 for Atari's [−10, 10]. Where returns are wider, the
few transitions that end an episode would weigh as little as any others with that 1, and DQN may diverge."""
OPTIONS = {
    "dqn": ("huber",),
    "c51": ("num",),
    "qr_dqn": ("num",),
    "iqn": ("num",),
    "sketch_dqn": ("num", "features", "slope_factor", "anchor_margin", "grid_margin", "form", "interpolate", "force"),
}
"""Which agent has which, beside those that all have."""


def make_agent(name: str, config: AgentConfig, returns: Returns, discount: float, criterion: Criterion = MEAN) -> Agent:
    """An agent by its name, with these options."""
    if name not in AGENTS:
        raise UnknownNameError("agent", name, AGENTS)
    plain = AgentConfig()
    for option in sorted({option for options in OPTIONS.values() for option in options}.difference(OPTIONS[name])):
        if (value := getattr(config, option)) != (default := getattr(plain, option)):
            raise InputError(f"{option}={value!r}: {name} has no such option; leave it at {default!r}")
    if not 0 < discount <= 1:
        raise InputError(f"discount={discount}: must lie in (0, 1]")
    criterion(np.array([returns.low, returns.high], np.float32))  # raises where it is not finite
    agent = AGENTS[name](config, returns, discount, criterion)
    torso = TorsoOptions(config.small, config.bfloat16)
    return dataclasses.replace(agent, double=config.double, num_steps=config.num_steps, torso=torso)


def _dqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    if criterion != MEAN:
        raise InputError(f"criterion={criterion}: DQN knows means only; choose a distributional agent")
    return DQN(config.huber or max(1.0, HUBER * (returns.high - returns.low)))


def _c51(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    return C51(returns.low, returns.high, config.num or 51, criterion)


def _qr_dqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    return QRDQN(config.num or 201, criterion)


def _iqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    num = config.num or 64
    return IQN(num, num, criterion=criterion)


def _sketch_dqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    span = ReturnRange(returns.low, returns.high)
    features = make_features(
        config.features, span, config.num or 201, slope_factor=config.slope_factor, margin=config.anchor_margin
    )
    low, high = (config.num_steps * end for end in returns.reward_interval)
    slack = config.num_steps * ROUNDING * max(abs(low), abs(high))
    listed, between = returns.rewards, config.interpolate or returns.between
    if config.num_steps > 1:
        listed = None if listed is None or between else sums_of(listed, discount, config.num_steps, slack)
    interval = (min(low - slack, 0.0), max(high + slack, 0.0)) if between or listed is None else None
    return build_sketch_dqn(
        features,
        span.expand(config.grid_margin),
        discount**config.num_steps,
        rewards=listed,
        reward_tolerance=2 * slack if config.num_steps > 1 else 0.0,
        reward_interval=interval,
        criterion=criterion,
        form=config.form,
        returns=span,
        force=config.force,
    )


def sums_of(rewards: Sequence[float], discount: float, num_steps: int, apart: float) -> tuple[float, ...] | None:
    """All that so many steps can pay, or fewer before an episode ends, but for those not ``apart`` from one that is
    listed; None if they are too many, or rewards so close that rounding may make one of them another.
    """
    sums = paid = np.unique(rewards)
    if (np.diff(paid) <= 4 * apart).any():
        return None
    listed = sums.tolist()
    for _ in range(num_steps - 1):
        paid = np.unique(np.add.outer(rewards, discount * paid))
        sums = np.union1d(sums, paid)
        listed = []
        for total in sums.tolist():
            if not listed or total - listed[-1] > apart:
                listed.append(total)
        if len(listed) > MOST_SUMS:
            return None
    return tuple(listed)


AGENTS: dict[str, Callable[[AgentConfig, Returns, float, Criterion], Agent]] = {
    "dqn": _dqn,
    "c51": _c51,
    "qr_dqn": _qr_dqn,
    "iqn": _iqn,
    "sketch_dqn": _sketch_dqn,
}
