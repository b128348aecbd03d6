"""``bellsketch compare``."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import jax
import matplotlib.pyplot as plt
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from bellsketch.core.errors import InputError
from bellsketch.experiments.compare import Comparison, compare, plot_comparison
from bellsketch.tabular import environments
from bellsketch.tabular.ground_truth import ground_truth
from bellsketch.tabular.sampling import estimate_return_range


@dataclasses.dataclass(frozen=True)
class Compare:
    """All methods with m numbers per state on one environment: sketches, categorical, quantile, expectile, …

    Example: bellsketch compare random_chain --num 50 --sweep 10 20 50 100
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")]
    """One of the paper's environments."""
    num: int = 50
    """m, the numbers each method stores per state."""
    sweep: tuple[int, ...] = ()
    """More values of m, for a plot of error against m."""
    discount: float = environments.DISCOUNT
    """γ."""
    seed: int = 0
    """For the Monte Carlo estimate of the return range."""
    out: Path = Path("runs/compare")
    """Directory for the figure, which is always written."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def __call__(self) -> None:
        for num in (self.num, *self.sweep):
            if num < 2:
                raise InputError(f"num={num}: comparing methods needs at least 2 numbers per state")
        mrp = environments.make(self.environment, self.discount)
        key = jax.random.key(self.seed)
        truth = ground_truth(mrp)
        span = estimate_return_range(key, mrp)
        console = Console(stderr=True)
        results: dict[int, list[Comparison]] = {}
        with console.status("") as status:
            for num in sorted({self.num, *self.sweep}):
                note = lambda method, num=num: status.update(f"m = {num}: {method}")  # noqa: E731
                results[num] = compare(key, mrp, truth, num, span, report=note)
        figure = plot_comparison(results[self.num], truth, results if self.sweep else None)
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{self.environment}.png"
        figure.savefig(path, dpi=110)
        plt.close(figure)
        if self.json:
            rows = [result.record() for result in results[self.num]]
            print(json.dumps({"environment": self.environment, "num": self.num, "methods": rows}, allow_nan=False))
            return
        for num in results:
            self._show(results[num], num)
        Console().print(f"Errors are the largest over states. Figure: {path}")

    def _show(self, results: list[Comparison], num: int) -> None:
        table = Table(title=f"{self.environment}, {num} numbers per state", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in ("method", "Cramér", "W₁", "mean error", "set-up", "iteration", "iterations"):
            table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
        best = min(r.cramer for r in results if r.cramer is not None)
        for r in results:
            if r.cramer is None or r.seconds_per_iteration is None:
                table.add_row(r.method, "diverged", "", "", f"{1e3 * r.setup_seconds:.0f} ms", "", "")
                continue
            table.add_row(
                r.method,
                f"[bold]{r.cramer:.1e}[/]" if r.cramer == best else f"{r.cramer:.1e}",
                f"{r.wasserstein:.1e}",
                f"{r.mean_error:.1e}",
                f"{1e3 * r.setup_seconds:.0f} ms",
                f"{1e6 * r.seconds_per_iteration:.0f} µs",
                "–" if r.iterations is None else str(r.iterations),
            )
        Console().print(table)
