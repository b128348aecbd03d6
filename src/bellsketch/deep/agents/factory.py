"""Agents by name, from what is known of an environment's rewards and returns."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bellsketch.core.backups import RewardSet, RewardSpan, reward_set
from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.families import make_features
from bellsketch.core.features import FeatureMap
from bellsketch.core.interpolation import interpolate_coefficients
from bellsketch.core.measures import Uniform
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.readout import fit_readout
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.agents.c51 import C51
from bellsketch.deep.agents.dqn import DQN
from bellsketch.deep.agents.iqn import IQN
from bellsketch.deep.agents.qr_dqn import QRDQN
from bellsketch.deep.agents.sketch_dqn import SketchDQN

SIGNED = ("tanh", "erf")
"""Families with features in [−1, 1]."""


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
    """Which agent. Options that it does not have are ignored."""

    name: str
    """dqn, c51, qr_dqn, iqn or sketch_dqn."""
    num: int | None = None
    """Atoms, quantiles, levels or features; by default as published."""
    features: str = "sigmoid"
    """Feature family of a sketch."""
    slope_factor: float = 1.0
    """Multiplies the family's default slope."""
    double: bool = False
    """Double Q-learning."""
    num_steps: int = 1
    """n of n-step returns: a sketch uses the coefficients of (R⁽ⁿ⁾, γⁿ)."""


def make_agent(config: AgentConfig, returns: Returns, discount: float, criterion: Criterion = MEAN) -> Agent:
    """The agent that a configuration describes."""
    if config.name not in AGENTS:
        raise UnknownNameError("agent", config.name, AGENTS)
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
    weights, offsets = _readouts(features, span, criterion)
    backup = _backup(features, span, returns, discount**config.num_steps, config.num_steps)
    return SketchDQN(backup, weights, offsets, config.features in SIGNED, double=config.double)


def _backup(
    features: FeatureMap, span: ReturnRange, returns: Returns, discount: float, num_steps: int
) -> RewardSet | RewardSpan:
    """Of a finite set of rewards, or of all in an interval: sums of several rewards are too many to list."""
    if returns.rewards is not None and num_steps == 1:
        fit = fit_coefficients(features, span.grid(), returns.rewards, (discount, 0.0))
        return reward_set(fit, discount)
    low, high = (num_steps * end for end in returns.reward_interval)
    grid = span.grid().locations
    mu = Uniform(float(grid.min()), float(grid.max()))
    return RewardSpan(interpolate_coefficients(features, mu, (min(low, 0.0), max(high, 0.0)), discount))


def _readouts(features: FeatureMap, span: ReturnRange, criterion: Criterion) -> tuple[np.ndarray, np.ndarray]:
    """β and b of each f_j."""
    grid = span.grid()
    count = criterion(np.zeros(1)).shape[1]
    fits = [fit_readout(features, _component(criterion, j), grid) for j in range(count)]
    return np.stack([fit.weights for fit in fits]).astype(np.float32), np.array([f.offset for f in fits], np.float32)


def _component(criterion: Criterion, j: int) -> Callable[[np.ndarray], Any]:
    return lambda g: criterion(g)[:, j]


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
