"""A suite at a glance: how many jobs are done, how fast it goes, and when it will be over."""

import dataclasses
import statistics
from collections.abc import Sequence

from bellsketch.experiments.suite.directory import JobStatus
from bellsketch.runs.words import duration, short

STATES = ("done", "running", "waiting", "failed")


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of all jobs."""

    counts: dict[str, int]
    done: float
    """Frames, or cells."""
    total: float
    per_second: float
    """Of all that run."""
    unit: str

    @property
    def seconds_left(self) -> float:
        """At this speed; infinite if nothing runs."""
        return (self.total - self.done) / self.per_second if self.per_second > 0 else float("inf")

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        rate = f", {self.per_second:,.0f} {self.unit}/s" if self.unit == "frames" else ""
        left = f", {duration(self.seconds_left)} left" if 0 < self.seconds_left < float("inf") else ""
        return f"{states}; {short(self.done)} of {short(self.total)} {self.unit}{rate}{left}"


def summarise(jobs: Sequence[JobStatus]) -> Summary:
    """All jobs in one. A job that has no speed yet is taken to have that of those before it."""
    counts = {state: sum(job.state == state for job in jobs) for state in STATES}
    failed = [job for job in jobs if job.state == "failed"]
    counted = [job for job in jobs if job not in failed]  # nobody waits for those
    done, total = (sum(getattr(job.progress, name) for job in counted) for name in ("done", "total"))
    known = [job.progress.per_second for job in jobs if job.progress.per_second > 0]
    usual = statistics.harmonic_mean(known) if known else 0.0
    speed = sum(job.progress.per_second or usual for job in jobs if job.state == "running")
    return Summary(counts, done, total, speed, jobs[0].job.unit)
