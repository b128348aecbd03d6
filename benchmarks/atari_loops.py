"""Ways to run Atari's loop, against each other in one run: learning while games play, and both ceilings.

python benchmarks/atari_loops.py [--quick]    prints a line for each, and writes benchmarks/results/atari_loops.json

Sketch-DQN with 401 features on Breakout: one seed as it is and as a batch of one, two seeds side by side, twice as many
games in twice as many groups. They share their games, since ALE takes a tenth of a second to make one, and take turns.
--quick is for a CPU: few games and small networks.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import ale_py
import jax
import numpy as np
from rich.console import Console

from bellsketch.deep.environments.atari import AtariEnvironments
from bellsketch.deep.environments.step import Step
from bellsketch.deep.loops import hosted
from bellsketch.deep.run import make_config
from bellsketch.deep.setup import set_up

RESULTS = Path(__file__).parent / "results" / "atari_loops.json"
GAME, FEATURES = "breakout", 401
BESIDE = concurrent.futures.ThreadPoolExecutor()


class Pair:
    """Two vectors of games as one."""

    def __init__(self, one: AtariEnvironments, other: AtariEnvironments):
        self.one, self.other = one, other
        self.num_environments = one.num_environments + other.num_environments

    def reset(self, seeds: Sequence[int]) -> Step:
        return self._both(AtariEnvironments.reset, seeds)

    def step(self, actions: np.ndarray) -> Step:
        return self._both(AtariEnvironments.step, actions)

    def _both(self, what: Callable[..., Step], given: Any) -> Step:
        num = self.one.num_environments
        first = BESIDE.submit(what, self.one, given[:num])
        second = what(self.other, given[num:])
        return Step(*(np.concatenate(columns) for columns in zip(first.result(), second, strict=True)))


@dataclasses.dataclass
class Variant:
    """A runner with a state of its own."""

    runner: Any
    state: Any
    frames: int
    """Of an iteration, of all seeds."""
    speeds: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def whole(self, num: int) -> None:
        self.state = jax.block_until_ready(self.runner.advance(self.state, num))

    def learner(self, num: int) -> None:
        for _ in range(num):
            self.state = self.runner.update(self.state)
        jax.block_until_ready(self.state)

    def environments(self, num: int) -> None:
        rng, actions = np.random.default_rng(0), self.runner.loop.space.num_actions

        def play(games: Any) -> None:
            for action in rng.integers(0, actions, (num, games.num_environments)):
                games.step(action)

        list(BESIDE.map(play, self.runner.environments))

    def measure(self, seconds: float) -> None:
        for part in (self.whole, self.learner, self.environments):
            taken, num = 0.0, 2
            while taken < seconds / 2:
                num = 2 * num
                begun = time.perf_counter()
                part(num)
                taken = time.perf_counter() - begun
            self.speeds.setdefault(part.__name__, []).append(num * self.frames / taken)


def make(games: Sequence[Any], over_seeds: Callable[..., Any], **options: Any) -> Variant:
    """One that plays these games, and has its programs compiled with seeds mapped like that."""
    config = make_config("sketch_dqn", GAME, frames=10**9, num=FEATURES, groups=len(games), **options)
    with mock.patch.object(hosted, "over_seeds", over_seeds):
        setup = set_up(config)
        runner: Any = setup.runner
        vars(runner)["environments"] = list(games)
        state = runner.explore(runner.init(setup.keys), config.warm_up)
        state = jax.block_until_ready(runner.update(runner.advance(state, 2)))
    return Variant(runner, state, config.loop.steps * config.loop.frame_skip * config.seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    size: dict[str, Any] = {"bfloat16": True, "learning_starts": 10_000}
    if given.quick:
        size = {"small": True, "learning_starts": 800, "replay_capacity": 20_000}
    each, seconds = (8, 0.3) if given.quick else (64, 1.5)
    games = [AtariEnvironments(GAME, each) for _ in range(8)]
    pairs = [Pair(*games[i : i + 2]) for i in range(0, 8, 2)]
    size["num_environments"], single = 4 * each, hosted.over_seeds
    variants = {
        f"{4 * each} games in four groups": make(games[:4], single, **size),
        "… as a batch of one seed": make(games[:4], jax.vmap, **size),
        "… of each of two seeds": make(pairs, single, seeds=2, **size),
        f"{8 * each} games in eight groups": make(games, single, **{**size, "num_environments": 8 * each}),
    }
    for _ in range(given.rounds):
        for variant in variants.values():
            variant.measure(seconds)
    found = {
        name: {
            part: {"median": round(statistics.median(x)), "lowest": round(min(x)), "highest": round(max(x))}
            for part, x in variant.speeds.items()
        }
        for name, variant in variants.items()
    }
    for name, parts in found.items():
        shown = ", ".join(f"{part} {x['median']:,} ({x['lowest']:,} to {x['highest']:,})" for part, x in parts.items())
        Console().print(f"{name}: {shown}", soft_wrap=True)
    record = {
        "command": f"python benchmarks/atari_loops.py{' --quick' * given.quick}",
        "date": time.strftime("%Y-%m-%d"),
        "versions": {"python": platform.python_version(), "jax": jax.__version__, "ale-py": ale_py.__version__},
        "machine": f"{os.cpu_count()} cores, JAX on {jax.devices()[0].device_kind}",
        "frames_per_s": found,
    }
    given.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
