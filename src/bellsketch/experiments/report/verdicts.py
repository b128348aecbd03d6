"""What the paper says of its Atari runs, and whether it holds for these; or what is missing to tell."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from bellsketch.experiments.claims import OURS, Claim, Claimant
from bellsketch.experiments.report.results import Results
from bellsketch.experiments.report.scores import Scale, advantages, contrast, mean_score, median_score
from bellsketch.experiments.suite.suite import Setting

MAIN_TEXT = "Sec. 5.1, on Atari"
EXTENDED = "App. Extended results on Atari suite"
RUNTIME = "App. Runtime comparison"
APPROACHES = 0.9
"""The share of IQN's score that counts as approaching it."""
ALMOST_ALL = 0.9
"""Of games."""
BETTER = ("crazy_climber", "space_invaders", "riverraid", "road_runner", "video_pinball")
WORSE = ("assault", "asterix", "double_dunk", "krull", "phoenix", "star_gunner")
"""Games in which Sketch-DQN is consistently better, or worse, than IQN and QR-DQN, the paper says."""


FAMILIES = ("sigmoid", "gaussian")


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """Claims that could be judged, and why others could not."""

    claims: list[Claim]
    missing: list[str]


def judge(
    results: Results, scale: Scale | None, environments: Sequence[str], scores: Mapping[str, np.ndarray]
) -> Verdicts:
    """Every claim for which there are runs."""
    claim = Claimant("suite", MAIN_TEXT)
    plain = _plain(results.settings)
    claims: list[Claim] = []
    missing: list[str] = []
    if scale is None or not environments:
        return Verdicts([], ["scores: no game yet in which all settings have all of their runs, or no scale for them"])
    if any(len(seeds) < 2 for seeds in results.seeds.values()):
        return Verdicts([], ["scores: one seed says nothing of how much seeds differ; run at least two"])
    if "sketch_dqn" not in plain:
        missing.append("Sketch-DQN against others: needs one setting of sketch_dqn")
    else:
        ours = plain["sketch_dqn"]
        for agent in ("c51", "qr_dqn", "dqn", "iqn"):
            if agent in plain:
                claims += _against(scores, claim, ours, plain[agent], agent)
            else:
                missing.append(f"Sketch-DQN against {agent}: it is not in this suite")
        claims += _games(results, scale, claim, plain, missing)
    claims += _sweep(results.settings, scores, claim, missing)
    claims += _speed(results, claim, plain, missing)
    return Verdicts(claims, missing)


def _plain(settings: Sequence[Setting]) -> dict[str, str]:
    """The name of each agent's setting, where it has one of its own and only one."""
    ours = [setting for setting in settings if "dqn_zoo" not in setting.options]
    agents = [setting.agent for setting in ours]
    return {setting.agent: setting.name for setting in ours if agents.count(setting.agent) == 1}


def _against(scores: Mapping[str, np.ndarray], claim: Claimant, ours: str, other: str, agent: str) -> list[Claim]:
    found = []
    for word, statistic in (("mean", mean_score), ("median", median_score)):
        if agent == "iqn":
            shrunk = {ours: scores[ours], other: APPROACHES * scores[other]}
            gap = contrast(shrunk, statistic, ours, other)
            words = f"Sketch-DQN approaches IQN in the {word}: at least {APPROACHES:.0%} of it"
        else:
            gap = contrast(scores, statistic, ours, other)
            words = f"Sketch-DQN attains a higher {word} than {other}"
        found.append(
            claim(
                f"{word}-{agent.replace('_', '-')}",
                words,
                gap.low,
                ">",
                0.0,
                f"lower end of the difference of {word} normalised scores: {gap}",
                OURS if agent == "dqn" else None,
            )
        )
    return found


def _games(
    results: Results, scale: Scale, claim: Claimant, plain: Mapping[str, str], missing: list[str]
) -> list[Claim]:
    ours, found = plain["sketch_dqn"], []
    if "dqn" in plain and len(table := advantages(results, scale, ours, plain["dqn"])):
        found.append(
            claim(
                "games-dqn",
                "Sketch-DQN surpasses DQN on almost all games",
                float((table["advantage"] > 0).mean()),
                "≥",
                ALMOST_ALL,
                f"the share of {len(table)} games with a better mean",
                EXTENDED,
            )
        )
    for word, games, sign in (("better", BETTER, 1), ("worse", WORSE, -1)):
        others = [plain[agent] for agent in ("iqn", "qr_dqn") if agent in plain]
        there = [game for game in games if game in results.complete([ours, *others])]
        if len(others) < 2 or not there:
            missing.append(f"games where Sketch-DQN is consistently {word}: needs IQN, QR-DQN and {', '.join(games)}")
            continue
        gaps = {(g, o): sign * advantages(results, scale, ours, o).loc[g, "advantage"] for g in there for o in others}
        game, other = min(gaps, key=lambda key: gaps[key])
        found.append(
            claim(
                f"games-{word}",
                f"Sketch-DQN is consistently {word} than IQN and QR-DQN on {', '.join(there)}",
                gaps[game, other],
                ">",
                0.0,
                f"least difference of means, {game} against {other}; {len(there)} of the paper's {len(games)} games",
                EXTENDED,
            )
        )
    return found


def _sweep(
    settings: Sequence[Setting], scores: Mapping[str, np.ndarray], claim: Claimant, missing: list[str]
) -> list[Claim]:
    def of(family: str, num: int | None = None) -> list[str]:
        return [
            setting.name
            for setting in settings
            if setting.options.get("features") == family and num in (None, setting.options.get("num"))
        ]

    found = []
    best = {family: max(of(family), key=lambda name: mean_score(scores[name]), default="") for family in FAMILIES}
    if all(best.values()):
        gap = contrast(scores, mean_score, best["sigmoid"], best["gaussian"])
        pair = f"{best['sigmoid']} and {best['gaussian']}"
        words = f"lower end of the difference of means of the best of each, {pair}: {gap}"
        found.append(
            claim("sigmoid-gaussian", "Sigmoidal features outperform Gaussian ones", gap.low, ">", 0.0, words, EXTENDED)
        )
    else:
        missing.append("sigmoidal against Gaussian features: needs settings of both")
    fewer, more = (max(of("sigmoid", num), key=lambda name: mean_score(scores[name]), default="") for num in (101, 201))
    if fewer and more:
        gap = contrast(scores, mean_score, more, fewer)
        words = f"lower end of the difference of means, {more} and {fewer}: {gap}"
        found.append(
            claim("more-sigmoids", "… and improve from 101 to 201 features", gap.low, ">", 0.0, words, EXTENDED)
        )
    else:
        missing.append("101 against 201 sigmoidal features: needs settings of both")
    return found


def _speed(results: Results, claim: Claimant, plain: Mapping[str, str], missing: list[str]) -> list[Claim]:
    speeds = results.speeds.groupby("setting")["frames_per_second"].mean()
    if not {"sketch_dqn", "qr_dqn", "iqn"} <= set(plain) or not all(name in speeds for name in plain.values()):
        missing.append("frame rates: needs runs of sketch_dqn, qr_dqn and iqn")
        return []
    ours = speeds[plain["sketch_dqn"]]
    others = {name: ours / speeds[plain[name]] for name in ("qr_dqn", "iqn")}
    slowest = min(others, key=lambda name: others[name])
    return [
        claim(
            "speed",
            "Sketch-DQN runs faster than QR-DQN and IQN",
            others[slowest],
            ">",
            1.0,
            "least ratio of frames a second, means over runs: "
            + ", ".join(f"{name} {ratio:.2f}" for name, ratio in others.items()),
            RUNTIME,
        )
    ]
