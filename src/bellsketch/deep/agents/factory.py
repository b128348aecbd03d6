"""Agents by name, from what is known of an environment's rewards and returns."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.families import make_features
from bellsketch.core.ranges import GRID_MARGIN, ReturnRange
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.agents.building import build_sketch_dqn
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN

OF_SKETCHES = ("features", "slope_factor", "form", "interpolate")
"""Options that other agents do not have."""


@dataclasses.dataclass(frozen=True)
class Returns:
    """What is known of an environment: the rewards it pays, and between which numbers its returns lie."""

    low: float
    high: float
    rewards: tuple[float, ...] | None
    """All of them, or None if they are any numbers in ``reward_interval``."""
    reward_interval: tuple[float, float]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise InputError(f"returns in [{self.low}, {self.high}]: pass a finite range with low < high")


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """Which agent, with what options."""

    name: str
    """dqn, c51, qr_dqn, iqn or sketch_dqn."""
    num: int | None = None
    """Atoms, quantiles, levels or features; by default as published."""
    features: str = "sigmoid"
    """Feature family of a sketch."""
    slope_factor: float = 1.0
    """Multiplies the family's default slope."""
    form: Literal["free", "constant", "none"] = "free"
    """Of a sketch's regressions: with a free intercept, with a penalised ``constant`` feature (the paper's) or ``none``
    at all. See :func:`build_sketch_dqn`."""
    interpolate: bool = False
    """Whether a sketch has interpolated coefficients for rewards that are not listed, but between the least and the
    greatest that there are. It has for all if none are listed."""
    double: bool = False
    """Double Q-learning."""
    num_steps: int = 1
    """n of n-step returns. A sketch uses the coefficients of (R⁽ⁿ⁾, γⁿ), interpolated in R⁽ⁿ⁾: one regression, not n of
    them one after the other, whose errors would add up."""

    def __post_init__(self) -> None:
        if self.num is not None and self.num < 1:
            raise InputError(f"num={self.num}: at least 1 is needed, or None for the published number")
        if self.num_steps < 1:
            raise InputError(f"num_steps={self.num_steps}: returns are over at least 1 step")
        if not (self.slope_factor > 0 and np.isfinite(self.slope_factor)):
            raise InputError(f"slope_factor={self.slope_factor}: must be positive and finite; 1 is the default slope")


def make_agent(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion = MEAN) -> Agent:
    """The agent that a configuration describes."""
    if config.name not in AGENTS:
        raise UnknownNameError("agent", config.name, AGENTS)
    if config.name != "sketch_dqn":
        plain = AgentConfig(config.name)
        for option in OF_SKETCHES:
            if (value := getattr(config, option)) != (default := getattr(plain, option)):
                raise InputError(f"{option}={value!r}: {config.name} has no such option; leave it at {default!r}")
    if not 0 < discount <= 1:
        raise InputError(f"discount={discount}: must lie in (0, 1]")
    return AGENTS[config.name](config, returns, discount, criterion)


def _dqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    if criterion != MEAN:
        raise InputError(f"criterion={criterion}: DQN knows means only; choose a distributional agent")
    return DQN(double=config.double)


def _c51(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    return C51(returns.low, returns.high, config.num or 51, criterion, double=config.double)


def _qr_dqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    return QRDQN(config.num or 201, criterion, double=config.double)


def _iqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    num = config.num or 64
    return IQN(num, num, criterion=criterion, double=config.double)


def _sketch_dqn(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion) -> Agent:
    span = ReturnRange(returns.low, returns.high)
    features = make_features(config.features, span, config.num or 201, slope_factor=config.slope_factor)
    # Sums of several rewards are too many to list.
    listed = returns.rewards if config.num_steps == 1 else None
    low, high = (config.num_steps * end for end in returns.reward_interval)
    interval = (min(low, 0.0), max(high, 0.0)) if listed is None or config.interpolate else None
    return build_sketch_dqn(
        features,
        span.expand(GRID_MARGIN),
        discount**config.num_steps,
        rewards=listed,
        reward_interval=interval,
        criterion=criterion,
        form=config.form,
        double=config.double,
    )


AGENTS: dict[str, Callable[[AgentConfig, Returns, float, Criterion], Agent]] = {
    "dqn": _dqn,
    "c51": _c51,
    "qr_dqn": _qr_dqn,
    "iqn": _iqn,
    "sketch_dqn": _sketch_dqn,
}


def known_returns(rewards: Sequence[float], discount: float, max_steps: int | None = None) -> Returns:
    """Returns between the extremes that rewards could add up to, over an episode of at most ``max_steps``."""
    low, high = float(min(rewards)), float(max(rewards))
    horizon = (1 - discount**max_steps) / (1 - discount) if max_steps is not None else 1 / (1 - discount)
    least, most = min(low, 0.0) * horizon, max(high, 0.0) * horizon
    return Returns(least, most, tuple(sorted(set(map(float, rewards)))), (low, high))
