"""Markov decision processes: an MRP per action, which a policy mixes into one."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bellsketch.core.errors import InputError
from bellsketch.core.rewards import Reward
from bellsketch.tabular.model_input import TERMINAL, check_rows, number_rewards
from bellsketch.tabular.mrp import MRP


class MDP:
    """A Markov decision process: one :class:`MRP` per action, over the same states and with the same discount."""

    def __init__(self, actions: Sequence[MRP]):
        if not actions:
            raise InputError("actions: an MDP needs at least one action")
        first = actions[0]
        for i, action in enumerate(actions):
            if (action.num_states, action.discount) != (first.num_states, first.discount):
                raise InputError(
                    f"action {i} has {action.num_states} states and discount {action.discount}, action 0 has"
                    f" {first.num_states} and {first.discount}: all actions must share both"
                )
        self.actions = tuple(actions)
        self.num_states, self.num_actions, self.discount = first.num_states, len(actions), first.discount

    @classmethod
    def from_arrays(cls, transitions: Any, rewards: Any, discount: float, terminations: Any = None) -> "MDP":
        """From P[a, s, s'], rewards[a] in any form :class:`MRP` takes, and terminations[a, s]."""
        ends = [None] * len(transitions) if terminations is None else terminations
        if not len(transitions) == len(rewards) == len(ends):
            raise InputError(
                f"{len(transitions)} transition matrices, {len(rewards)} rewards and {len(ends)} terminations:"
                " give one of each per action"
            )
        return cls([MRP(p, r, discount, t) for p, r, t in zip(transitions, rewards, ends, strict=True)])

    def mrp(self, policy: Any) -> MRP:
        """The MRP of following a policy π(a | x) of shape [s, a], or an action per state of shape [s]."""
        policy = self._shares(policy)
        outcomes = [a.outcomes for a in self.actions]
        rewards, paid = self._rewards
        return MRP._from_arrays(
            np.concatenate([o.state for o in outcomes]),
            np.concatenate([o.successor for o in outcomes]),
            np.concatenate([o.probability * policy[o.state, i] for i, o in enumerate(outcomes)]),
            rewards,
            np.concatenate(paid),
            self.num_states,
            self.discount,
        )

    def pairs(self, policy: Any) -> MRP:
        """The MRP of taking any action once and following a policy, an action per state, from then on.

        Its state x · a + i is action i in state x, where a is the number of actions.
        """
        policy = np.argmax(self._shares(policy), axis=1)
        rewards, paid = self._rewards
        states, successors, probabilities = [], [], []
        for i, o in enumerate(action.outcomes for action in self.actions):
            following = np.maximum(o.successor, 0)
            states.append(o.state * self.num_actions + i)
            successors.append(np.where(o.terminal, TERMINAL, following * self.num_actions + policy[following]))
            probabilities.append(o.probability)
        return MRP._from_arrays(
            np.concatenate(states),
            np.concatenate(successors),
            np.concatenate(probabilities),
            rewards,
            np.concatenate(paid),
            self.num_states * self.num_actions,
            self.discount,
        )

    @functools.cached_property
    def _rewards(self) -> tuple[list[Reward], list[np.ndarray]]:
        """The distinct rewards of all actions, and for each action which of them its outcomes pay."""
        distinct, index = number_rewards([reward for action in self.actions for reward in action.rewards])
        offsets = np.cumsum([0] + [len(action.rewards) for action in self.actions[:-1]])
        paid = [index[start + a.outcomes.reward] for start, a in zip(offsets, self.actions, strict=True)]
        return distinct, paid

    @property
    def rewards(self) -> tuple[Reward, ...]:
        """The distinct rewards of all actions."""
        return tuple(self._rewards[0])

    def _shares(self, policy: Any) -> np.ndarray:
        """A policy as π(a | x)."""
        policy = np.asarray(policy)
        if policy.ndim == 1 and np.issubdtype(policy.dtype, np.integer):
            if policy.size != self.num_states or np.any((policy < 0) | (policy >= self.num_actions)):
                raise InputError(f"policy: expected {self.num_states} actions from 0 to {self.num_actions - 1}")
            policy = np.eye(self.num_actions)[policy]
        policy = np.asarray(policy, dtype=np.float64)
        if policy.shape != (self.num_states, self.num_actions):
            raise InputError(f"policy has shape {policy.shape}, expected {(self.num_states, self.num_actions)}")
        check_rows("policy", policy.min(axis=1), policy.sum(axis=1))
        return policy
