"""Whether DQN learns CartPole with a loss that is linear beyond an error of 1, as published, or beyond ours.

python benchmarks/huber.py [--peer-python PATH]       prints a table and writes benchmarks/results/huber.json

Ours has its preset's settings, sixteen seeds of each threshold side by side, and the last network plays 20 episodes.
The peer is Stable-Baselines3's DQN, whose threshold is 1, with the same settings but for an Adam of its own, a learning
rate that stays as it is, and one environment instead of four; four seeds. Its interpreter: ``python -m venv peers &&
peers/bin/pip install stable-baselines3``.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from peers.run import answer
from rich.console import Console

from bellsketch.deep import train
from bellsketch.deep.networks import VECTOR
from bellsketch.deep.run import make_config

RESULTS = Path(__file__).parent / "results" / "huber.json"
PEER = "sb3_dqn.py"
CARTPOLE = "CartPole-v1"
THRESHOLDS = {"published": 1.0, "ours": None}
SEEDS, PEER_SEEDS = 16, 4


def ours(threshold: float | None) -> list[float]:
    """Returns of the last network of each seed."""
    run = train("dqn", CARTPOLE, seeds=SEEDS, huber=threshold, evaluations=1, progress=False)
    return run.evaluations.sort_values("seed")["mean_return"].tolist()


def peers(interpreter: str) -> tuple[list[float], dict[str, str]]:
    """Likewise, and with which versions."""
    config = make_config("dqn", CARTPOLE)
    settings: dict[str, Any] = {"environment": CARTPOLE, "frames": config.frames, "width": VECTOR.widths[0]}
    settings |= (
        vars(config.learner) | vars(config.loop) | {"evaluation_episodes": config.evaluation.evaluation_episodes}
    )
    found, versions = [], {}
    for seed in range(PEER_SEEDS):
        said = answer(interpreter, PEER, settings | {"seed": seed})
        found.append(said["mean_return"])
        versions = said["versions"]
    return found, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peer-python", help="an interpreter that has stable-baselines3")
    peer = parser.parse_args().peer_python
    returns = {name: ours(threshold) for name, threshold in THRESHOLDS.items()}
    packages = ("jax", "equinox", "optax", "gymnax")
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    if peer:
        returns["stable-baselines3"], found = peers(peer)
        versions |= found
    for name, each in returns.items():
        Console().print(f"{name}: {', '.join(f'{mean:.0f}' for mean in each)}")
    record = {
        "command": "python benchmarks/huber.py" + " --peer-python PATH" * bool(peer),
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions,
        "machine": f"{os.cpu_count()} CPU cores",
        "mean_return": returns,
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
