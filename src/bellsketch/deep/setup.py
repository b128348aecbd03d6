"""From a configuration to the things it names: an environment, what its returns are, an agent and a loop."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from bellsketch.core.errors import InputError
from bellsketch.core.memory import available_bytes, check_fits
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.risk import make_criterion
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.agents.factory import make_agent
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.environments.games import GAMES
from bellsketch.deep.environments.make import check_name, make_environment
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.environments.returns import Returns, find_returns
from bellsketch.deep.environments.vector import VectorEnvironments
from bellsketch.deep.loops.fused import FusedRunner
from bellsketch.deep.loops.hosted import HostedRunner
from bellsketch.deep.loops.loop import Loop, LoopState
from bellsketch.deep.networks import SCREEN, layers_for
from bellsketch.deep.parallel import Devices, find_devices
from bellsketch.deep.replay import empty_replay

Runner = FusedRunner | HostedRunner
REPLAY_SHARE = 0.9
"""Of memory; the rest is for networks, batches and what is computed of them."""
CHECKPOINT_REPLAYS = 2.5
"""Memory of the host that writing a checkpoint takes, in replays: a copy, another on its way to be compressed, and what
comes of that."""


@dataclasses.dataclass(frozen=True)
class Setup:
    """Everything that a run is made of, before its first step."""

    config: TrainingConfig
    returns: Returns
    agent: Agent
    runner: Runner

    @property
    def keys(self) -> jax.Array:
        """One for each seed: five seeds from 0 are the same runs as seeds 0 to 4 one by one, but for rounding."""
        return jax.vmap(jax.random.key)(self.config.seed + jnp.arange(self.config.seeds))

    @property
    def replay_bytes(self) -> float:
        """Of all seeds, on all devices."""
        loop, space = self.config.loop, self.runner.loop.space
        row = jax.eval_shape(lambda: empty_replay(3, loop.num_environments, space.frame_shape, space.frame_dtype).rows)
        row_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(row)) / 4
        return row_bytes * (self.runner.loop.rows + 1) * self.config.seeds  # one is being written

    def describe(self) -> str:
        """What will be learnt from what, for people to read."""
        rewards, (low, high) = self.returns.rewards, self.returns.reward_interval
        listed = [] if rewards is None else [f"rewards {', '.join(f'{r:g}' for r in rewards)}"]
        others = [f"rewards in [{low:g}, {high:g}]"] if rewards is None or self.returns.between else []
        paid = " and any ".join(listed + others)
        return (
            f"returns in [{self.returns.low:.4g}, {self.returns.high:.4g}], {paid} ({self.returns.source});"
            f" {self.config.agent}: {self.agent.summary}; {self.config.frames:,} frames of"
            f" {self.config.seeds} seed{'s' * (self.config.seeds > 1)}, {self.config.loop.num_environments} at a time;"
            f" a replay of {self.replay_bytes / 1e6:,.0f} MB{self._on_devices}"
        )

    @property
    def _on_devices(self) -> str:
        num = len(self.runner.loop.devices)
        return f" on {num} devices" if num > 1 else ""

    def shape(self) -> LoopState:
        """The shapes of a state, without a state."""
        return self.runner.shape(self.keys)


def set_up(config: TrainingConfig, devices: int = 1, returns: Returns | None = None) -> Setup:
    """What a configuration comes to, on so many devices; with returns that a run has found before, if it has."""
    found = find_devices(devices, config)
    environment = environments(config)
    returns = _returns(environment, config) if returns is None else returns
    criterion = make_criterion(config.risk, ReturnRange(returns.low, returns.high))
    agent = make_agent(config.agent, config.options, returns, config.loop.discount, criterion)
    if config.options.small and layers_for(shape := environment.space.observation_shape) != SCREEN:
        raise InputError(f"small=True: networks for observations of shape {shape} are small already; leave it out")
    loop = Loop(agent, environment.space, config, found)
    return Setup(config, returns, agent, _runner(loop, environment, config))


def _returns(environment: NativeEnvironment | VectorEnvironments, config: TrainingConfig) -> Returns:
    """As given, known or found: the same whatever the seed is, so that seeds side by side are those one by one."""
    given = config.returns
    return find_returns(
        environment,
        config.loop.discount,
        low=given.return_low,
        high=given.return_high,
        rewards=given.rewards,
        reward_interval=given.reward_interval,
        reward_clip=config.loop.reward_clip,
    )


def environments(
    config: TrainingConfig, num: int = 1, *, render: bool = False
) -> NativeEnvironment | VectorEnvironments:
    """What a run learns from: one that can be batched, or ``num`` on the host."""
    host, is_game = config.host, config.environment in GAMES
    others = ("asynchronous", "environment_options") if is_game else ("exact", "threads")
    for name, value in ((name, getattr(host, name)) for name in others):
        if value:
            check_name(config.environment)  # a game that is misspelt is not another environment
            kind = "Gymnasium's environments" if is_game else "the paper's 57 games of Atari"
            raise InputError(f"{name}={value!r}: is for {kind}, not for {config.environment!r}; leave it out")
    game = {"frame_skip": config.loop.frame_skip, "exact": host.exact, "threads": host.threads}
    return make_environment(
        config.environment,
        num,
        options=game if is_game else host.arguments,
        asynchronous=host.asynchronous,
        render=render,
    )


def _runner(loop: Loop, environment: NativeEnvironment | VectorEnvironments, config: TrainingConfig) -> Runner:
    if isinstance(environment, NativeEnvironment):
        if loop.groups > 1:
            raise InputError(f"groups={loop.groups}: {config.environment!r} is not on the host; leave it out")
        return FusedRunner(loop, environment)
    environment.close()
    make: Any = functools.partial(environments, config)
    return HostedRunner(loop, make, config.seeds)


def check_memory(setup: Setup) -> None:
    """Raise if the replay does not fit, or a checkpoint of it."""
    loop, available = setup.config.loop, _replay_room(setup.runner.loop.devices)
    rows = int((setup.runner.loop.rows + 1) * available / setup.replay_bytes) - 1
    check_fits(
        f"a replay of {loop.replay_capacity:,} steps for {setup.config.seeds} seed{'s' * (setup.config.seeds > 1)}"
        + setup._on_devices,
        setup.replay_bytes,
        f"the largest that fits, with room for a checkpoint on the host, has {rows * loop.num_environments:,} steps;"
        " choose a smaller --replay-capacity, or fewer --seeds, or more --devices if they are GPUs",
        available,
    )


def _replay_room(devices: Devices) -> int:
    """Bytes for it: of devices with memory of their own, in equal parts, or else of the host, which may stand for
    several devices. Checkpoints are made on the host.
    """
    stats: list[Any] = [device.memory_stats() for device in devices.devices or (jnp.zeros(()).device,)]
    host = REPLAY_SHARE * available_bytes()
    if not all(stats):
        return int(host / (1 + CHECKPOINT_REPLAYS))
    own = REPLAY_SHARE * len(stats) * min(each["bytes_limit"] - each["bytes_in_use"] for each in stats)
    return int(min(own, host / CHECKPOINT_REPLAYS))
