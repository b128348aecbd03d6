"""What people ask of a return: mean, spread, quantiles and risk of every state, in one table."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pandas as pd

from bellsketch.core.errors import InputError
from bellsketch.tabular.entropic import entropic_risk
from bellsketch.tabular.models.log import Log
from bellsketch.tabular.sampling import possible_reach
from bellsketch.tabular.solve import Solution, solve

LEVEL = 0.95
"""Of bootstrap intervals."""


@dataclasses.dataclass(frozen=True)
class Questions:
    """What to ask."""

    levels: tuple[float, ...] = (0.05, 0.5, 0.95)
    """Of quantiles."""
    cvar: float = 0.05
    """The share of worst returns whose mean is the conditional value at risk."""
    below: float | None = None
    """Also P(G < below)."""
    entropic: float | None = None
    """Also −log E[e^{−kG}] / k, for this k: what a return is worth to somebody with that aversion to risk."""

    def __post_init__(self) -> None:
        if bad := [level for level in (*self.levels, self.cvar) if not 0 < level < 1]:
            raise InputError(f"level {bad[0]}: must lie between 0 and 1")
        if self.entropic is not None and not (np.isfinite(self.entropic) and self.entropic != 0):
            raise InputError(f"entropic={self.entropic}: pass a finite number other than 0; 0 would be the mean")
        if self.below is not None and not np.isfinite(self.below):
            raise InputError(f"below={self.below}: pass a finite number")


def answers(solution: Solution, questions: Questions | None = None) -> pd.DataFrame:
    """A row for each state.

    The mean is read off the sketch, the standard deviation (Sobel's equation) and the entropic risk are exact, the rest
    is of the decoded distributions.
    """
    questions = Questions() if questions is None else questions
    distributions = solution.distributions
    columns = {"mean": solution.mean, "sd": np.sqrt(solution.mrp.return_variance)}
    quantiles = distributions.quantile(np.array(questions.levels))
    columns |= {_percent(level): quantiles[:, i] for i, level in enumerate(questions.levels)}
    columns[f"CVaR {_percent(questions.cvar)}"] = np.asarray(distributions.cvar(questions.cvar))
    if (c := questions.below) is not None:
        columns[f"P(G < {c:g})"] = np.clip(solution.expectation(lambda g: (g < c).astype(float)), 0.0, 1.0)
    if questions.entropic is not None:
        columns[f"entropic {questions.entropic:g}"] = entropic_risk(solution.mrp, questions.entropic)
    return pd.DataFrame(columns)


def _percent(level: float) -> str:
    return f"{100 * level:.10g}%"


def bootstrap_answers(
    log: Log,
    solution: Solution,
    questions: Questions | None = None,
    *,
    seed: int = 0,
    num: int = 200,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The ends of the 95% interval of every answer: what other logs of the same length would have said.

    Args:
      log: that the model of ``solution`` was estimated from.
      solution: what it was solved with is used for all, over a wider range where returns of another log need one.
      questions: as for :func:`answers`.
      seed: for drawing logs.
      num: of logs to draw.
      report: called with the number of logs done and their total.
    """
    if num < 2:
        raise InputError(f"num={num}: an interval needs at least 2 logs")
    rng = np.random.default_rng(seed)
    found = []
    for done in range(num):
        model = log.resampled(rng, solution.mrp.discount).mrp
        span = solution.return_range.hull(possible_reach(model))
        again = solve(model, return_range=span, **solution.settings)
        found.append(answers(again, questions))
        report(done + 1, num)
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(np.stack([table.to_numpy() for table in found]), [tail, 100 - tail], axis=0)
    return tuple(pd.DataFrame(end, columns=found[0].columns) for end in (low, high))  # type: ignore[return-value]
