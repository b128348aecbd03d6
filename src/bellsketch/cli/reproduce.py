"""``bellsketch reproduce``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from bellsketch.cli.running import run_experiment
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """A figure of the paper, with a verdict on each of its claims. Stopped runs continue where they were.

    Example: bellsketch reproduce fig4 --scale quick --out runs/fig4
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """The figure, or all that can be computed with what is installed. See --list."""
    list: bool = False
    """Show the figures and do nothing."""
    scale: str = "quick"
    """quick (less than two minutes), or full: the paper's own settings."""
    out: Path | None = None
    """Directory for results.csv, figure.png, figure.pdf, claims.json and config.json; default runs/SCALE/NAME. With all
    figures, a directory in which each gets one of its own."""
    seed: int = 0
    """For everything random."""
    jobs: int | None = None
    """Parts of a sweep to compute side by side; default: as many as there are cores, or 2 that share an accelerator."""
    fresh: bool = False
    """Discard what the directory holds, instead of continuing it."""

    def __call__(self) -> None:
        console = Console()
        if self.list:
            self._show_list(console)
            return
        if not self.name:
            raise InputError(f"name: say which figure, one of {', '.join(EXPERIMENTS)}, or all")
        if self.name != "all" and self.name not in EXPERIMENTS:
            raise UnknownNameError("figure", self.name, EXPERIMENTS)
        if self.name == "all":
            self._run_all(console)
        else:
            self._run(EXPERIMENTS[self.name], self.out or Path("runs") / self.scale / self.name)

    def _run_all(self, console: Console) -> None:
        for name, experiment in EXPERIMENTS.items():
            if not experiment.missing():
                self._run(experiment, (self.out or Path("runs") / self.scale) / name)
        for name, experiment in EXPERIMENTS.items():
            if missing := experiment.missing():
                needs = f"{name}: left out, as {', '.join(missing)} is not installed: pip install 'bellsketch[deep]'"
                console.print(needs, soft_wrap=True, markup=False, highlight=False)

    def _run(self, experiment: Experiment, out: Path) -> None:
        run_experiment(experiment, out, scale=self.scale, seed=self.seed, jobs=self.jobs, fresh=self.fresh)

    def _show_list(self, console: Console) -> None:
        table = Table("figure", "what it shows", box=box.SIMPLE_HEAD)
        for experiment in EXPERIMENTS.values():
            table.add_row(experiment.name, experiment.title)
        console.print(table)
