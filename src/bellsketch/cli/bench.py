"""``bellsketch bench``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from bellsketch.cli.running import run_experiment
from bellsketch.core.errors import UnknownNameError
from bellsketch.experiments.catalogue import BENCHMARKS
from bellsketch.experiments.reproduce import read_records


@dataclasses.dataclass(frozen=True)
class Bench:
    """How fast it is on this machine: a table, pictures, and what we ask of ourselves.

    Example: bellsketch bench tabular --scale quick
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """What to measure: tabular or atari."""
    scale: str = "quick"
    """quick (about a minute), or full: up to a million states and γ = 0.9999, about half an hour; all agents of the
    paper's table on Atari, on a GPU."""
    out: Path | None = None
    """Directory for NAME.csv, results.csv, figure.png, figure.pdf, claims.json and config.json; default
    runs/bench-SCALE/NAME."""
    seed: int = 0
    """For models and games."""
    fresh: bool = False
    """Discard what the directory holds, instead of continuing it."""

    def __call__(self) -> None:
        if self.name not in BENCHMARKS:
            raise UnknownNameError("benchmark", self.name, BENCHMARKS)
        out = self.out or Path("runs") / f"bench-{self.scale}" / self.name
        run_experiment(BENCHMARKS[self.name], out, scale=self.scale, seed=self.seed, fresh=self.fresh)
        read_records(out).to_csv(out / f"{self.name}.csv", index=False)  # by its own name, to be kept beside others
