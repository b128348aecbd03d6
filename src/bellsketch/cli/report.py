"""``bellsketch report``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from bellsketch.experiments.report.page import write_report
from bellsketch.experiments.suite.directory import open_suite


@dataclasses.dataclass(frozen=True)
class Report:
    """A page on what a suite came to, finished or not: scores with intervals, curves, and verdicts on claims.

    Example: bellsketch report runs/suites/minatar
    """

    suite: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SUITE")]
    """Directory of a suite."""
    out: Path | None = None
    """Directory for index.html, pictures and claims.json; default SUITE/report."""
    dqn_zoo: tuple[Path, ...] = ()
    """Results of DQN Zoo to draw beside ours: its results.tar.gz, or tables of it."""

    def __call__(self) -> None:
        page = write_report(open_suite(self.suite), self.out or self.suite / "report", self.dqn_zoo)
        Console().print(f"Report: {escape(str(page))}", soft_wrap=True)
