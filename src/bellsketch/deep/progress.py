"""One line that says how a training run is doing."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from bellsketch.deep.training import Progress
from bellsketch.runs.words import short


@contextlib.contextmanager
def progress_line(shown: bool) -> Iterator[Callable[[Progress], None]]:
    """Yields a function that shows a record: frames, frames/s, return, loss, ε and the time left."""
    columns = (TextColumn("{task.fields[line]}"), TimeRemainingColumn(), BarColumn(bar_width=None))
    bar = Bar(*columns, console=Console(stderr=True), disable=not shown)
    with bar:
        task = bar.add_task("", total=None, line="starting")
        yield lambda progress: bar.update(
            task, completed=progress.frames, total=progress.total_frames, line=describe(progress)
        )


def describe(progress: Progress) -> str:
    """A record in words; means are over seeds."""
    mean_return, loss = (_mean([row[name] for row in progress.records]) for name in ("mean_return", "loss"))
    return (
        f"{short(progress.frames)}/{short(progress.total_frames)} frames {short(progress.frames_per_second)}/s"
        f"  return {mean_return}  loss {loss}  ε {progress.records[0]['epsilon']:.2f}"
    )


def _mean(values: list[float]) -> str:
    known = [value for value in values if not np.isnan(value)]
    return f"{np.mean(known):.3g}" if known else "–"
