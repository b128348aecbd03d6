"""What all TD methods share: drawing transitions, counting visits, following a trajectory."""

from abc import abstractmethod
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from bellsketch.core.arrays import Array
from bellsketch.core.errors import InputError
from bellsketch.core.pytree import pytree, static
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.sampling import TransitionSampler


@pytree
class TDState:
    """What a TD method carries along."""

    values: Float[Array, "s m"]
    """What is stored of each state: a sketch, probabilities, particles, …"""
    count: Int[Array, " s"]
    """How often each state has been updated."""
    position: Int[Array, ""]
    """Where the trajectory is (not used by synchronous updates)."""


@pytree
class Transition:
    """Transitions (x, r, x') of one step, one for each visited state."""

    values: Float[Array, "b m"]
    """Stored for x."""
    following: Float[Array, "b m"]
    """Stored for x'."""
    reward: Float[Array, " b"]
    reward_index: Int[Array, " b"]
    """Which of the sampler's rewards it is."""
    goes_on: Float[Array, " b"]
    """1, or 0 where the episode ends with this reward."""


@pytree
class TemporalDifference(Algorithm):
    """A TD method. Subclasses say what they store at first and how one transition changes it.

    ``synchronous`` updates draw a transition from every state at each step; otherwise each step follows one trajectory,
    which restarts at a uniformly random state when it ends.
    """

    sampler: TransitionSampler
    step_size: Any
    """α as a function of the number of updates the state has had."""
    synchronous: bool = static()

    @abstractmethod
    def initial_values(self) -> Float[jax.Array, "s m"]:
        """What is stored before the first update."""

    @abstractmethod
    def update(self, transition: Transition, step_size: Float[jax.Array, "b 1"]) -> Float[jax.Array, "b m"]:
        """What is stored for the visited states after their transitions."""

    @property
    def num_states(self) -> int:
        return self.sampler.successor.shape[0]

    @final
    def init(self, key: jax.Array) -> TDState:
        start = jax.random.randint(key, (), 0, self.num_states)
        return TDState(self.initial_values(), jnp.zeros(self.num_states, jnp.int32), start)

    @final
    def step(self, key: jax.Array, state: TDState) -> tuple[TDState, Info]:
        key_draw, key_restart = jax.random.split(key)
        visited = jnp.arange(self.num_states) if self.synchronous else state.position[None]
        index, reward, successor = self.sampler(key_draw, visited)
        old, goes_on = state.values[visited], (successor >= 0).astype(state.values.dtype)
        transition = Transition(old, state.values[jnp.maximum(successor, 0)], reward, index, goes_on)
        new = self.update(transition, self.step_size(state.count[visited])[:, None])
        restart = jax.random.randint(key_restart, (), 0, self.num_states)
        following = jnp.where(successor[0] < 0, restart, successor[0])
        updated = TDState(
            state.values.at[visited].set(new),
            state.count.at[visited].add(1),
            state.position if self.synchronous else following.astype(state.position.dtype),
        )
        return updated, Info(jnp.max(jnp.abs(new - old)))


def is_synchronous(mode: str) -> bool:
    """The two modes by name."""
    if mode not in ("synchronous", "trajectory"):
        raise InputError(f"mode={mode!r}: choose 'synchronous' or 'trajectory'")
    return mode == "synchronous"
