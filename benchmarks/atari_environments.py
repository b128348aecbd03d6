"""Frames a second of Atari's vector environments alone: ALE's own, which we use, against EnvPool's, in one run.

python benchmarks/atari_environments.py [--environments 128 --threads 16]    prints a line for each game, and writes
benchmarks/results/atari_environments.json, or what --out says

EnvPool is no dependency: ``python -m venv pool && pool/bin/pip install envpool ale-py gymnasium``, then run this file
with ``pool/bin/python``. Both repeat actions for 4 frames, take the larger of the last two, and make grey screens of
84 × 84; random actions; measurements take turns, since machines are noisy.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ale_py
import envpool
import numpy as np

RESULTS = Path(__file__).parent / "results" / "atari_environments.json"
GAMES = {"pong": "Pong-v5", "breakout": "Breakout-v5"}


def ale(game: str, num: int, threads: int) -> tuple[Callable[[np.ndarray], object], int]:
    """A step, and how many actions there are."""
    made = ale_py.AtariVectorEnv(
        game, num, num_threads=threads, stack_num=1, use_fire_reset=False, repeat_action_probability=0.0
    )
    made.reset(seed=0)
    return made.step, int(made.single_action_space.n)


def pool(game: str, num: int, threads: int) -> tuple[Callable[[np.ndarray], object], int]:
    """Likewise."""
    made = envpool.make_gymnasium(
        GAMES[game], num_envs=num, num_threads=threads, stack_num=1, use_fire_reset=False, seed=0
    )
    made.reset()
    return made.step, int(made.action_space.n)


def speed(step: Callable[[np.ndarray], object], num: int, actions: int, seconds: float) -> float:
    """Frames a second."""
    rng, steps, begun = np.random.default_rng(0), 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for action in rng.integers(0, actions, (20, num)):
            step(action)
        steps += 20
    return steps * num * 4 / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--environments", type=int, default=128)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    num, measured = given.environments, {}
    for game in GAMES:
        contenders = {make.__name__: make(game, num, given.threads) for make in (ale, pool)}
        found: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(given.rounds):
            for name, (step, actions) in contenders.items():
                found[name].append(speed(step, num, actions, given.seconds))
        measured[game] = {name: [round(speed) for speed in speeds] for name, speeds in found.items()}
        medians = {name: statistics.median(speeds) for name, speeds in found.items()}
        ratios = [ours / theirs for ours, theirs in zip(found["ale"], found["pool"], strict=True)]
        print(
            f"{game}: ALE {medians['ale']:,.0f}, EnvPool {medians['pool']:,.0f} frames/s;"
            f" ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    record = {
        "command": " ".join(["python", "benchmarks/atari_environments.py", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "versions": {name: importlib.metadata.version(name) for name in ("ale-py", "envpool", "gymnasium", "numpy")}
        | {"python": platform.python_version()},
        "machine": f"{os.cpu_count()} cores",
        "environments": num,
        "threads": given.threads,
        "frames_per_s": measured,
    }
    given.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
