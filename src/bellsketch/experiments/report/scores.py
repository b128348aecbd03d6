"""Scores that can be averaged over games, and what they come to over all of them."""

import dataclasses
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bellsketch.deep.environments.games import GAMES
from bellsketch.experiments.deep_comparison import BOOTSTRAP_SEED, LEAST_GAIN, RANDOM_SCORES
from bellsketch.experiments.report.results import Results
from bellsketch.experiments.statistics import Estimate, Statistic, bootstrap, interquartile_mean

CURVE_RESAMPLES = 500
MINATAR = "-MinAtar"


@dataclasses.dataclass(frozen=True)
class Scale:
    """Two scores of each game: where a normalised score is 0, and where it is 1."""

    zero: Mapping[str, float]
    one: Mapping[str, float]
    words: str

    def __call__(self, environments: Sequence[str], scores: np.ndarray) -> np.ndarray:
        """Normalised scores, from scores [..., k]."""
        zero, one = (np.array([ends[name] for name in environments]) for ends in (self.zero, self.one))
        return (scores - zero) / (one - zero)


def human_scores() -> pd.DataFrame:
    """``random`` and ``human``, by game."""
    file = importlib.resources.files("bellsketch.experiments.report") / "human_scores.csv"
    with file.open(encoding="utf-8") as lines:
        return pd.read_csv(lines, comment="#", index_col="game")


def find_scale(results: Results) -> Scale | None:
    """Random play and a human's on Atari; random play and DQN's on MinAtar; None: scores cannot be compared."""
    if all(name in GAMES for name in results.environments):
        table = human_scores()
        return Scale(dict(table["random"]), dict(table["human"]), "human-normalised score")
    if all(name.removesuffix(MINATAR) in RANDOM_SCORES for name in results.environments):
        unit = next((setting for setting in results.settings if setting.agent == "dqn"), results.settings[0])
        zero = {name: RANDOM_SCORES[name.removesuffix(MINATAR)] for name in results.environments}
        one = {
            name: zero[name] + max(float(np.mean(results.final(unit.name, name))) - zero[name], LEAST_GAIN)
            for name in results.complete([unit.name])
        }
        return Scale(zero, one, f"score (0: random play, 1: {unit.name} in the end)")
    return None


def mean_score(scores: np.ndarray) -> Any:
    """Over games and seeds [..., s, k]."""
    return scores.mean(axis=(-2, -1))


def median_score(scores: np.ndarray) -> Any:
    """Over games, of means over seeds."""
    return np.median(scores.mean(axis=-2), axis=-1)


def optimality_gap(scores: np.ndarray) -> Any:
    """How much is missing to 1, in the mean: what goes beyond 1 does not make up for it."""
    return np.maximum(1.0 - scores, 0.0).mean(axis=(-2, -1))


AGGREGATES: dict[str, Statistic] = {
    "median": median_score,
    "mean": mean_score,
    "interquartile mean": interquartile_mean,
    "optimality gap": optimality_gap,
}


def final_scores(results: Results, scale: Scale, environments: Sequence[str]) -> dict[str, np.ndarray]:
    """Normalised [s, k], by setting."""
    names = results.comparable(environments)
    return {name: scale(environments, results.scores(name, environments)) for name in names}


def aggregates(scores: Mapping[str, np.ndarray]) -> dict[str, dict[str, Estimate]]:
    """Every aggregate of every setting, with stratified bootstrap intervals."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    return {
        word: {name: bootstrap(rng, statistic, table) for name, table in scores.items()}
        for word, statistic in AGGREGATES.items()
    }


def contrast(scores: Mapping[str, np.ndarray], statistic: Statistic, one: str, other: str) -> Estimate:
    """The difference of an aggregate of two settings."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    return bootstrap(rng, lambda a, b: statistic(a) - statistic(b), scores[one], scores[other])


def aggregate_curve(
    results: Results, scale: Scale, environments: Sequence[str], name: str, statistic: Statistic
) -> tuple[np.ndarray, Estimate]:
    """Frames at which all runs of a setting were evaluated, and an aggregate of their normalised scores there."""
    tables = [results.runs(name, environment).dropna() for environment in environments]
    frames = sorted(set.intersection(*(set(table.index) for table in tables)))
    # [frames, s, k]
    scores = scale(environments, np.stack([table.loc[frames].to_numpy(float) for table in tables], axis=-1))
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    found = [bootstrap(rng, statistic, at, num=CURVE_RESAMPLES) for at in scores]
    parts = (np.array([getattr(estimate, part) for estimate in found]) for part in ("value", "low", "high"))
    return np.array(frames), Estimate(*parts)


def advantages(results: Results, scale: Scale, one: str, other: str) -> pd.DataFrame:
    """Of one setting over another in each game that both have: mean over seeds, and its standard error."""
    environments = [name for name in results.complete([one, other]) if name in scale.one]
    ours, theirs = (scale(environments, results.scores(name, environments)) for name in (one, other))
    error = np.sqrt(_squared_error(ours) + _squared_error(theirs))
    made = pd.DataFrame({"advantage": ours.mean(0) - theirs.mean(0), "error": error}, index=environments)
    return made.sort_values("advantage")


def _squared_error(scores: np.ndarray) -> np.ndarray:
    """Of a mean over seeds; unknown for one seed."""
    num = len(scores)
    return scores.var(axis=0, ddof=1) / num if num > 1 else np.full(scores.shape[1], np.nan)
