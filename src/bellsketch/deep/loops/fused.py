"""Acting, replay and learning in one jitted scan, for environments that are JAX functions; seeds side by side."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bellsketch.deep.agents.base import Agent
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.learner import Learner, LearnerConfig, LearnerInfo, LearnerState
from bellsketch.deep.replay import Replay, Row, empty_replay


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """How often to do what, in environment steps of one seed."""

    num_environments: int = 1
    update_period: int = 4
    """Steps for each update."""
    batch_size: int = 32
    replay_capacity: int = 100_000
    """Steps kept."""
    learning_starts: int = 5_000
    """Steps taken at random before the first update."""
    exploration_steps: int = 100_000
    """Steps over which ε falls to ``exploration_final``, after those at random."""
    exploration_final: float = 0.01
    discount: float = 0.99
    num_steps: int = 1
    """n of n-step returns."""


class LoopState(eqx.Module):
    """Everything a run has; save it and it can go on."""

    environments: Any
    replay: Replay
    learner: LearnerState
    key: jax.Array
    steps: Array
    """Environment steps taken."""
    returns: Float[Array, " e"]
    """Of the episodes under way, not discounted."""


class LoopInfo(eqx.Module):
    """What happened in one iteration."""

    finished: Float[Array, " e"]
    """Returns of episodes that ended, NaN elsewhere."""
    loss: Float[Array, ""]
    finite: Array


class FusedLoop:
    """One seed's run as pure functions: :meth:`init`, :meth:`explore`, :meth:`learn`. Callers vmap over seeds."""

    def __init__(self, agent: Agent, environment: NativeEnvironment, learner: LearnerConfig, loop: LoopConfig):
        self.agent, self.environment, self.loop = agent, environment, loop
        self.learner = Learner(agent, learner)

    def init(self, key: jax.Array) -> LoopState:
        """A network, environments and an empty replay, all from one key."""
        key, key_network, key_environments = jax.random.split(key, 3)
        env, n = self.environment, self.loop.num_environments
        network = self.agent.network(key_network, env.observation_shape, env.num_actions)
        environments = jax.vmap(env.reset)(jax.random.split(key_environments, n))
        rows = -(-self.loop.replay_capacity // n)
        replay = empty_replay(rows, n, env.observation_shape, env.observation_dtype)
        return LoopState(environments, replay, self.learner.init(network), key, jnp.zeros((), jnp.int32), jnp.zeros(n))

    def epsilon(self, steps: Array) -> Float[Array, ""]:
        """The chance of a random action after so many steps."""
        share = (steps - self.loop.learning_starts) / self.loop.exploration_steps
        return 1.0 - (1.0 - self.loop.exploration_final) * jnp.clip(share, 0.0, 1.0)

    def act(self, state: LoopState, _: Any = None) -> tuple[LoopState, Float[Array, " e"]]:
        """One step of every environment, into the replay."""
        key, key_values, key_random, key_choice, key_step = jax.random.split(state.key, 5)
        n, step = self.loop.num_environments, state.environments.step
        observations = step.observation
        values = jax.vmap(self.agent.action_values, in_axes=(0, None, 0))(
            jax.random.split(key_values, n), state.learner.network, observations
        )
        random = jax.random.randint(key_random, (n,), 0, self.environment.num_actions)
        explore = jax.random.uniform(key_choice, (n,)) < self.epsilon(state.steps)
        action = jnp.where(explore, random, jnp.argmax(values, axis=-1))
        following = jax.vmap(self.environment.step)(jax.random.split(key_step, n), state.environments, action)
        after = following.step
        row = Row(observations, step.first, ~step.ended, action, after.reward, after.discount)
        returns = jnp.where(step.ended, 0.0, state.returns + after.reward)
        finished = jnp.where(after.ended, returns, jnp.nan)
        updated = LoopState(following, state.replay.insert(row), state.learner, key, state.steps + n, returns)
        return updated, finished

    def learn(self, state: LoopState, _: Any = None) -> tuple[LoopState, LoopInfo]:
        """As many steps as an update is worth, and one update."""
        per_update = max(1, self.loop.update_period // self.loop.num_environments)
        state, finished = jax.lax.scan(self.act, state, None, per_update)
        key, key_sample, key_update = jax.random.split(state.key, 3)
        batch, weights = state.replay.sample(key_sample, self.loop.batch_size, self.loop.discount, self.loop.num_steps)
        learner, info = self.learner.update(key_update, state.learner, batch, weights)
        state = LoopState(state.environments, state.replay, learner, key, state.steps, state.returns)
        return state, _loop_info(finished, info)


def _loop_info(finished: Float[Array, "t e"], info: LearnerInfo) -> LoopInfo:
    return LoopInfo(finished.ravel(), info.loss, info.finite)
