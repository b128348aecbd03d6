"""Models whose states and actions have names: what can happen, and what a policy makes of it."""

import contextlib
import dataclasses
import math
import numbers
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.tabular.control.policy_iteration import policy_iteration
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.model_input import SUM_TOLERANCE
from bellsketch.tabular.mrp import MRP

END = "end"
"""The next state of what terminates."""
UNIFORM = "uniform"
"""The policy that takes every action of a state equally often."""
OPTIMAL = "optimal"
"""The policy that is best in the mean, or greedy in another criterion."""
ONLY = ""
"""The action of a state that has no choice."""

Outcome = tuple[float, Any, str]
"""Probability, reward, and the name of the next state, or :data:`END`."""
Policy = Mapping[str, str | Mapping[str, float]]
"""For each state an action, or the share of each."""

POLICIES = "pass 'uniform', 'optimal', or for each state an action or the share of each, such as {'a': {'go': 1.0}}"


@dataclasses.dataclass(frozen=True)
class NamedModel:
    """An MRP, and what its states are called."""

    mrp: MRP
    names: tuple[str, ...]
    actions: tuple[str, ...] = ()
    """What is done in each state, where that was found out; ``ONLY`` where there is no choice."""

    def state(self, name: str) -> int:
        """The number of a state."""
        if name not in self.names:
            raise UnknownNameError("state", name, self.names)
        return self.names.index(name)


@dataclasses.dataclass(frozen=True)
class NamedDecisions:
    """What each action brings in each state. States may differ in their actions."""

    outcomes: Mapping[str, Mapping[str, tuple[Outcome, ...]]]
    discount: float
    policy: Policy = dataclasses.field(default_factory=dict)
    """That whoever wrote the model had in mind; may leave states out."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of states."""
        return tuple(self.outcomes)

    @property
    def mdp(self) -> MDP:
        """The same by number. Where a state has fewer actions than another, its last stands for the missing ones."""
        most = max(map(len, self.outcomes.values()))
        models = []
        for i in range(most):
            chosen = {name: list(actions)[min(i, len(actions) - 1)] for name, actions in self.outcomes.items()}
            models.append(self.under(chosen).mrp)
        return MDP(models)

    def best(self, risk: str = "mean") -> dict[str, str]:
        """The action of each state under the policy that :func:`policy_iteration` finds."""
        found = policy_iteration(self.mdp, risk).policy
        listed = zip(self.outcomes.items(), found, strict=True)
        return {name: list(actions)[min(int(i), len(actions) - 1)] for (name, actions), i in listed}

    def under(self, policy: str | Policy | None = None, risk: str = "mean") -> NamedModel:
        """The model of following a policy: ``uniform``, ``optimal``, one by name of state, or the model's own.

        ``risk`` is what the optimal one is greedy in.
        """
        if not (policy is None or isinstance(policy, str | Mapping)):
            raise InputError(f"policy={policy!r}: {POLICIES}")
        if policy == OPTIMAL:
            best = self.best(risk)
            return dataclasses.replace(self.under(best), actions=tuple(best.values()))
        if risk != "mean":
            raise InputError(f"risk={risk!r}: is what a policy is chosen by; pass policy={OPTIMAL!r} with it")
        if isinstance(policy, str):
            if policy != UNIFORM:
                raise UnknownNameError("policy", policy, [UNIFORM, OPTIMAL])
            chosen: Policy = {name: _equally(actions) for name, actions in self.outcomes.items()}
        else:
            chosen = self.policy if policy is None else policy
        if unknown := [name for name in chosen if name not in self.outcomes]:
            raise UnknownNameError("state in policy", str(unknown[0]), self.outcomes)
        return named_model({name: self._mixed(name, chosen.get(name)) for name in self.outcomes}, self.discount)

    def _mixed(self, name: str, chosen: str | Mapping[str, float] | None) -> list[Outcome]:
        actions = self.outcomes[name]
        if chosen is None:
            if len(actions) > 1:
                raise InputError(
                    f"policy: state {name!r} has the actions {', '.join(actions)}; say which is taken there, or pass"
                    f" policy={UNIFORM!r} or {OPTIMAL!r}"
                )
            chosen = next(iter(actions))
        if not isinstance(chosen, str | Mapping):
            raise InputError(
                f"policy: state {name!r} has {chosen!r}; pass one of its actions, {', '.join(actions)}, or the share of"
                " each"
            )
        shares = {chosen: 1.0} if isinstance(chosen, str) else chosen
        if unknown := [action for action in shares if action not in actions]:
            raise UnknownNameError(f"action of state {name!r}", str(unknown[0]), actions)
        check_shares(f"policy: the shares of state {name!r}", list(shares.values()))
        return [(share * p, reward, y) for action, share in shares.items() for p, reward, y in actions[action]]


def _equally(actions: Mapping[str, Any]) -> dict[str, float]:
    return dict.fromkeys(actions, 1 / len(actions))


@contextlib.contextmanager
def errors_of(where: Any) -> Iterator[None]:
    """What is wrong with the input is said of a file, or a line of it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def no_state_is_the_end(names: Container[str]) -> None:
    """Raise where a state is called as what comes after the last one is."""
    if END in names:
        raise InputError(f"state {END!r}: is what comes after the last one; call the state something else")


def check_shares(what: str, shares: Sequence[float], rest: str = "") -> None:
    """Raise unless they are probabilities; ``rest`` says what to do with what is missing to 1."""
    for share in shares:
        if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 <= share < math.inf:
            raise InputError(f"{what} contain {share!r}; write numbers from 0 to 1")
    total = math.fsum(shares)
    if abs(total - 1) > SUM_TOLERANCE:
        remedy = rest.format(f"{1 - total:.12g}") if rest and total < 1 else "divide them by their sum"
        raise InputError(f"{what} sum to {total:.12g}, not 1; {remedy}")


def named_model(outcomes: Mapping[str, Iterable[Outcome]], discount: float) -> NamedModel:
    """From what can happen in each state, by name."""
    names = tuple(outcomes)
    no_state_is_the_end(names)
    number: dict[str, int] = {name: place for place, name in enumerate(names)}
    rows = []
    for name, each in outcomes.items():
        listed = list(each)
        for probability, reward, following in listed:
            if following != END and following not in number:
                raise UnknownNameError(f"next state of {name!r}:", str(following), [*names, END])
            rows.append((number[name], probability, reward, number.get(following)))
        if not listed:
            raise InputError(f"state {name!r}: nothing can happen there; say what comes next, {END!r} if nothing does")
        check_shares(f"state {name!r}: the probabilities", [p for p, _, _ in listed], f"let it go to {END!r} with {{}}")
    return NamedModel(MRP.from_outcomes(rows, discount, len(names)), names)
