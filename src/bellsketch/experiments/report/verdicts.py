"""What the paper says of its Atari runs, and whether it holds for these; or what is missing to tell."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from bellsketch.deep.environments.games import GAMES
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
LITTLE = 0.1
"""A change of a mean that is not much."""


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """Claims that could be judged, and why others could not."""

    claims: list[Claim]
    missing: list[str]


def judge(
    results: Results, scale: Scale | None, environments: Sequence[str], scores: Mapping[str, np.ndarray]
) -> Verdicts:
    """Every claim for which there are runs."""
    atari = all(name in GAMES for name in results.environments)
    claim = Claimant("suite", MAIN_TEXT)
    plain = _plain(results.settings)
    claims: list[Claim] = []
    missing: list[str] = []
    if scale is None or not environments:
        return Verdicts([], ["scores: no game yet in which all settings have all of their runs, or no scale for them"])
    if any(len(results.seeds[name]) < 2 for name in results.own):
        return Verdicts([], ["scores: one seed says nothing of how much seeds differ; run at least two"])
    if "sketch_dqn" not in plain:
        missing.append("Sketch-DQN against others: needs one setting of sketch_dqn")
    else:
        ours = plain["sketch_dqn"]
        for agent in ("c51", "qr_dqn", "dqn", "iqn"):
            if agent in plain:
                claims += _against(scores, claim, ours, plain[agent], agent)
            else:
                missing.append(f"Sketch-DQN against {agent}: it is not in this suite, as its preset has it")
        claims += _games(results, scale, claim, plain, missing)
    claims += _sweep(results.settings, scores, claim, missing)
    claims += _speed(results, claim, plain, missing)
    if not atari:  # what the paper says, it says of Atari
        claims = [dataclasses.replace(made, where=OURS) for made in claims]
    return Verdicts(claims, missing)


def _plain(settings: Sequence[Setting]) -> dict[str, str]:
    """The name of each agent's setting, as its preset has it: with options of its own it is not the paper's."""
    return {setting.agent: setting.name for setting in settings if not setting.options}


def _against(scores: Mapping[str, np.ndarray], claim: Claimant, ours: str, other: str, agent: str) -> list[Claim]:
    found = []
    for word, statistic in (("mean", mean_score), ("median", median_score)):
        if agent == "iqn":
            if not statistic(scores[other]) > 0:
                continue  # of nothing there is no share
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
    def best(family: str, num: int | None = None) -> str:
        """The setting with the best mean, of those with such features."""
        options = {setting.name: setting.options for setting in settings if setting.name in scores}
        names = [
            name for name, own in options.items() if own.get("features") == family and num in (None, own.get("num"))
        ]
        return max(names, key=lambda name: mean_score(scores[name]), default="")

    found = []
    pairs = {
        "sigmoid-gaussian": ("Sigmoidal features outperform Gaussian ones", best("sigmoid"), best("gaussian")),
        "more-sigmoids": ("… and improve from 101 to 201 features", best("sigmoid", 201), best("sigmoid", 101)),
    }
    for name, (words, one, other) in pairs.items():
        if one and other:
            gap = contrast(scores, mean_score, one, other)
            detail = f"lower end of the difference of means, {one} and {other}: {gap}"
            found.append(claim(name, words, gap.low, ">", 0.0, detail, EXTENDED))
        else:
            missing.append(f"{words.removeprefix('… ')}: needs settings of both")
    fewer, more = best("gaussian", 101), best("gaussian", 201)
    if fewer and more:
        change = float(abs(mean_score(scores[more]) / mean_score(scores[fewer]) - 1))
        words, detail = (
            "… while the number of Gaussian ones does not matter much",
            f"change of the mean, {fewer} to {more}",
        )
        found.append(claim("more-gaussians", words, change, "≤", LITTLE, detail, EXTENDED))
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
