"""JAX-native environments (Gymnax), reset one step after an episode's end."""

import dataclasses
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.environments.step import Space, Step


@dataclasses.dataclass(frozen=True)
class NativeEnvironment:
    """A Gymnax environment with discrete actions. All methods are pure and of one environment."""

    name: str
    environment: Any
    parameters: Any

    @property
    def space(self) -> Space:
        """Its observations and actions."""
        space = self.environment.observation_space(self.parameters)
        is_mask = len(space.shape) >= 2 and np.all(np.equal(space.low, 0)) and np.all(np.equal(space.high, 1))
        return Space(tuple(space.shape), np.uint8 if is_mask else space.dtype, int(self.environment.num_actions))

    def reset(self, key: jax.Array) -> tuple[Any, Step]:
        """The start of an episode: the environment's state, and what it shows."""
        observation, inner = self.environment.reset(key, self.parameters)
        return inner, Step(observation, jnp.array(True), jnp.zeros(()), jnp.ones(()), jnp.array(False))

    def step(self, key: jax.Array, inner: Any, last: Step, action: Any) -> tuple[Any, Step]:
        """One step; where ``last`` was the end of an episode the action is ignored and another starts."""
        key_step, key_reset = jax.random.split(key)
        _, moved, reward, terminated, truncated, info = self.environment.step(key_step, inner, action, self.parameters)
        after = Step(
            info["final_observation"],
            jnp.array(False),
            jnp.asarray(reward, jnp.float32),
            1.0 - terminated.astype(jnp.float32),
            terminated | truncated,
        )
        return jax.tree.map(lambda a, b: jnp.where(last.ended, a, b), self.reset(key_reset), (moved, after))


def make_native(name: str) -> NativeEnvironment:
    """A Gymnax environment by its name, such as ``CartPole-v1``, ``Breakout-MinAtar`` or ``Catch-bsuite``."""
    if name not in gymnax.registered_envs:
        raise UnknownNameError("environment", name, gymnax.registered_envs)
    environment, parameters = gymnax.make(name)
    if not hasattr(environment.action_space(parameters), "n"):
        raise InputError(f"environment {name!r} has continuous actions: agents here choose among finitely many")
    return NativeEnvironment(name, environment, parameters)
