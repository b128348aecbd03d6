"""A directory that holds a suite: what it is made of, and for each job a run and what became of it.

One writer a file: who drives the suite writes ``driver.json`` and ``jobs/NAME.json``, who works on a job writes
``jobs/NAME.started.json`` and everything below ``runs/NAME``.
"""

import dataclasses
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from bellsketch.core.errors import InputError
from bellsketch.experiments.suite.jobs import Job, Progress
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_table
from bellsketch.experiments.suite.suite import Suite
from bellsketch.runs.claimed_directory import CONFIG, ClaimedDirectory
from bellsketch.runs.files import replace_text
from bellsketch.runs.provenance import provenance

FORMAT = 1
"""Of a suite's directory. Others are not read."""
PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "optax", "gymnax", "ale-py")
IDENTITY = ("format", "suite", "bellsketch")
HOW = ("resources", "checkpoint_seconds")
"""What may change from one time to the next."""
CONTENTS = ("runs", "jobs", "results", "report")
SILENCE = 60.0
"""Seconds after which a driver that says nothing is taken for dead."""
BEAT = 5.0
"""Seconds between its signs of life."""


@dataclasses.dataclass(frozen=True)
class JobStatus:
    """What can be seen of a job."""

    job: Job
    state: str
    """``done``, ``running``, ``failed`` or ``waiting``."""
    progress: Progress
    error: str = ""
    """The last one."""
    node: str = ""


class SuiteDirectory:
    """Reads a suite, and writes down what happens to it."""

    def __init__(self, path: Path, suite: Suite):
        self.path, self.suite, self.jobs = path, suite, suite.jobs()
        self._done: dict[str, Progress] = {}
        self._beaten = 0.0

    def run_path(self, job: Job) -> Path:
        """The directory of a job's run."""
        return self.path / "runs" / job.name

    def is_done(self, job: Job) -> bool:
        """Whether a job has nothing left to do."""
        if job.name not in self._done and job.is_done(self.run_path(job)):
            self._done[job.name] = job.progress(self.run_path(job))
        return job.name in self._done

    def claim(self, *, fresh: bool = False) -> ClaimedDirectory:
        """Drive it: no other may until it is released, and none with another suite or version ever."""
        table = self.suite.table()
        how = {name: table.pop(name) for name in HOW}
        about = {"format": FORMAT, "suite": table, **how, **provenance(PACKAGES)}
        claimed = ClaimedDirectory(self.path, about, identity=IDENTITY, contents=CONTENTS, fresh=fresh)
        try:
            claimed.warn_of_other_commit(about["commit"])
            claimed.config.update(how)
            claimed.save_config()
        except BaseException:  # a warning may be an error
            claimed.release()
            raise
        return claimed

    def submit(self, job: Job) -> int:
        """It waits for a node; returns the number of this attempt, which no other attempt has."""
        kept = _read(self._file(job))
        attempt = int(kept.get("attempt", 0)) + 1
        self._write(job, {"state": "submitted", "attempt": attempt, "errors": kept.get("errors", [])})
        return attempt

    def fail(self, job: Job, error: str, *, final: bool) -> None:
        """It went wrong."""
        kept = _read(self._file(job))
        errors = [*kept.get("errors", []), error]
        self._write(job, {**kept, "state": "failed" if final else "submitted", "errors": errors})

    def start(self, job: Job, attempt: int) -> None:
        """Somebody works on it."""
        about = {"attempt": attempt, "node": platform.node(), "pid": os.getpid(), "time": round(time.time(), 1)}
        replace_text(self.path / "jobs" / f"{job.name}.started.json", json.dumps(about))

    def beat(self) -> None:
        """A sign of life of whoever drives it."""
        if time.monotonic() - self._beaten > BEAT:
            self._beaten = time.monotonic()
            about = {"node": platform.node(), "pid": os.getpid(), "time": round(time.time(), 1)}
            replace_text(self.path / "driver.json", json.dumps(about))

    def end(self) -> None:
        """Nobody drives it any more."""
        (self.path / "driver.json").unlink(missing_ok=True)

    def is_driven(self) -> bool:
        """Whether somebody does."""
        return time.time() - _read(self.path / "driver.json").get("time", 0.0) < SILENCE

    def status(self) -> list[JobStatus]:
        """Of all jobs, from what is in the directory alone."""
        driven = self.is_driven()
        return [self._status(job, driven) for job in self.jobs]

    def _status(self, job: Job, driven: bool) -> JobStatus:
        if self.is_done(job):
            return JobStatus(job, "done", self._done[job.name])
        progress = job.progress(self.run_path(job))
        kept, started = _read(self._file(job)), _read(self.path / "jobs" / f"{job.name}.started.json")
        error = (kept.get("errors") or [""])[-1]
        if kept.get("state") == "failed":
            return JobStatus(job, "failed", progress, error)
        if driven and kept and kept.get("attempt") == started.get("attempt"):
            return JobStatus(job, "running", progress, error, started["node"])
        return JobStatus(job, "waiting", progress, error)

    def _write(self, job: Job, values: dict[str, Any]) -> None:
        self._file(job).parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._file(job), json.dumps(values, ensure_ascii=False))

    def _file(self, job: Job) -> Path:
        return self.path / "jobs" / f"{job.name}.json"


def open_suite(path: Path) -> SuiteDirectory:
    """The suite in a directory."""
    file = path / CONFIG
    if not file.exists():
        raise InputError(f"suite={path}: has no {CONFIG}; pass the --out of a suite")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        found = config["format"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{file} is not the config of a suite; pass the --out of a suite") from None
    if found != FORMAT:
        raise InputError(
            f"suite={path}: was written by bellsketch {config.get('bellsketch')} in format {found}, and this version"
            f" reads format {FORMAT}; use that version, or run the suite into another directory"
        )
    return SuiteDirectory(path, read_table({**config["suite"], **{name: config[name] for name in HOW}}, PRESETS))


def _read(file: Path) -> dict[str, Any]:
    """A file that may not be there yet."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
