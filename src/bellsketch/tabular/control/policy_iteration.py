"""Sketch policy iteration: evaluate a policy in sketch space, then be greedy in a readout."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.tabular.control.evaluation import Evaluator, Settings, make_evaluator
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.sampling import possible_reach
from bellsketch.tabular.solve import Solution

WASTEFUL = 2.0
"""Where the policies that led to a policy made the range so many times wider than its own, it is looked at again."""


@dataclasses.dataclass(frozen=True)
class Control:
    """A policy, the return distributions it brings, and what each action would bring instead."""

    policy: Int[np.ndarray, " s"]
    """The action of each state."""
    solution: Solution
    """Of following it."""
    evaluator: Evaluator
    iterations: int
    converged: bool
    """Whether no action is better for one step. If not, policies went round in a circle."""

    @property
    def criterion(self) -> Criterion:
        """What the policy is greedy in."""
        return self.evaluator.criterion

    @functools.cached_property
    def values(self) -> Float[np.ndarray, " s"]:
        """The criterion of each state's return."""
        return self.evaluator.values(self.solution.sketch)

    @functools.cached_property
    def action_sketches(self) -> Float[np.ndarray, "s a m"]:
        """Of taking an action once, and following the policy from then on."""
        return self.evaluator.action_sketches(self.solution.sketch)

    @functools.cached_property
    def action_values(self) -> Float[np.ndarray, "s a"]:
        """The criterion of these."""
        return self.evaluator.values(self.action_sketches)


def policy_iteration(
    mdp: MDP,
    criterion: str | Criterion | Callable[[Any], Any] = MEAN,
    *,
    policy: Any = None,
    features: str | FeatureMap = "sigmoid",
    num_features: int = 50,
    return_range: ReturnRange | tuple[float, float] | None = None,
    ridge: float = 1e-9,
    max_iterations: int = 100,
) -> Control:
    """A policy from which it does not pay to deviate for one step, by sketch policy iteration.

    In the mean that is the optimal policy (Howard, 1960), up to the error of the readout. In other criteria it is not:
    a state does not know what has been received before it. What is best there needs :func:`best_with_stock`, and the
    iteration may go round in a circle, of which the policy that is best on average over states is then returned, with
    a warning. See docs/methods/control.md.

    Args:
      mdp: the model.
      criterion: what to be greedy in: ``mean``, ``exceeds:3``, ``utility:0.5`` or ``cvar:0.1``, a function f, which
        stands for E[f(G)], or a criterion of ``bellsketch.risk``.
      policy: where to start, an action for each state; default: the first action everywhere.
      features: a feature map, or the name of a family to spread over the return range.
      num_features: m, if ``features`` is a name.
      return_range: the interval of returns. By default that of the policies that are met (mean ± 4.5 standard
        deviations), widened when one leaves it.
      ridge: the regression's penalty.
      max_iterations: at most so many policies are evaluated.
    """
    if max_iterations < 1:
        raise InputError(f"max_iterations={max_iterations}: must be at least 1")
    settings = Settings(features, num_features, ridge)
    current = np.zeros(mdp.num_states, dtype=np.int64) if policy is None else np.array(policy)
    if current.shape != (mdp.num_states,) or not np.issubdtype(current.dtype, np.integer):
        raise InputError(
            f"policy has shape {current.shape} and holds {current.dtype} numbers: expected {mdp.num_states} actions"
            f" from 0 to {mdp.num_actions - 1}, one for each state; of shares π(a | x) pass argmax(axis=1)"
        )
    if return_range is not None:
        span = return_range if isinstance(return_range, ReturnRange) else ReturnRange(*return_range)
        return _iterate(mdp, criterion, current, span, settings, max_iterations)
    found = _iterate(mdp, criterion, current, None, settings, max_iterations)
    if found.evaluator.return_range.width > WASTEFUL * possible_reach(mdp.pairs(found.policy)).width:
        found = _iterate(mdp, criterion, found.policy, None, settings, max_iterations)
    return found


def _iterate(
    mdp: MDP, criterion: Any, current: np.ndarray, given: ReturnRange | None, settings: Settings, max_iterations: int
) -> Control:
    """Policy iteration over a given range, or over one that grows with the policies that are met."""
    span = possible_reach(mdp.pairs(current)) if given is None else given
    evaluator = make_evaluator(mdp, criterion, span, settings)
    met: dict[bytes, Control] = {}
    for iteration in range(1, max_iterations + 1):
        needed = span if given is not None else span.hull(possible_reach(mdp.pairs(current)))
        if needed != span:  # what was found with narrower features does not count
            span, met = needed, {}
            evaluator = make_evaluator(mdp, criterion, span, settings)
        found = Control(current, evaluator.solution(current), evaluator, iteration, True)
        better = improved(found)
        if np.array_equal(better, current):
            return found
        met[current.tobytes()] = found
        if better.tobytes() in met:
            return _best_of_circle(list(met.values()), better)
        current = better
    raise InputError(f"max_iterations={max_iterations}: the policy still changes; allow more")


def improved(control: Control) -> Int[np.ndarray, " s"]:
    """The greedy policy, which keeps actions that are as good as any."""
    values = control.action_values
    states = np.arange(len(values))
    gains = values.max(axis=1) - values[states, control.policy]
    return np.where(gains > control.evaluator.least_gain, values.argmax(axis=1), control.policy)


def _best_of_circle(met: list[Control], first: Int[np.ndarray, " s"]) -> Control:
    start = next(i for i, control in enumerate(met) if np.array_equal(control.policy, first))
    circle = met[start:]
    best = max(circle, key=lambda control: float(control.values.mean()))
    warnings.warn(
        f"policy iteration goes round in a circle of {len(circle)} policies: criterion={best.criterion} is not linear"
        " in the return, or actions differ by less than the sketch can tell. The one that is best on average over"
        " states is returned; best_with_stock finds what is optimal from one state",
        BellsketchWarning,
        stacklevel=4,
    )
    return dataclasses.replace(best, converged=False)
