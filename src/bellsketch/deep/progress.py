"""One line that says how a training run is doing."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from bellsketch.deep.training import Progress


@contextlib.contextmanager
def progress_line(title: str, shown: bool) -> Iterator[Callable[[Progress], None]]:
    """Yields a function that shows a record: frames, frames/s, return, loss, ε and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[line]}"))
    bar = Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), disable=not shown)
    with bar:
        task = bar.add_task(title, total=None, line="starting")
        yield lambda progress: bar.update(
            task, completed=progress.frames, total=progress.total_frames, line=describe(progress)
        )


def describe(progress: Progress) -> str:
    """A record in words; means are over seeds."""
    means = {name: _mean([row[name] for row in progress.records]) for name in ("mean_return", "loss")}
    return (
        f"{progress.frames:,}/{progress.total_frames:,} frames  {progress.frames_per_second:,.0f}/s"
        f"  return {means['mean_return']:.2f}  loss {means['loss']:.3g}  ε {progress.records[0]['epsilon']:.2f}"
    )


def _mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
