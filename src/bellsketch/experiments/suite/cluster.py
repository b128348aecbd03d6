"""Jobs on Ray: on this machine, or on a cluster. Ray decides what runs where; here is what to do when it fails."""

import contextlib
import importlib.metadata
import logging
import os
import platform
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from bellsketch.core.errors import BusyError, InputError, NodeError
from bellsketch.experiments.suite.directory import SuiteDirectory, open_suite
from bellsketch.experiments.suite.jobs import Job
from bellsketch.experiments.suite.suite import Resources, in_words
from bellsketch.runs.claimed_directory import CONFIG, wait_until_free
from bellsketch.runs.provenance import commit

TRIES = 2
"""Failures of a job after which it is given up. A node that dies is not the job's failure."""
PATIENCE = 60.0
"""Seconds for a job's last process to let go of its directory: it may outlive its node for a moment."""
SHARE_OF_GPU = 0.9
"""Of a job's part of the GPU's memory, that JAX takes; the rest is for CUDA itself."""
CONNECT_SECONDS = 10.0
OBJECT_STORE_BYTES = 100 * 2**20
"""Nothing but small messages goes through Ray: results go through files."""


@contextlib.contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Ray, connected: to a cluster, to one that the caller is connected to already, or to one made of this machine."""
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("a suite needs ray, which is not installed: pip install 'bellsketch[cluster]'") from None
    if ray.is_initialized():
        yield ray
        return
    shared: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None and "RAY_ADDRESS" not in os.environ:
        with warnings.catch_warnings():
            # JAX warns of forks; these become other programs at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            # "local": or Ray would look for a cluster that somebody has started here.
            ray.init("local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **shared)
    else:
        address = address or os.environ["RAY_ADDRESS"]
        try:
            _knock(address)
            ray.init(address=address, **shared)
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(
                f"address={address!r}: no Ray cluster answers there ({_first_line(error)}); start one with ray start"
                " --head, or leave --address out to use this machine alone"
            ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise at once if nobody listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


def slots(ray: Any, resources: Resources) -> int:
    """How many jobs can run side by side; raises if no node is large enough for one."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    needed = {"CPU": resources.cores, "GPU": resources.gpus, "memory": resources.memory_gb * 1e9}
    needed = {kind: amount for kind, amount in needed.items() if amount}
    found = sum(int(min((node.get(kind, 0.0) / needed[kind] for kind in needed), default=1)) for node in nodes)
    if not found:
        largest: dict[str, float] = max(
            nodes, key=lambda node: (node.get("GPU", 0.0), node.get("CPU", 0.0)), default={}
        )
        there = in_words(largest.get("CPU", 0.0), largest.get("GPU", 0.0), round(largest.get("memory", 0.0) / 1e9))
        raise InputError(
            f"resources: a job needs {resources}, and no node of {len(nodes)} has that; the largest has {there}. Ask"
            " for less with --cores, --gpus and --memory-gb, or let a larger node join"
        )
    return found


def drive(
    ray: Any,
    directory: SuiteDirectory,
    watch: Callable[[SuiteDirectory], None] = lambda directory: None,
    *,
    period: float = 1.0,
) -> list[Job]:
    """Run all jobs that are not done, and return those that failed.

    Args:
      ray: see :func:`cluster`.
      directory: of the suite, claimed by the caller.
      watch: called every ``period`` seconds.
      period: see there.
    """
    slots(ray, directory.suite.resources)
    crew = _Crew(ray, directory)
    try:
        for job in directory.jobs:
            if directory.is_done(job):
                job.tidy(directory.run_path(job))  # it may have been killed before it did so itself
            else:
                crew.submit(job)
        while crew.at_work:
            crew.collect(period)
            directory.beat()
            watch(directory)
    except KeyboardInterrupt:
        print("stopping when each job has saved itself; Ctrl-C again stops at once", file=sys.stderr)
        crew.stop()
        raise
    finally:
        directory.end()
    watch(directory)
    return crew.failed


class _Crew:
    """Jobs that are with Ray."""

    def __init__(self, ray: Any, directory: SuiteDirectory):
        self._ray, self._directory = ray, directory
        suite = directory.suite
        self._remote = ray.remote(
            num_cpus=suite.resources.cores,
            num_gpus=suite.resources.gpus,
            memory=int(suite.resources.memory_gb * 1e9) or None,
            max_calls=1,  # a process for each job: JAX gives a GPU's memory back only when its process ends
            max_retries=0,  # Ray would retry jobs that crash as often as jobs whose node died
        )(work)
        self._source = _source()
        self.at_work: dict[Any, Job] = {}
        self.failed: list[Job] = []
        self._failures: dict[str, int] = {}

    def submit(self, job: Job) -> None:
        attempt = self._directory.submit(job)
        self.at_work[self._remote.remote(self._directory.path.resolve(), job, attempt, self._source)] = job

    def collect(self, seconds: float) -> None:
        """Wait so long, and see to the jobs that have ended."""
        begun = time.monotonic()
        ended, _ = self._ray.wait(list(self.at_work), num_returns=len(self.at_work), timeout=seconds)
        for task in ended:
            job = self.at_work.pop(task)
            try:
                self._ray.get(task)
            except self._ray.exceptions.NodeDiedError as error:
                self._directory.fail(job, _first_line(error), final=False)
                self.submit(job)
            except Exception as error:  # whatever a job can run into, the others go on
                cause = getattr(error, "cause", None)
                if isinstance(cause, NodeError):  # it would fail all jobs, one after the other
                    self.stop()
                    raise cause from None
                if isinstance(cause, BusyError):  # its last process is still alive, on a node that Ray has lost
                    self._directory.fail(job, str(cause), final=False)
                    self.submit(job)
                else:
                    self._fail(job, _reason(error))
        time.sleep(max(0.0, seconds - (time.monotonic() - begun)) if self.at_work else 0.0)

    def _fail(self, job: Job, reason: str) -> None:
        self._failures[job.name] = self._failures.get(job.name, 0) + 1
        final = self._failures[job.name] >= TRIES
        self._directory.fail(job, reason, final=final)
        if final:
            self.failed.append(job)
        else:
            self.submit(job)

    def stop(self) -> None:
        """Let every job come to its next record and save itself; a second Ctrl-C does not wait for that."""
        for task in self.at_work:
            self._ray.cancel(task)
        while self.at_work:
            ended, _ = self._ray.wait(list(self.at_work), timeout=1.0)
            for task in ended:
                del self.at_work[task]
            self._directory.beat()


def _source() -> tuple[str, str | None]:
    """Version and commit of what runs here."""
    return importlib.metadata.version("bellsketch"), commit()


def work(path: Path, job: Job, attempt: int, source: tuple[str, str | None]) -> None:
    """A job on a node."""
    node = platform.node()
    if not (path / CONFIG).exists():
        raise NodeError(f"{path}: is not there on node {node}; put the suite on a file system that all nodes share")
    if (here := _source()) != source:
        raise NodeError(
            f"bellsketch {here[0]}, commit {here[1]}, is on node {node}, and the suite runs with {source[0]}, commit"
            f" {source[1]}; install the same on all nodes"
        )
    directory = open_suite(path)
    _limit(directory.suite.resources)
    directory.start(job, attempt)
    wait_until_free(directory.run_path(job), PATIENCE)
    job.run(directory.run_path(job), directory.suite.checkpoint_seconds)


def _limit(resources: Resources) -> None:
    """Keep JAX to what the job asked for. It reads these when it first computes, which is later."""
    if threading.current_thread() is not threading.main_thread():
        return  # not a process of its own
    os.environ["NPROC"] = str(max(1, int(resources.cores)))
    if not resources.gpus:
        jax.config.update("jax_platforms", "cpu")
    elif resources.gpus < 1:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{SHARE_OF_GPU * resources.gpus:.3f}"


def _reason(error: BaseException) -> str:
    """What went wrong in a job, without Ray's account of where."""
    cause = getattr(error, "cause", None)
    return f"{type(cause).__name__}: {_first_line(cause)}" if cause is not None else _first_line(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
