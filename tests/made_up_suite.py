"""A suite whose runs were made up, so that every number of its report can be worked out by hand."""

import numpy as np
import pandas as pd

from bellsketch.deep.training import Plan
from bellsketch.experiments.report.scores import final_scores, find_scale, human_scores
from bellsketch.experiments.report.verdicts import judge
from bellsketch.experiments.suite.directory import SuiteDirectory
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_table

NAMES = ["sketch_dqn", "dqn", "c51", "qr_dqn", "iqn"]
SCORE = {"sketch_dqn": 1.6, "dqn": 1.0, "c51": 1.2, "qr_dqn": 1.4, "iqn": 1.7}
"""Normalised, in every game, in the mean over seeds; as the paper orders them."""
GAMES_HERE = ["pong", "breakout", "space_invaders"]
SPREAD = 0.05
SPEED = {"sketch_dqn": 400.0, "dqn": 500.0, "c51": 390.0, "qr_dqn": 350.0, "iqn": 100.0}


def made_up(tmp_path, environments=GAMES_HERE, scores=SCORE, seeds=3, missing=(), **changes):
    """A suite whose runs rise evenly to their scores; seeds differ by ± SPREAD."""
    table = {"agents": list(scores), "environments": environments, "seeds": seeds, "frames": 10_000_000}
    options = {"evaluations": 10, "records": 20, "num_environments": 16}
    suite = read_table(table | {"name": "made-up", "options": options} | changes, PRESETS)
    directory = SuiteDirectory(tmp_path / "suite", suite)
    directory.claim().release()
    human = human_scores()
    for job in directory.jobs:
        game, seed = job.config.environment, job.config.seed
        if (job.setting, game, seed) in missing:
            continue
        final = scores[job.setting] + SPREAD * (seed - (seeds - 1) / 2)
        zero, one = (human.loc[game] if game in human.index else pd.Series({"random": 0.0, "human": 1.0})).to_numpy()
        write_run(directory.run_path(job), job, lambda share: zero + share * final * (one - zero))  # noqa: B023
    return directory


def write_run(path, job, score):
    path.mkdir(parents=True)
    total = Plan(job.config).total_frames
    shares = np.arange(1, 11) / 10
    columns = {"seed": job.config.seed, "frames": (shares * total).astype(int), "episodes": 4}
    returns = [score(share) for share in shares]
    pd.DataFrame(columns | {"mean_return": returns}).to_csv(path / "evaluations.csv", index=False)
    pd.DataFrame(columns | {"mean_return": [r / 2 for r in returns]}).to_csv(path / "records.csv", index=False)
    times = {"frames": columns["frames"], "frames_per_second": [1.0] + [SPEED.get(job.setting, 50.0)] * 9}
    pd.DataFrame(times).to_csv(path / "times.csv", index=False)
    (path / "networks" / f"{total:012d}").mkdir(parents=True)


def verdicts(results):
    scale = find_scale(results)
    environments = results.complete()
    found = judge(results, scale, environments, final_scores(results, scale, environments))
    return {claim.id.split(".")[1]: claim for claim in found.claims}, found.missing
