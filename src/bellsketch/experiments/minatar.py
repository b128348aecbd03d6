"""Sketch-DQN beside DQN, C51, QR-DQN and IQN on MinAtar: the paper's comparison on Atari, small enough to repeat."""

import functools
import operator
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.experiments.claims import OURS, Claim, Claimant
from bellsketch.experiments.deep_comparison import (
    GAMES,
    LAST,
    NEEDS,
    RANDOM_SCORES,
    Comparison,
    Contender,
    Settings,
    games,
    panels,
)
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.statistics import Estimate, bootstrap, run_mean, seed_mean

WHERE = "Sec. 5.1, of Atari"
APPROACHES = 0.9
"""The share of IQN's score that counts as approaching it."""

COMPARISON = Comparison(
    "agent",
    {
        "dqn": Contender("DQN", "dqn", "0.35"),
        "c51": Contender("C51", "c51", "C1"),
        "qr_dqn": Contender("QR-DQN", "qr_dqn", "C2"),
        "iqn": Contender("IQN", "iqn", "C4"),
        "sketch_dqn": Contender("Sketch-DQN", "sketch_dqn", "C0"),
    },
    "dqn",
)
"""Published scores of DQN on MinAtar are curves without numbers, so that ours is the unit: docs/figures/minatar.md."""


def plot(records: pd.DataFrame) -> Figure:
    """Learning curves of each game, and what they come to."""
    names = games(records)
    figure, axes = panels(len(names) + 1)
    for axis, game in zip(axes, names, strict=False):
        COMPARISON.plot_curves(axis, records, game)
    COMPARISON.plot_aggregates(axes[-1], records)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    axes[0].set_ylabel("return while training")
    return figure


def claims(records: pd.DataFrame) -> list[Claim]:
    """The order of agents that the paper finds: differences of interquartile means, with all of their intervals."""
    there = COMPARISON.present(records)
    claim = Claimant("minatar", WHERE)
    found = []
    for name, where in (("c51", None), ("qr_dqn", None), ("dqn", OURS)):
        if name in there:
            label = COMPARISON.contenders[name].label
            contrast = functools.partial(COMPARISON.contrast, records, operator.sub, "sketch_dqn", name)
            found.append(
                claim(
                    f"above-{name.replace('_', '-')}",
                    f"Sketch-DQN attains higher performance than {label}",
                    contrast().end(">"),
                    ">",
                    0.0,
                    f"lower end of the difference of interquartile means of normalised scores: {contrast()};"
                    f" {_also(records, contrast, name)}",
                    where,
                )
            )
    if "iqn" in there:
        # A difference, since a ratio means nothing where neither has learnt.
        contrast = functools.partial(
            COMPARISON.contrast, records, lambda ours, iqn: ours - APPROACHES * iqn, "sketch_dqn", "iqn"
        )
        found.append(
            claim(
                "approaches-iqn",
                f"… and approaches the performance of IQN: at least {APPROACHES:.0%} of it",
                contrast().end("≥"),
                "≥",
                0.0,
                f"lower end of the interquartile mean minus {APPROACHES:g} of IQN's: {contrast()};"
                f" {_also(records, contrast, 'iqn')}",
            )
        )
    return [*found, _all_learn(records, claim)]


def _also(records: pd.DataFrame, contrast: Callable[..., Estimate], name: str) -> str:
    """What else could be asked: an interquartile mean leaves out the games in which agents differ most."""
    scores = COMPARISON.scores(records)
    better = seed_mean(scores["sketch_dqn"]) > seed_mean(scores[name])
    return (
        f"of evaluations: {contrast(kind='evaluation')}; of plain means: {contrast(aggregate=run_mean)};"
        f" better in {int(better.sum())} of {better.size} games"
    )


def _all_learn(records: pd.DataFrame, claim: Claimant) -> Claim:
    """That there is something to compare: the least gain over random play, at the lower end of its interval."""
    random = np.array([RANDOM_SCORES[game] for game in games(records)])
    gains = {
        (game, name): gain
        for name, table in COMPARISON.scores(records).items()
        for game, gain in zip(
            games(records), bootstrap(np.random.default_rng(0), seed_mean, table - random).low, strict=True
        )
    }
    # What is missing has not been learnt.
    game, name = min(gains, key=lambda key: np.nan_to_num(gains[key], nan=-np.inf))
    return claim(
        "all-learn",
        "Every agent plays every game better than at random",
        gains[game, name],
        ">",
        0.0,
        f"least return over that of random play, at the lower end of its interval:"
        f" {COMPARISON.contenders[name].label}, {game}; mean over the last {LAST:.0%} of frames",
        OURS,
    )


EXPERIMENT = Experiment(
    name="minatar",
    title="Sketch-DQN, DQN, C51, QR-DQN and IQN on MinAtar",
    quick=Settings(
        games=("Breakout",),
        contenders=("dqn", "sketch_dqn"),
        frames=16_000,
        seeds=2,
        records=10,
        evaluation_episodes=10,
        options=(
            ("batch_size", 32),
            ("replay_capacity", 16_000),
            ("learning_starts", 1_000),
            ("exploration_steps", 5_000),
        ),
    ),
    full=Settings(games=GAMES, contenders=tuple(COMPARISON.contenders), frames=2_000_000),
    cells=COMPARISON.cells,
    measure=COMPARISON.measure,
    plot=plot,
    claims=claims,
    table=COMPARISON.table,
    shares_device=True,
    needs=NEEDS,
)
