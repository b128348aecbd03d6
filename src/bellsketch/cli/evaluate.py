"""``bellsketch evaluate``."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from bellsketch.cli.devices import on_device
from bellsketch.cli.pictures import check_picture
from bellsketch.core.errors import InputError
from bellsketch.deep.evaluation import Episodes
from bellsketch.deep.loops.loop import seed_of
from bellsketch.deep.pictures import plot_moment
from bellsketch.deep.playing import moments
from bellsketch.deep.run import Run, load_run


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """How well a run's networks play: whole episodes, almost greedy.

    Example: bellsketch evaluate runs/breakout --episodes 100 --json
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Directory of a run, finished or not."""
    episodes: int | None = None
    """Of each seed; default: --evaluation-episodes of the run."""
    frames: int | None = None
    """Instead: all episodes of each seed that end within so many; the paper's evaluation on Atari has 500000."""
    epsilon: float | None = None
    """The chance of a random action; default: as configured."""
    seed: int = 0
    """For the episodes: where they start, and what happens."""
    device: str | None = None
    """cpu or gpu; default: what JAX prefers."""
    distributions: Path | None = None
    """Write a picture of the return distributions that the first seed predicts in an episode to this file."""
    at_step: int = 0
    """Which step of the episode --distributions shows."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def __call__(self) -> None:
        if self.at_step < 0:
            raise InputError(f"at_step={self.at_step}: steps are counted from 0")
        if self.episodes is not None and self.frames is not None:
            raise InputError(f"episodes={self.episodes} and frames={self.frames}: pass one of them")
        if self.episodes is not None and self.episodes < 1:
            raise InputError(f"episodes={self.episodes}: must be at least 1")
        if self.distributions is not None:
            check_picture("distributions", self.distributions)
        with on_device(self.device):
            run = load_run(self.run)
            played = self._played(run)
            if self.distributions is not None:
                self._draw(run, self.distributions)
        record = self._record(run, played)
        if self.json:
            print(json.dumps(record, allow_nan=False))
            return
        table = Table("seed", "mean return", "lowest", "highest", "mean length", box=box.SIMPLE_HEAD)
        for row in record["seeds"]:
            numbers = (row[k] for k in ("mean_return", "min_return", "max_return", "mean_length"))
            table.add_row(str(row["seed"]), *(f"{number:.2f}" for number in numbers))
        console = Console()
        console.print(table)
        console.print(
            f"{record['agent']} on {record['environment']} after {record['frames']:,} frames: mean return"
            f" {record['mean_return']:.2f} over {record['episodes']} episodes"
        )

    def _played(self, run: Run) -> list[Episodes]:
        """Of each seed."""
        if self.frames is not None:
            return run.evaluate_frames(self.frames, seed=self.seed, epsilon=self.epsilon)
        together = run.evaluate(self.episodes, seed=self.seed, epsilon=self.epsilon)
        return [seed_of(together, i) for i in range(run.config.seeds)]

    def _record(self, run: Run, played: list[Episodes]) -> dict[str, Any]:
        seeds = [
            {
                "seed": run.config.seed + i,
                "episodes": len(episodes.returns),
                "mean_return": float(np.mean(episodes.returns)),
                "min_return": float(np.min(episodes.returns)),
                "max_return": float(np.max(episodes.returns)),
                "mean_length": float(np.mean(episodes.lengths)),
            }
            for i, episodes in enumerate(played)
        ]
        returns, finished = (np.concatenate([getattr(e, name) for e in played]) for name in ("returns", "finished"))
        return {
            "agent": run.config.agent,
            "environment": run.config.environment,
            "frames": run.frames,
            "episodes": int(returns.size),
            "unfinished": int((~finished).sum()),
            "mean_return": float(returns.mean()),
            "seeds": seeds,
        }

    def _draw(self, run: Run, path: Path) -> None:
        played = moments(run, seed=self.seed, max_steps=self.at_step + 1)
        shown = next(itertools.islice(played, self.at_step, None), None)
        if shown is None:
            raise InputError(f"at_step={self.at_step}: the episode ended before; choose an earlier step")
        figure = plot_moment(shown, (run.setup.returns.low, run.setup.returns.high))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)
