"""From a figure's name to a run directory: cells side by side, kept as they finish, then the picture and the claims."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import matplotlib.pyplot as plt
import pandas as pd

from bellsketch.core.errors import InputError
from bellsketch.experiments.claims import Claim, claims_json
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.run_directory import RunDirectory, cell_key, describe_run, results_file
from bellsketch.runs.files import replace_text

THREADS = 2
"""Cells at a time that share a device: one computes, the next is compiled."""


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    scale: str = "quick",
    seed: int = 0,
    jobs: int | None = None,
    fresh: bool = False,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[Claim]:
    """Compute a figure, or what is missing of it, into a directory.

    Args:
      experiment: which figure.
      out: gets ``config.json``, ``results.csv``, ``figure.png``, ``figure.pdf`` and ``claims.json``. A run that was
        stopped is continued; a complete one is only drawn again.
      scale: ``quick`` or ``full``.
      seed: for everything random.
      jobs: how many cells to compute side by side; default: one for each core, or two where they share an accelerator.
        Timed figures always use one.
      fresh: discard what the directory holds.
      report: called with the number of cells done and their total.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs={jobs}: must be at least 1")
    settings = experiment.settings(scale, seed)
    if (missing := experiment.missing()) and (fresh or not results_file(out).exists()):
        raise InputError(
            f"{experiment.name} needs {', '.join(missing)}, which is not installed: pip install 'bellsketch[deep]'"
        )
    config = describe_run(experiment, scale, settings)
    directory = RunDirectory(out, config, fresh=fresh)
    try:
        if not directory.is_complete:
            directory.complete(_compute(experiment, settings, directory, _workers(experiment, jobs), report))
        directory.config["drawn_at_commit"] = config["commit"]
        directory.save_config()
        return _draw(experiment, directory)
    finally:
        directory.release()


def _workers(experiment: Experiment, jobs: int | None) -> int:
    if experiment.timed:
        return 1
    return jobs or (THREADS if experiment.shares_device else joblib.cpu_count())


def _draw(experiment: Experiment, directory: RunDirectory) -> list[Claim]:
    """The picture and the claims, from the table alone."""
    records = read_records(directory.path)
    figure = experiment.plot(records)
    for suffix, metadata in (("png", None), ("pdf", {"CreationDate": None})):
        figure.savefig(directory.path / f"figure.{suffix}", dpi=130, metadata=metadata)
    plt.close(figure)
    claims = experiment.claims(records)
    replace_text(directory.path / "claims.json", claims_json(claims))
    return claims


def read_records(path: Path) -> pd.DataFrame:
    """The table of a run directory."""
    return pd.read_csv(results_file(path), keep_default_na=False, na_values=[""])


def _compute(
    experiment: Experiment, settings: Any, directory: RunDirectory, jobs: int, report: Callable[[int, int], None]
) -> list[Record]:
    cells = experiment.cells(settings)
    done = directory.finished()
    missing = [cell for cell in cells if cell_key(cell) not in done]
    report(len(cells) - len(missing), len(cells))
    start = time.perf_counter()
    try:
        for cell, records, seconds in _measure_all(experiment, settings, missing, jobs):
            directory.append(cell, records, seconds)
            done[cell_key(cell)] = records
            report(sum(cell_key(cell) in done for cell in cells), len(cells))
    finally:
        directory.config["seconds"] = round(directory.config["seconds"] + time.perf_counter() - start, 1)
        directory.save_config()
    return [record for cell in cells for record in done[cell_key(cell)]]


def _measure_all(
    experiment: Experiment, settings: Any, cells: list[Cell], jobs: int
) -> Iterator[tuple[Cell, list[Record], float]]:
    """Cells in the order in which they finish."""
    if min(jobs, len(cells)) <= 1:
        yield from (_measure(experiment.measure, settings, cell) for cell in cells)
        return
    prefer = "threads" if experiment.shares_device else None
    parallel = joblib.Parallel(n_jobs=jobs, prefer=prefer, return_as="generator_unordered")
    yield from parallel(joblib.delayed(_measure)(experiment.measure, settings, cell) for cell in cells)


def _measure(measure: Any, settings: Any, cell: Cell) -> tuple[Cell, list[Record], float]:
    start = time.perf_counter()
    records = measure(settings, cell)
    return cell, records, time.perf_counter() - start
