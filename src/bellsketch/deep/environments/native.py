"""JAX-native environments (Gymnax), reset one step after an episode's end."""

import dataclasses
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.environments.step import Space, Step

MASKS = ("-MinAtar", "Catch-bsuite", "DeepSea-bsuite")
"""How names end whose images are of zeros and ones only. Spaces do not tell: those of MNIST are in [0, 1] too."""


@dataclasses.dataclass(frozen=True)
class NativeEnvironment:
    """A Gymnax environment with discrete actions. All methods are pure and of one environment."""

    name: str
    environment: Any
    parameters: Any

    @property
    def space(self) -> Space:
        """Its observations and actions."""
        num_actions = int(self.environment.num_actions)
        if (categories := self._categories) is not None:
            return Space((categories,), np.float32, num_actions)
        space = self.environment.observation_space(self.parameters)
        return Space(tuple(space.shape), np.uint8 if self.name.endswith(MASKS) else np.float32, num_actions)

    @property
    def max_episode_steps(self) -> int:
        """Steps after which an episode is cut off."""
        return int(self.parameters.max_steps_in_episode)

    @property
    def _categories(self) -> int | None:
        """How many observations there are, if they are numbered."""
        space = self.environment.observation_space(self.parameters)
        return int(space.n) if hasattr(space, "n") else None

    def _shown(self, observation: jax.Array) -> jax.Array:
        """One-hot, if observations are numbered."""
        return observation if self._categories is None else jax.nn.one_hot(observation, self._categories)

    def reset(self, key: jax.Array) -> tuple[Any, Step]:
        """The start of an episode: the environment's state, and what it shows."""
        observation, inner = self.environment.reset(key, self.parameters)
        return inner, Step(self._shown(observation), jnp.array(True), jnp.zeros(()), jnp.ones(()), jnp.array(False))

    def step(self, key: jax.Array, inner: Any, last: Step, action: Any) -> tuple[Any, Step]:
        """One step; where ``last`` was the end of an episode the action is ignored and another starts."""
        key_step, key_reset = jax.random.split(key)
        # Not Gymnax's own step, which would also start an episode at once, and compute one's start for that.
        observation, moved, reward, terminated, _ = self.environment.step_env(key_step, inner, action, self.parameters)
        truncated = self.environment.is_truncated(moved, self.parameters)
        after = Step(
            self._shown(observation),
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
