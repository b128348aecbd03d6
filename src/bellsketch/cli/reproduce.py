"""``bellsketch reproduce``."""

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.claims import Claim
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.reproduce import reproduce


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """A figure of the paper, with a verdict on each of its claims. Stopped runs continue where they were.

    Example: bellsketch reproduce fig4 --scale quick --out runs/fig4
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """The figure, or all. See --list."""
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
    """Parts of a sweep to compute side by side; default: as many as there are cores."""
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
            for name, experiment in EXPERIMENTS.items():
                self._run(console, experiment, (self.out or Path("runs") / self.scale) / name)
        else:
            self._run(console, EXPERIMENTS[self.name], self.out or Path("runs") / self.scale / self.name)

    def _run(self, console: Console, experiment: Experiment, out: Path) -> None:
        start = time.perf_counter()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        errors = Console(stderr=True)
        bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), transient=True, console=errors)
        with bar:
            task = bar.add_task(experiment.name, total=None)
            try:
                claims = reproduce(
                    experiment,
                    out,
                    scale=self.scale,
                    seed=self.seed,
                    jobs=self.jobs,
                    fresh=self.fresh,
                    report=lambda done, total: bar.update(task, completed=done, total=total),
                )
            except KeyboardInterrupt:
                bar.stop()
                done, total = int(bar.tasks[task].completed), bar.tasks[task].total
                kept = f"{done} of {total:.0f} parts" if total else "what was done"
                errors.print(f"stopped: {kept} kept in {escape(str(out))}; the same command continues", soft_wrap=True)
                raise
        _show(console, experiment, claims)
        console.print(
            f"Figure, table and claims: {escape(str(out))} ({time.perf_counter() - start:.0f} s)", soft_wrap=True
        )

    def _show_list(self, console: Console) -> None:
        table = Table("figure", "what it shows", box=box.SIMPLE_HEAD)
        for experiment in EXPERIMENTS.values():
            table.add_row(experiment.name, experiment.title)
        console.print(table)


def _show(console: Console, experiment: Experiment, claims: list[Claim]) -> None:
    table = Table(title=f"{experiment.name}: {experiment.title}", box=box.SIMPLE_HEAD)
    for column in ("claim", "measured", "needed", "holds"):
        table.add_column(column, justify="right" if column in ("measured", "needed") else "left")
    for claim in claims:
        verdict = "[green]yes[/]" if claim.holds else "[red]no[/]"
        table.add_row(claim.statement, f"{claim.measured:.3g}", f"{claim.relation} {claim.threshold:g}", verdict)
    console.print(table)
