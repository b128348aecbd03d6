"""What every loop does with one seed's run: choose actions, record what they brought, learn; and all seeds at once."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bellsketch.core.errors import InputError
from bellsketch.deep.acting import choose_actions
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.environments.step import Space, Step
from bellsketch.deep.groups import ALL, Group
from bellsketch.deep.learner import Learner, LearnerState
from bellsketch.deep.parallel import ONE, Devices
from bellsketch.deep.replay import Replay, Row, empty_replay
from bellsketch.deep.transition import Transition


class Tally(eqx.Module):
    """What happened since the last record, summed up."""

    episodes: Int[Array, "*s"]
    """That ended."""
    total_return: Float[Array, "*s"]
    """Of those episodes, not discounted."""
    updates: Int[Array, "*s"]
    total_loss: Float[Array, "*s"]


class Failure(eqx.Module):
    """The first batch whose loss, or parameters after it, would not have been finite; nothing was learnt from it."""

    happened: Bool[Array, "*s"]
    steps: Int[Array, "*s"]
    """Environment steps taken by then."""
    batch: Transition


class LoopState(eqx.Module):
    """Everything a run has; save it and it can go on. Of one seed, or of several with an axis in front."""

    environments: Any
    """Their states, if they are on the device."""
    step: Step
    """What they show, [e, …]."""
    stacked: Any
    """What the agent sees of them, [e, …, k], if it is more than the last frame."""
    replay: Replay
    learner: LearnerState
    key: jax.Array
    steps: Int[Array, "*s"]
    """Environment steps taken."""
    returns: Float[Array, "*s e"]
    """Of the episodes under way, not discounted."""
    tally: Tally
    failure: Failure


class Loop:
    """An agent, how it learns, and how often it does what."""

    def __init__(self, agent: Agent, space: Space, config: TrainingConfig, devices: Devices = ONE):
        self.agent, self.space, self.config, self.devices = agent, space, config.loop, devices
        self.groups = config.groups
        rows, needed = self.rows, space.stack + agent.num_steps + 1
        if rows < needed:
            raise InputError(
                f"replay_capacity={self.config.replay_capacity}, num_environments={self.config.num_environments}: each"
                f" has {rows} steps in it, and at least {needed} are needed; pass a larger --replay-capacity, or fewer"
                " --num-environments"
            )
        self.learner = Learner(agent, config.learner, config.iterations * config.loop.updates)

    @property
    def rows(self) -> int:
        """Of the replay."""
        return -(-self.config.replay_capacity // self.config.num_environments)

    def init(self, key: jax.Array, environments: Any, step: Step) -> LoopState:
        """A network with random parameters and an empty replay."""
        key, key_network = jax.random.split(key)
        space, num = self.space, self.config.num_environments
        network = self.agent.network(key_network, space.observation_shape, space.num_actions)
        replay = empty_replay(self.rows, num, space.frame_shape, space.frame_dtype, space.stack)
        shapes, _ = jax.eval_shape(self._sample, key, replay)
        none = jnp.zeros((), jnp.int32)
        failure = Failure(jnp.array(False), none, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
        learner = self.learner.init(network)
        stacked = self._stacked(None, step)
        returns = jnp.zeros(num)
        return LoopState(environments, step, stacked, replay, learner, key, none, returns, empty_tally(), failure)

    def choose(self, state: LoopState, group: Group = ALL) -> tuple[LoopState, Int[Array, " e"]]:
        """An action for every environment of a group: greedy, or random with probability ε."""
        key, key_action = jax.random.split(state.key)
        epsilon = self.config.epsilon(state.steps)
        seen = state.step.observation if state.stacked is None else state.stacked
        action = choose_actions(key_action, self.agent, state.learner.network, group.of(seen), epsilon)
        return dataclasses.replace(state, key=key), action

    def record(
        self, state: LoopState, action: Int[Array, " e"], environments: Any, after: Step, group: Group = ALL
    ) -> LoopState:
        """What the actions of a group brought, into the replay and the tally."""
        before, stacked, returns = group.of((state.step, state.stacked, state.returns))
        reward = after.reward if (clip := self.config.reward_clip) is None else jnp.clip(after.reward, -clip, clip)
        row = Row(before.observation, before.first, ~before.ended, action, reward, after.discount)
        returns = jnp.where(before.ended, 0.0, returns + after.reward)
        tally = dataclasses.replace(
            state.tally,
            episodes=state.tally.episodes + after.ended.sum(dtype=jnp.int32),
            total_return=state.tally.total_return + jnp.where(after.ended, returns, 0.0).sum(),
        )
        return dataclasses.replace(
            state,
            environments=environments,
            step=group.put(state.step, after),
            stacked=group.put(state.stacked, self._stacked(stacked, after)),
            replay=state.replay.insert(row, group),
            steps=state.steps + action.size,
            returns=group.put(state.returns, returns),
            tally=tally,
        )

    def update(self, state: LoopState) -> LoopState:
        """The updates that follow a group's turn: of an iteration, if there is one group.

        Their batches are drawn together, since the replay is the same for all.
        """
        key, key_sample, key_update = jax.random.split(state.key, 3)
        num = self.config.updates // self.groups
        batches, weights = jax.vmap(self._sample, (0, None))(jax.random.split(key_sample, num), state.replay)
        batches, weights = self.devices.share_out(batches, weights)
        learner, info = self.learner.update(jax.random.split(key_update, num), state.learner, batches, weights)
        tally = dataclasses.replace(
            state.tally,
            updates=state.tally.updates + num,
            total_loss=state.tally.total_loss + jnp.where(info.finite, info.loss, 0.0).sum(),
        )
        first = jnp.argmin(info.finite)
        fails_now = ~info.finite[first] & ~state.failure.happened
        failure = jax.tree.map(
            lambda now, kept: jnp.where(fails_now, now, kept),
            Failure(jnp.array(True), state.steps, jax.tree.map(lambda x: x[first], batches)),
            state.failure,
        )
        return dataclasses.replace(state, learner=learner, key=key, tally=tally, failure=failure)

    def _stacked(self, before: Any, step: Step) -> Any:
        return self.space.observe(before, step) if self.space.stack > 1 else None

    def _sample(self, key: jax.Array, replay: Replay) -> tuple[Transition, Float[Array, " b"]]:
        return replay.sample(key, self.config.batch_size, self.config.discount, self.agent.num_steps)


def over_seeds(part: Callable[..., Any]) -> Callable[..., Any]:
    """A part of one seed's run for all of them, which have an axis in front.

    One seed is not made a batch of one: XLA's programs for those are slower, docs/performance.md. Not for what a loop
    on the device repeats, where taking the axis away in each round costs more than it saves.
    """

    def together(*given: Any) -> Any:
        if len(jax.tree.leaves(given)[0]) > 1:
            return jax.vmap(part)(*given)
        alone = part(*jax.tree.map(lambda x: jnp.squeeze(x, 0), given))
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), alone)

    return together


def seed_of(modules: Any, index: int | slice) -> Any:
    """One seed's part of what has an axis of seeds in front, or that of some seeds."""
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, modules)


def empty_tally() -> Tally:
    """Nothing happened yet."""
    whole, real = jnp.zeros((), jnp.int32), jnp.zeros(())
    return Tally(whole, real, whole, real)
