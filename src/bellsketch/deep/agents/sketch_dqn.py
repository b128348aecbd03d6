"""Sketch-DQN (Wenliang et al., 2024, Sec. 5.1): mean embeddings, with Bellman backups that never leave sketch space."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bellsketch.core.backups import Backup
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.imputation import Decoder
from bellsketch.deep.agents.base import Agent
from bellsketch.deep.agents.reading import Reading, ReadingReport
from bellsketch.deep.networks import HeadedTorso
from bellsketch.deep.transition import Transition


@dataclasses.dataclass(frozen=True)
class SketchReport:
    """How far what a Sketch-DQN is built from can be trusted, before any learning."""

    features: str
    """In words."""
    rewards: str
    """Likewise."""
    form: str
    coefficient_error: float
    """The largest |φ(r + γg) − A_r φ(g) − c_r| on the regression grid, discount 0 included where it is regressed."""
    norm: float
    """The largest spectral norm of A_r, of the rewards that are listed or at the ends of their interval."""
    reading: ReadingReport

    def __str__(self) -> str:
        return (
            f"{self.features}, {self.rewards}, {self.form} form, largest regression error {self.coefficient_error:.1e},"
            f" largest norm {self.norm:.3g}, mean readout error {self.reading.error:.1e}"
            f"{', of decoded distributions' if self.reading.decodes else ''}"
        )


@dataclasses.dataclass(frozen=True)
class SketchDQN(Agent):
    """U(x, a) ≈ A_r Ū(x', a') + c_r, and φ(r) where the episode has terminated.

    The same Bellman coefficients and readouts as Sketch-DP's. How they were fitted, with a free intercept or as in the
    paper, is decided where they come from: see :func:`build_sketch_dqn`.
    """

    backup: Backup
    reading: Reading
    """What to be greedy in."""
    signed: bool = False
    """Whether features lie in [−1, 1] (tanh) rather than in [0, 1] (sigmoid)."""
    decoder: Decoder | None = None
    """How to read distributions off sketches, if they are to be looked at."""
    report: SketchReport | None = None

    @property
    def summary(self) -> str:
        return str(self.report or f"{self.num_features} features")

    @property
    def num_features(self) -> int:
        """m."""
        return self.backup.features.num_features

    def network(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int) -> eqx.Module:
        return HeadedTorso(key, observation_shape, num_actions, self.num_features, self.torso)

    def sketches(self, network: Any, observation: Any) -> Float[Array, "a m"]:
        """U(x, ·)."""
        outputs = network(observation)
        return jnp.tanh(outputs) if self.signed else jax.nn.sigmoid(outputs)

    def action_values(self, key: jax.Array, network: Any, observation: Any) -> Float[Array, " a"]:
        return self.reading(self.sketches(network, observation))

    def distribution(self, key: jax.Array, network: Any, observation: Any) -> AtomicDistribution:
        if self.decoder is None:
            raise InputError("decoder=None: sketches cannot be decoded; build the agent with a Decoder")
        return self.decoder(np.asarray(self.sketches(network, observation)))

    def unknown_rewards(
        self, rewards: Float[np.ndarray, " b"], discounts: Float[np.ndarray, " b"]
    ) -> Bool[np.ndarray, " b"]:
        """Without coefficients: neither listed nor in the interval, or with a discount that is neither γ nor 0."""
        rewards, discounts = np.asarray(rewards), np.asarray(discounts)
        return ~np.asarray(self.backup.covers(rewards) & self.backup.knows_discount(discounts))

    def goal(self, key: jax.Array, network: Any, target: Any, transition: Transition) -> Float[Array, " m"]:
        next_action = self.next_action(key, network, target, transition)
        following = self.sketches(target, transition.next_observation)[next_action]
        return self.backup(transition.reward, transition.discount, following)

    def error(self, key: jax.Array, network: Any, transition: Transition, goal: Float[Array, " m"]) -> Float[Array, ""]:
        sketch = self.sketches(network, transition.observation)[transition.action]
        return jnp.sum((sketch - goal) ** 2)
