"""``bellsketch plot``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import tyro
from rich.console import Console
from rich.markup import escape

from bellsketch.cli.pictures import check_picture
from bellsketch.core.errors import InputError
from bellsketch.deep.curves import plot_runs
from bellsketch.deep.run import load_curves


@dataclasses.dataclass(frozen=True)
class Plot:
    """Learning curves of one or more runs in one picture.

    Example: bellsketch plot runs/breakout runs/breakout-dqn --out curves.png
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN...")]
    """Directories of runs, finished or not."""
    out: Path = Path("curves.png")
    """File to write."""

    def __call__(self) -> None:
        if not self.runs:
            raise InputError("runs: pass the directory of at least one run")
        check_picture("out", self.out)
        figure = plot_runs([load_curves(run) for run in self.runs])
        self.out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.out, dpi=130)
        plt.close(figure)
        Console().print(f"Learning curves: {escape(str(self.out))}", soft_wrap=True)
