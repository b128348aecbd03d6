"""Sketch-DQN (Wenliang et al., 2024, Sec. 5.1): mean embeddings, with Bellman backups that never leave sketch space."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellsketch.core.backups import RewardSet, RewardSpan
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class SketchDQN(Agent):
    """U(x, a) ≈ A_r Ū(x', a') + c_r, and φ(r) where the episode has terminated.

    The same Bellman coefficients and readouts as Sketch-DP's.
    """

    backup: RewardSet | RewardSpan
    readouts: Float[np.ndarray, "j m"]
    """β of each f_j of the criterion max_j E[f_j(G)] to be greedy in."""
    readout_offsets: Float[np.ndarray, " j"]
    signed: bool = False
    """Whether features lie in [−1, 1] (tanh) rather than in [0, 1] (sigmoid)."""

    def num_outputs(self) -> int:
        return self.readouts.shape[1]

    def sketches(self, network: Any, observation: Any) -> Float[Array, "a m"]:
        """U(x, ·)."""
        outputs = network(observation)
        return jnp.tanh(outputs) if self.signed else jax.nn.sigmoid(outputs)

    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        sketches = self.sketches(network, observation)
        return jnp.max(sketches @ jnp.asarray(self.readouts).T + self.readout_offsets, axis=-1)

    def loss(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, ""]:
        next_action = self.next_action(key, network, target, transition)
        following = self.sketches(target, transition.next_observation)[next_action]
        goal = self.backup(transition.reward, transition.discount > 0, following)
        sketch = self.sketches(network, transition.observation)[transition.action]
        return jnp.sum((sketch - jax.lax.stop_gradient(goal)) ** 2)
