"""JAX-native environments (Gymnax), reset one step after an episode's end."""

import dataclasses
from typing import Any

import equinox as eqx
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bellsketch.core.errors import InputError, UnknownNameError


class Step(eqx.Module):
    """What an environment shows: before an action, and of the one before."""

    observation: Any
    first: Bool[Array, ""]
    """Whether an episode starts here; the action before it had no effect."""
    reward: Float[Array, ""]
    discount: Float[Array, ""]
    """0 after termination, else 1."""
    ended: Bool[Array, ""]
    """Whether this is the last observation of an episode, terminated or cut off."""


class NativeState(eqx.Module):
    """What the next step needs."""

    inner: Any
    step: Step


@dataclasses.dataclass(frozen=True)
class NativeEnvironment:
    """A Gymnax environment with discrete actions. All methods are pure."""

    name: str
    environment: Any
    parameters: Any

    @property
    def num_actions(self) -> int:
        return int(self.environment.num_actions)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return tuple(self.environment.observation_space(self.parameters).shape)

    @property
    def observation_dtype(self) -> Any:
        """Of what is stored: images of zeros and ones take a byte per pixel."""
        space = self.environment.observation_space(self.parameters)
        is_mask = len(space.shape) >= 2 and np.all(np.equal(space.low, 0)) and np.all(np.equal(space.high, 1))
        return np.uint8 if is_mask else space.dtype

    def reset(self, key: jax.Array) -> NativeState:
        """The start of an episode."""
        observation, inner = self.environment.reset(key, self.parameters)
        first = Step(observation, jnp.array(True), jnp.zeros(()), jnp.ones(()), jnp.array(False))
        return NativeState(inner, first)

    def step(self, key: jax.Array, state: NativeState, action: Any) -> NativeState:
        """One step; where the last observation was that of an ended episode, the action is ignored and one starts."""
        key_step, key_reset = jax.random.split(key)
        _, inner, reward, terminated, truncated, info = self.environment.step(
            key_step, state.inner, action, self.parameters
        )
        inner_observation = info["final_observation"]
        ended = terminated | truncated
        after = Step(
            inner_observation,
            jnp.array(False),
            jnp.asarray(reward, jnp.float32),
            1.0 - terminated.astype(jnp.float32),
            ended,
        )
        fresh = self.reset(key_reset)
        going_on = NativeState(inner, after)
        return jax.tree.map(lambda a, b: jnp.where(state.step.ended, a, b), fresh, going_on)


def make_native(name: str) -> NativeEnvironment:
    """A Gymnax environment by its name, such as ``CartPole-v1``, ``Breakout-MinAtar`` or ``Catch-bsuite``."""
    if name not in gymnax.registered_envs:
        raise UnknownNameError("environment", name, gymnax.registered_envs)
    environment, parameters = gymnax.make(name)
    if not hasattr(environment.action_space(parameters), "n"):
        raise InputError(f"environment {name!r} has continuous actions: agents here choose among finitely many")
    return NativeEnvironment(name, environment, parameters)
