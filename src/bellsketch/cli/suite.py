"""``bellsketch suite``."""

import dataclasses
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import jax
import psutil
import tyro
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from bellsketch.core.errors import BellsketchError, InputError, UnknownNameError
from bellsketch.experiments.suite import cluster
from bellsketch.experiments.suite.directory import JobStatus, SuiteDirectory, open_suite
from bellsketch.experiments.suite.jobs import Job, TrainingJob
from bellsketch.experiments.suite.plan import disk_bytes, estimates
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_file, read_table
from bellsketch.experiments.suite.suite import Suite
from bellsketch.experiments.suite.summary import summarise
from bellsketch.runs.words import duration, short

SHOWN = 20
"""Jobs in the live table."""
LINE_SECONDS = 30.0
"""Between lines, where there is no terminal."""
REFRESH = 2.0


@dataclasses.dataclass(frozen=True)
class SuiteCommand:
    """Many runs, on this machine or on a Ray cluster: any grid of agents, environments, seeds and feature settings.

    Jobs that were stopped or killed go on from their last checkpoint; those that are done are never run again. On a
    cluster, --out must be on a file system that all nodes share.

    Examples: bellsketch suite minatar --agents sketch_dqn dqn --seeds 2 --frames 200000 --out runs/minatar; bellsketch
    suite atari57 --dry-run; bellsketch suite mine.toml --address auto; bellsketch suite status runs/minatar; bellsketch
    suite resume runs/minatar
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SUITE")]
    """atari57, atari-sweep, minatar, tabular-full or a TOML file; or status or resume, with the directory of one."""
    directory: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="DIRECTORY")] = None
    """Of a suite that was begun, for status and resume."""
    out: Path | None = None
    """Directory of the suite; default runs/suites/NAME."""
    address: str | None = None
    """Of a Ray cluster, such as auto or HOST:6379; default: this machine alone."""
    dry_run: bool = False
    """Only say what would run, for how long, and what it would take of a disk."""
    frame_rate: float | None = None
    """Frames a second of one job, for the hours of a dry run; default: as measured."""
    fresh: bool = False
    """Discard what the directory holds."""
    agents: tuple[str, ...] | None = None
    """Instead of the suite's."""
    environments: tuple[str, ...] | None = None
    """Instead of the suite's: names, or atari57 or minatar for all of their games."""
    seeds: int | None = None
    """How many, from 0 on, instead of the suite's."""
    frames: int | None = None
    """Of each seed, instead of the suite's."""
    cores: float | None = None
    """Of a job, instead of the suite's."""
    gpus: float | None = None
    """Of a job, instead of the suite's; may be a fraction."""
    memory_gb: float | None = None
    """Of a job, instead of the suite's."""
    checkpoint_seconds: float | None = None
    """Time between checkpoints, instead of the suite's."""

    def __call__(self) -> None:
        # This process only watches; jobs have the accelerators, and JAX would take most of one's memory.
        jax.config.update("jax_platforms", "cpu")
        console = Console()
        if self.name in ("status", "resume"):
            if self.directory is None:
                raise InputError(f"directory: say which suite, bellsketch suite {self.name} DIRECTORY")
            self._check_alone()
            opened = open_suite(self.directory)
            if self.name == "status":
                show_status(console, opened)
                return
            opened = SuiteDirectory(self.directory, self._changed(opened.suite))
        else:
            if self.directory is not None:
                raise InputError(f"{str(self.directory)!r}: a suite has one name; its directory goes after --out")
            suite = self._changed(self._find())
            opened = SuiteDirectory(self.out or Path("runs") / "suites" / suite.name, suite)
        if self.dry_run:
            self._show_plan(console, opened)
        else:
            self._run(console, opened)

    def _check_alone(self) -> None:
        """A suite that was begun is what it is; only how it runs may change."""
        fixed = ("agents", "environments", "seeds", "frames", "out", "fresh")
        if given := [name for name in fixed if getattr(self, name) not in (None, False)]:
            raise InputError(
                f"--{given[0]}: {self.name} takes the suite as it was begun; leave it out, or begin another with --out"
            )

    def _find(self) -> Suite:
        path = Path(self.name)
        if path.suffix == ".toml":
            if not path.exists():
                raise InputError(f"suite {self.name!r}: there is no such file")
            return read_file(path, PRESETS)
        if self.name not in PRESETS:
            raise UnknownNameError("suite", self.name, [*PRESETS, "status", "resume"])
        return PRESETS[self.name]

    def _changed(self, suite: Suite) -> Suite:
        """With what was passed in place of its own."""
        table = suite.table()
        grid = {name: getattr(self, name) for name in ("agents", "environments", "seeds", "frames")}
        grid = {name: list(value) if isinstance(value, tuple) else value for name, value in grid.items()}
        grid = {name: value for name, value in grid.items() if value is not None}
        if "experiment" in table and grid:
            raise InputError(f"--{next(iter(grid))}: {suite.name} is a figure, whose cells are fixed; leave it out")
        if "agents" in grid:
            table["settings"] = []
        resources = {name: getattr(self, name) for name in ("cores", "gpus", "memory_gb")}
        table["resources"] |= {name: value for name, value in resources.items() if value is not None}
        if self.checkpoint_seconds is not None:
            table["checkpoint_seconds"] = self.checkpoint_seconds
        return read_table({**table, **grid}, PRESETS)

    def _run(self, console: Console, directory: SuiteDirectory) -> None:
        errors = Console(stderr=True)
        claimed = directory.claim(fresh=self.fresh)
        try:
            with cluster.cluster(self.address) as ray:
                places = cluster.slots(ray, directory.suite.resources)
                errors.print(
                    f"{escape(directory.suite.name)}: {len(directory.jobs)} jobs of {directory.suite.resources} each,"
                    f" {places} at a time, in {escape(str(directory.path))}",
                    soft_wrap=True,
                )
                with _live(errors) as watch, _terminable():
                    failed = cluster.drive(ray, directory, watch)
        except KeyboardInterrupt:
            errors.print(f"stopped; bellsketch suite resume {escape(str(directory.path))} goes on", soft_wrap=True)
            raise
        finally:
            claimed.release()
        console.print(f"{summarise(directory.status())}. Report: bellsketch report {escape(str(directory.path))}")
        if failed:
            raise _failures(directory, failed)

    def _show_plan(self, console: Console, directory: SuiteDirectory) -> None:
        suite, jobs = directory.suite, directory.jobs
        missing = [job for job in jobs if not directory.is_done(job)]
        done = len(jobs) - len(missing)
        console.print(f"{escape(suite.name)}: {len(jobs)} jobs, {done} done; each takes {suite.resources}")
        if self.address is not None:
            with cluster.cluster(self.address) as ray:
                places = cluster.slots(ray, suite.resources)
        else:
            places = _places_here(suite)
        for job in missing[:SHOWN]:
            console.print(f"  {job.name}", highlight=False)
        if len(missing) > SHOWN:
            console.print(f"  … and {len(missing) - SHOWN} more")
        training = [job for job in missing if isinstance(job, TrainingJob)]
        if training:
            self._show_hours(console, directory, places)
            running, kept = disk_bytes(training, min(places, len(training)))
            console.print(
                f"Disk: at most {running / 1e9:,.1f} GB for checkpoints while {min(places, len(training))} run, before"
                f" compression; {kept / 1e9:,.2f} GB in the end."
            )

    def _show_hours(self, console: Console, directory: SuiteDirectory, places: int) -> None:
        if self.frame_rate is not None and not self.frame_rate > 0:
            raise InputError(f"frame_rate={self.frame_rate}: must be positive")
        table = Table("setting", "jobs", "frames", "frames/s", "hours", "measured", box=box.SIMPLE_HEAD)
        found = estimates(directory, self.frame_rate)
        for row in found:
            rate = f"{row.rate.frames_per_second:,.0f}" if row.rate else "–"
            hours = "–" if math.isnan(row.hours) else f"{row.hours:,.1f}"
            source = row.rate.source if row.rate else "nowhere: pass --frame-rate"
            table.add_row(escape(row.setting), str(row.jobs), short(row.frames), rate, hours, source)
        console.print(table)
        seconds = 3600 * sum(row.hours for row in found)
        if not math.isnan(seconds):
            here = "there" if self.address is not None else "here"
            console.print(
                f"{duration(seconds)} of jobs; {places} at a time {here}: about {duration(seconds / places)}."
            )


def _places_here(suite: Suite) -> int:
    """Jobs side by side on a machine like this one, by its cores; what else it has, Ray knows once it is started."""
    return max(1, int((psutil.cpu_count() or 1) / suite.resources.cores))


@contextmanager
def _terminable() -> Iterator[None]:
    """What a batch system sends before it ends a program is taken for Ctrl-C."""

    def handle(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _live(console: Console) -> Iterator[Callable[[SuiteDirectory], None]]:
    """Yields a function that shows how a suite is doing."""
    last = 0.0
    if not console.is_terminal:

        def say(directory: SuiteDirectory) -> None:
            nonlocal last
            if time.monotonic() - last > LINE_SECONDS:
                last = time.monotonic()
                print(summarise(directory.status()), file=sys.stderr)

        yield say
        return
    with Live(console=console, auto_refresh=False) as live:

        def show(directory: SuiteDirectory) -> None:
            nonlocal last
            if time.monotonic() - last > REFRESH:
                last = time.monotonic()
                live.update(status_table(directory.status()), refresh=True)

        yield show


def show_status(console: Console, directory: SuiteDirectory) -> None:
    """Once, from the directory alone."""
    jobs = directory.status()
    console.print(status_table(jobs))
    for status in jobs:
        if status.state == "failed":
            console.print(f"[red]failed:[/] {status.job.name}: {escape(status.error)}", soft_wrap=True)
    if not directory.is_driven() and any(status.state != "done" for status in jobs):
        console.print(f"Nobody works on it; bellsketch suite resume {escape(str(directory.path))} goes on")


def status_table(jobs: list[JobStatus]) -> Any:
    """Who runs where, and all of them in a line."""
    table = Table("job", "state", "done", "speed", "node", box=box.SIMPLE_HEAD)
    order = {"running": 0, "failed": 1, "waiting": 2, "done": 3}
    for status in sorted(jobs, key=lambda status: order[status.state])[:SHOWN]:
        done, speed = status.progress.done / status.progress.total, status.progress.per_second
        words = f"{speed:,.0f} {status.job.unit}/s" if status.state == "running" and speed else ""
        table.add_row(status.job.name, status.state, f"{done:.0%}", words, status.node)
    return Group(table, str(summarise(jobs)))


def _failures(directory: SuiteDirectory, failed: list[Job]) -> BellsketchError:
    errors = {status.job.name: status.error for status in directory.status()}
    first = failed[0].name
    return BellsketchError(
        f"{len(failed)} of {len(directory.jobs)} jobs failed {cluster.TRIES} times, such as {first}: {errors[first]}\n"
        f"The others are done. Mend what is wrong, and bellsketch suite resume {directory.path} tries them again."
    )
