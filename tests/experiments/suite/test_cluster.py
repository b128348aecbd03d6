"""Suites on a real Ray cluster, of several nodes on this machine."""

import os
import signal
import subprocess
import sys
import time
import types

import pandas as pd
import pytest

import bellsketch as bs
import tiny
from bellsketch.core.errors import BusyError, NodeError
from bellsketch.deep.run import run_training
from bellsketch.deep.run_directory import TrainingDirectory
from bellsketch.deep.setup import set_up
from bellsketch.experiments.suite import cluster
from bellsketch.experiments.suite.directory import SuiteDirectory, open_suite
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_table
from bellsketch.experiments.suite.suite import Resources

ray = pytest.importorskip("ray")
OBJECT_STORE = 80 * 2**20
LONG = tiny.OPTIONS | {"frames": 20_000, "records": 40, "evaluations": 0}
"""Some seconds, and a record, and with it a checkpoint, every few hundredths of one."""


def suite(options=LONG, **changes):
    options = dict(options)
    table = {"name": "test", "agents": ["dqn"], "environments": ["Catch-bsuite"], "seeds": 2}
    table |= {"frames": options.pop("frames"), "options": options, "checkpoint_seconds": 0.3}
    return read_table(table | changes, PRESETS)


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Each job has a process of its own, but programs need not be compiled for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        yield


@pytest.fixture(scope="module")
def nodes(compiled_once):
    """A head that runs nothing, and two nodes with a core each; tests may remove nodes and must add them again."""
    from ray.cluster_utils import Cluster

    shared = {"object_store_memory": OBJECT_STORE}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **shared})
    for _ in range(2):
        made.add_node(num_cpus=1, **shared)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def checkpoint(path):
    return max((int(entry.name) for entry in (path / "checkpoints").glob("*[0-9]")), default=0)


class TestNodeThatDies:
    @pytest.mark.slow
    def test_costs_at_most_what_came_after_the_last_checkpoint(self, nodes, tmp_path):
        directory = SuiteDirectory(tmp_path / "suite", suite())
        claimed = directory.claim()
        paths = [directory.run_path(job) for job in directory.jobs]
        saved, least = {}, {}

        def watch(directory):
            running = [status for status in directory.status() if status.state == "running"]
            if not saved and len(running) == 2 and all(checkpoint(path) > 1_000 for path in paths):
                saved.update({path: checkpoint(path) for path in paths})
                victim = next(iter(nodes.worker_nodes))
                nodes.remove_node(victim, allow_graceful=False)
                nodes.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
            elif saved:
                for job, path in zip(directory.jobs, paths, strict=True):
                    if (path / "times.csv").exists():
                        least[path] = min(least.get(path, 10**9), job.progress(path).done)

        failed = cluster.drive(ray, directory, watch, period=0.1)
        claimed.release()
        assert failed == []
        assert saved, "the runs were over before a node could be killed"
        assert all(directory.is_done(job) for job in directory.jobs)
        attempts = [directory.submit(job) - 1 for job in directory.jobs]
        assert sorted(attempts) == [1, 2]
        assert all(least[path] >= saved[path] for path in paths)
        # And what came of it is what would have come of it anyway.
        config = directory.jobs[attempts.index(2)].config
        undisturbed = run_training(set_up(config), progress=False)
        found = pd.read_csv(paths[attempts.index(2)] / "records.csv")
        pd.testing.assert_frame_equal(found, undisturbed.records, check_dtype=False, rtol=1e-5)


class TestJobThatFails:
    @pytest.mark.slow
    def test_is_tried_twice_and_reported_and_the_rest_go_on(self, nodes, tmp_path):
        bad = {"agent": "sketch_dqn", "name": "bad", "rewards": [0.0], "return_low": 0.0, "return_high": 1.0}
        directory = SuiteDirectory(tmp_path / "suite", suite(tiny.OPTIONS, seeds=1, settings=[bad]))
        directory.claim().release()
        failed = cluster.drive(ray, directory, period=0.1)
        assert [job.setting for job in failed] == ["bad"]
        states = {status.job.setting: status for status in open_suite(directory.path).status()}
        assert states["dqn"].state == "done"
        assert states["bad"].state == "failed"
        assert "MissingRewardError" in states["bad"].error
        good = next(job for job in directory.jobs if job.setting == "dqn")
        assert not (directory.run_path(good) / "checkpoints").exists()
        # Once more, without the bad one: what is done is not run again.
        again = SuiteDirectory(directory.path, suite(tiny.OPTIONS, seeds=1))
        assert cluster.drive(ray, again, period=0.1) == []
        attempts = {job.setting: directory.submit(job) - 1 for job in directory.jobs}
        assert attempts == {"dqn": 1, "bad": 2}

    def test_a_crash_is_a_failure(self, nodes, tmp_path):
        directory = SuiteDirectory(tmp_path / "suite", suite(seeds=1))
        directory.claim().release()
        killed = []

        def watch(directory):
            started = directory.path / "jobs" / f"{directory.jobs[0].name}.started.json"
            if started.exists() and (pid := int(started.read_text().split('"pid": ')[1].split(",")[0])) not in killed:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        assert [job.name for job in cluster.drive(ray, directory, watch, period=0.1)] == [directory.jobs[0].name]
        assert len(killed) == 2
        assert "worker died" in open_suite(directory.path).status()[0].error


class TestOthers:
    """What is no failure of a job."""

    def test_a_node_that_cannot_work_stops_the_suite(self, nodes, tmp_path, monkeypatch):
        directory = SuiteDirectory(tmp_path / "suite", suite(tiny.OPTIONS))
        directory.claim().release()
        monkeypatch.setattr(cluster, "_source", lambda: ("99", None))
        with pytest.raises(NodeError, match="the suite runs with 99"):
            cluster.drive(ray, directory, period=0.1)
        assert all(status.state == "waiting" for status in directory.status())

    def test_a_directory_that_is_still_in_use(self, tmp_path, monkeypatch):
        directory = SuiteDirectory(tmp_path / "suite", suite(tiny.OPTIONS))
        directory.claim().release()
        (tmp_path / "suite" / "jobs").mkdir()
        job = directory.jobs[0]
        monkeypatch.setattr(cluster, "PATIENCE", 0.1)
        monkeypatch.setattr(cluster, "_limit", lambda resources: None)
        busy = TrainingDirectory(directory.run_path(job), job.config)
        with pytest.raises(BusyError, match="another run has been at work there"):
            cluster.work(directory.path, job, 1, cluster._source())
        busy.release()
        cluster.work(directory.path, job, 1, cluster._source())
        assert directory.is_done(job)


class TestBadInput:
    def test_more_than_any_node_has(self, nodes):
        with pytest.raises(bs.InputError) as raised:
            cluster.slots(ray, Resources(cores=3, gpus=1))
        assert "a job needs 3 cores, 1 GPU, and no node of 3 has that; the largest has 1 core" in str(raised.value)

    def test_no_node_has_a_core(self):
        """As of a head alone: what there is must be said, not checked."""
        alone = types.SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": {"memory": 2e9}}])
        with pytest.raises(bs.InputError, match="the largest has 0 cores, 2 GB of memory"):
            cluster.slots(alone, Resources())

    def test_places(self, nodes):
        assert cluster.slots(ray, Resources(cores=1)) == 2
        assert cluster.slots(ray, Resources(cores=0.5)) == 4

    def test_a_directory_that_is_not_shared(self, tmp_path):
        with pytest.raises(NodeError, match="put the suite on a file system that all nodes share"):
            cluster.work(tmp_path / "elsewhere", suite().jobs()[0], 1, cluster._source())

    def test_another_version_on_a_node(self, tmp_path):
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(NodeError, match="the suite runs with 99"):
            cluster.work(tmp_path, suite().jobs()[0], 1, ("99", None))

    def test_without_ray(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(bs.InputError, match=r"pip install 'bellsketch\[cluster\]'"), cluster.cluster(None):
            pass


COMMAND = [sys.executable, "-m", "bellsketch", "suite"]


class TestCommand:
    @pytest.mark.slow
    def test_stopped_and_resumed(self, tmp_path):
        """Ctrl-C lets jobs save themselves; another suite is refused meanwhile; resume does the rest."""
        out = tmp_path / "suite"
        file = tmp_path / "mine.toml"
        options = "\n".join(f"{key} = {value}" for key, value in LONG.items() if key != "frames")
        file.write_text(
            f'agents = ["dqn"]\nenvironments = ["Catch-bsuite"]\nframes = 60_000\ncheckpoint_seconds = 1000\n'
            f"[options]\n{options}"
        )
        process = subprocess.Popen([*COMMAND, str(file), "--out", str(out)], stderr=subprocess.PIPE, text=True)
        records = out / "runs" / "Catch-bsuite--dqn--0" / "records.csv"
        while not records.exists() and process.poll() is None:
            time.sleep(0.1)
        second = subprocess.run([*COMMAND, "resume", str(out)], capture_output=True, text=True)
        assert second.returncode == 2
        assert "another run is at work there" in second.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert f"bellsketch suite resume {out} goes on" in process.stderr.read()
        before = len(records.read_text().splitlines())
        shown = subprocess.run([*COMMAND, "status", str(out)], capture_output=True, text=True).stdout
        assert "1 waiting" in shown
        assert "Nobody works on it" in shown
        assert checkpoint(records.parent) == int(records.read_text().splitlines()[-1].split(",")[1])
        resumed = subprocess.run([*COMMAND, "resume", str(out)], capture_output=True, text=True)
        assert resumed.returncode == 0, resumed.stderr
        assert "1 done" in resumed.stdout
        assert len(records.read_text().splitlines()) > before

    def test_unreachable_cluster(self, tmp_path):
        command = [*COMMAND, "minatar", "--address", "127.0.0.1:1", "--out", str(tmp_path / "suite")]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert process.returncode == 2
        assert "no Ray cluster answers there" in process.stderr
        assert not (tmp_path / "suite" / "jobs").exists()
