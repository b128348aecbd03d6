"""Running an experiment from the command line: a bar while it works, then its table and the verdicts on its claims."""

import time
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bellsketch.experiments.claims import Claim
from bellsketch.experiments.experiment import Experiment
from bellsketch.experiments.reproduce import read_records, reproduce


def run_experiment(experiment: Experiment, out: Path, **options: Any) -> None:
    """Compute what is missing of an experiment into a directory and show it; see :func:`reproduce` for the options."""
    start = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console, errors = Console(), Console(stderr=True)
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), transient=True, console=errors)
    with bar:
        task = bar.add_task(experiment.name, total=None)
        try:
            claims = reproduce(
                experiment, out, report=lambda done, total: bar.update(task, completed=done, total=total), **options
            )
        except KeyboardInterrupt:
            bar.stop()
            done, total = int(bar.tasks[task].completed), bar.tasks[task].total
            kept = f"{done} of {total:.0f} parts" if total else "what was done"
            errors.print(f"stopped: {kept} kept in {escape(str(out))}; the same command continues", soft_wrap=True)
            raise
    if experiment.table is not None:
        _show_records(console, experiment.table(read_records(out)))
    _show_claims(console, experiment, claims)
    console.print(f"Figure, table and claims: {escape(str(out))} ({time.perf_counter() - start:.0f} s)", soft_wrap=True)


def _show_records(console: Console, records: pd.DataFrame) -> None:
    table = Table(*records.columns, box=box.SIMPLE_HEAD)
    for row in records.itertuples(index=False):
        table.add_row(*("" if pd.isna(value) else _text(value) for value in row))
    console.print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _show_claims(console: Console, experiment: Experiment, claims: list[Claim]) -> None:
    table = Table(title=f"{experiment.name}: {experiment.title}", box=box.SIMPLE_HEAD)
    for column in ("claim", "measured", "needed", "holds"):
        table.add_column(column, justify="right" if column in ("measured", "needed") else "left")
    for claim in claims:
        verdict = "[green]yes[/]" if claim.holds else "[red]no[/]"
        table.add_row(claim.statement, f"{claim.measured:.3g}", f"{claim.relation} {claim.threshold:g}", verdict)
    console.print(table)
