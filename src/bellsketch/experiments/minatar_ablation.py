"""What of Sketch-DQN matters on MinAtar: the constant, the feature family, the number of features, their slope."""

import operator

import pandas as pd
from matplotlib.figure import Figure

from bellsketch.experiments.claims import OURS, Claim, Claimant
from bellsketch.experiments.deep_comparison import NEEDS, Comparison, Contender, Settings, games, panels
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.statistics import Estimate

WHERE = "App. Deep RL implementation details, Feature map, of Atari"
SWEEP = "App. Extended Atari results, of Atari"
BASE = {"features": "sigmoid", "form": "free", "num": 201, "slope_factor": 1.0}
AS_WELL = 0.9
"""The share of a score that counts as the same."""
FAMILIES = ("gaussian", "tanh", "erf")
"""Those that the paper tried beside the sigmoid."""
KINDS = ("training", "evaluation")
"""Returns that decide a claim, and those that are told beside them."""


def _variant(label: str, colour: str, **options: object) -> Contender:
    return Contender(label, "sketch_dqn", colour, {**BASE, **options})


COMPARISON = Comparison(
    "variant",
    {
        "base": _variant("base", "C0"),
        "constant": _variant("constant feature (the paper's)", "C1", form="constant"),
        "none": _variant("neither", "C3", form="none"),
        "gaussian": _variant("Gaussian", "C2", features="gaussian"),
        "tanh": _variant("tanh", "C2", features="tanh"),
        "erf": _variant("erf", "C2", features="erf"),
        "m51": _variant("m = 51", "C4", num=51),
        "m401": _variant("m = 401", "C4", num=401),
        "slope-half": _variant("slope × 0.5", "C5", slope_factor=0.5),
        "slope-double": _variant("slope × 2", "C5", slope_factor=2.0),
    },
    "base",
)


def plot(records: pd.DataFrame) -> Figure:
    """Final scores of each variant, by game and of all."""
    names = games(records)
    figure, axes = panels(len(names) + 1, columns=4, height=4.0)
    for axis, game in zip(axes, names, strict=False):
        COMPARISON.plot_scores(axis, records, game)
    COMPARISON.plot_aggregates(axes[-1], records)
    for axis in axes[1:]:
        axis.set_yticklabels([])
    words = "base: sigmoid features, free intercept, m = 201, default slope; the others differ from it in one thing"
    figure.suptitle(words, fontsize=9)
    return figure


def claims(records: pd.DataFrame) -> list[Claim]:
    """What the paper says of its choices: differences of interquartile means, with all of their intervals."""
    there = COMPARISON.present(records)
    claim = Claimant("minatar-ablation", WHERE)
    found = []
    if {"constant", "none"} <= set(there):
        found += _constant(records, claim)
    if {"base", "none"} <= set(there):
        found.append(
            claim(
                "intercept-helps", "A free intercept improves performance", *_difference(records, "base", "none"), OURS
            )
        )
    if {"base", "constant"} <= set(there):
        found.append(
            claim(
                "free-intercept",
                f"A free intercept does as well as the appended constant: at least {AS_WELL:.0%}",
                *_difference(records, "base", "constant", "≥", AS_WELL),
                OURS,
            )
        )
    if families := [name for name in FAMILIES if name in there]:
        found += _families(records, claim, families)
    if "m51" in there:
        found.append(
            claim(
                "more-features",
                "Performance improves with the number of features, up to 201 (the paper: from 101, here from 51)",
                *_difference(records, "base", "m51"),
                SWEEP,
            )
        )
    return found


def _constant(records: pd.DataFrame, claim: Claimant) -> list[Claim]:
    half, evaluated = (
        COMPARISON.contrast(records, lambda none, constant: none - constant / 2, "none", "constant", kind=kind)
        for kind in KINDS
    )
    return [
        claim(
            "constant-helps",
            "A constant feature improves performance",
            *_difference(records, "constant", "none"),
        ),
        claim(
            "constant-crucial",
            "… and is very crucial for a good one: without it, less than half is left",
            half.end("<"),
            "<",
            0.0,
            f"upper end of the interquartile mean without the constant, minus half of that with it: {half}; of"
            f" evaluations: {evaluated}",
        ),
    ]


def _families(records: pd.DataFrame, claim: Claimant, families: list[str]) -> list[Claim]:
    gaps, evaluated = (
        {name: COMPARISON.contrast(records, operator.sub, "base", name, kind=kind) for name in families}
        for kind in KINDS
    )
    closest = min(gaps, key=lambda name: gaps[name].low)
    found = [
        claim(
            "sigmoid-best",
            "Of the feature families, the sigmoid reliably performs best",
            gaps[closest].end(">"),
            ">",
            0.0,
            f"least lower end of a difference of interquartile means, {closest}; {_listed(gaps)}; of evaluations:"
            f" {_listed(evaluated)}",
        )
    ]
    if "gaussian" in families:
        found.append(
            claim(
                "above-gaussian",
                "The sigmoid outperforms Gaussian features",
                *_difference(records, "base", "gaussian"),
                SWEEP,
            )
        )
    return found


def _listed(gaps: dict[str, Estimate]) -> str:
    return "; ".join(f"{name}: {gap}" for name, gap in gaps.items())


def _difference(
    records: pd.DataFrame, first: str, second: str, relation: str = ">", share: float = 1.0
) -> tuple[float, str, float, str]:
    """Measured, relation, threshold and detail of a claim that one variant is better than (a share of) another."""
    gap, evaluated = (
        COMPARISON.contrast(records, lambda one, other: one - share * other, first, second, kind=kind) for kind in KINDS
    )
    words = f"lower end of the difference of interquartile means: {gap}; of evaluations: {evaluated}"
    return gap.end(relation), relation, 0.0, words


EXPERIMENT = Experiment(
    name="minatar-ablation",
    title="What matters in Sketch-DQN on MinAtar: constant, feature family, number and slope",
    quick=Settings(
        games=("Breakout",),
        contenders=("base", "constant", "none"),
        frames=6_000,
        seeds=2,
        records=10,
        evaluation_episodes=10,
        options=(
            ("batch_size", 32),
            ("replay_capacity", 6_000),
            ("learning_starts", 1_000),
            ("exploration_steps", 3_000),
        ),
    ),
    full=Settings(
        games=("Asterix", "Breakout", "SpaceInvaders"), contenders=tuple(COMPARISON.contenders), frames=1_000_000
    ),
    cells=COMPARISON.cells,
    measure=COMPARISON.measure,
    plot=plot,
    claims=claims,
    table=COMPARISON.table,
    shares_device=True,
    needs=NEEDS,
)
