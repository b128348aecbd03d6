"""Sketch Q-learning: Sketch-TD for every action, towards the sketch of the action that is best in a readout."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder
from bellsketch.core.pytree import pytree, static
from bellsketch.core.readout import CriterionReadout, Readout
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.sampling import TransitionSampler, transition_sampler
from bellsketch.tabular.schedules import as_schedule
from bellsketch.tabular.sketch import Coefficients, RewardTable, reward_table
from bellsketch.tabular.temporal_difference import TDState, Transition, is_synchronous


@pytree
class SketchQLearning(Algorithm):
    """U(x, a) ← (1−α) U(x, a) + α (A_r U(x', a*) + c_r), a* the best action of x' by the readout; φ(r) at the end.

    Its state is that of a TD method on pairs: x · a + i is action i in state x.
    """

    sampler: TransitionSampler
    """Of pairs; successors are any pair of the next state."""
    step_size: Any
    exploration: Any
    """The share of random actions along a trajectory."""
    features: FeatureMap
    backups: RewardTable
    readout: Readout | CriterionReadout
    decoder: Decoder
    num_actions: int = static()
    synchronous: bool = static()

    @property
    def num_pairs(self) -> int:
        """Of a state and an action."""
        return self.sampler.successor.shape[0]

    def action_values(self, values: Float[Array, "p m"]) -> Float[Array, "s a"]:
        """What the readout says of each action in each state."""
        return self.readout(values).reshape(-1, self.num_actions)

    def policy(self, state: TDState) -> Int[np.ndarray, " s"]:
        """The action that is best by what has been learnt."""
        return np.asarray(self.action_values(state.values)).argmax(axis=1)

    def init(self, key: jax.Array) -> TDState:
        start = jax.random.randint(key, (), 0, self.num_pairs)
        values = jnp.tile(self.features(jnp.zeros(())), (self.num_pairs, 1))
        return TDState(values, jnp.zeros(self.num_pairs, jnp.int32), start)

    def step(self, key: jax.Array, state: TDState) -> tuple[TDState, Info]:
        key_draw, key_next = jax.random.split(key)
        visited = jnp.arange(self.num_pairs) if self.synchronous else state.position[None]
        index, reward, successor = self.sampler(key_draw, visited)
        best = self._best(state.values, jnp.maximum(successor, 0) // self.num_actions)
        goes_on = (successor >= 0).astype(state.values.dtype)
        before = jnp.asarray(state.values)
        old = before[visited]
        goal = self.backups.targets(Transition(old, before[best], reward, index, goes_on))
        new = old + self.step_size(state.count[visited])[:, None] * (goal - old)
        values = before.at[visited].set(new)
        position = state.position
        if not self.synchronous:
            position = self._next(key_next, values, successor[0]).astype(position.dtype)
        return TDState(values, state.count.at[visited].add(1), position), Info(jnp.max(jnp.abs(new - old)))

    def _best(self, values: Float[Array, "p m"], state: Int[jax.Array, "..."]) -> Int[jax.Array, "..."]:
        """The pair of each of these states that is best by the readout."""
        scores = jnp.asarray(self.action_values(values))[state]
        return state * self.num_actions + jnp.argmax(scores, axis=-1).astype(state.dtype)

    def _next(self, key: jax.Array, values: Float[jax.Array, "p m"], successor: Int[jax.Array, ""]) -> jax.Array:
        """The next pair of a trajectory: the best action or a random one, and any pair after the end."""
        key_explore, key_action, key_restart = jax.random.split(key, 3)
        state = jnp.maximum(successor, 0) // self.num_actions
        anyhow = state * self.num_actions + jax.random.randint(key_action, (), 0, self.num_actions)
        explores = jax.random.uniform(key_explore) < self.exploration
        following = jnp.where(explores, anyhow, self._best(values, state))
        restart = jax.random.randint(key_restart, (), 0, self.num_pairs)
        return jnp.where(successor < 0, restart, following)

    def decode(self, state: TDState) -> AtomicDistribution:
        return self.decoder(state.values)


def sketch_q_learning(
    mdp: MDP,
    coefficients: Coefficients,
    decoder: Decoder,
    step_size: Any,
    readout: Readout | CriterionReadout,
    *,
    mode: str = "synchronous",
    exploration: float = 0.1,
) -> SketchQLearning:
    """Sketch Q-learning on transitions drawn from a model.

    Args:
      mdp: the model to draw from. Continuous rewards are drawn from the atoms of ``split_rewards("quadrature")``.
      coefficients: for every reward that can be drawn, at the model's discount and at 0.
      decoder: how to read distributions off sketches.
      step_size: a number, or a function of the number of updates a pair has had (see ``bellsketch.schedules``).
      readout: what to be greedy in, by ``fit_readout`` or ``fit_criterion``. Only of the mean is it known to converge.
      mode: ``synchronous`` draws a transition of every pair at each step, ``trajectory`` follows one.
      exploration: the share of random actions along a trajectory.
    """
    if not 0 <= exploration <= 1:
        raise InputError(f"exploration={exploration}: must lie in [0, 1]")
    pairs = mdp.pairs(np.zeros(mdp.num_states, dtype=np.int64)).split_rewards("quadrature")
    return SketchQLearning(
        transition_sampler(pairs),
        as_schedule(step_size),
        float(exploration),
        coefficients.features,
        reward_table(pairs, coefficients),
        readout,
        decoder,
        mdp.num_actions,
        is_synchronous(mode),
    )
