"""What a suite's directory says of its jobs, without anybody running them."""

import json
import time

import pytest

import bellsketch as bs
import tiny
from bellsketch.deep.run import run_training
from bellsketch.experiments.suite import directory as directories
from bellsketch.experiments.suite.directory import JobStatus, SuiteDirectory, open_suite
from bellsketch.experiments.suite.jobs import Progress
from bellsketch.experiments.suite.plan import disk_bytes, estimates
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_table
from bellsketch.experiments.suite.summary import summarise

TABLE = {
    "name": "tiny",
    "agents": ["dqn"],
    "environments": ["Catch-bsuite"],
    "seeds": 3,
    "options": {key: value for key, value in tiny.OPTIONS.items() if key != "frames"},
    "frames": tiny.OPTIONS["frames"],
}


@pytest.fixture
def suite():
    return read_table(TABLE, PRESETS)


@pytest.fixture
def directory(tmp_path, suite):
    return SuiteDirectory(tmp_path / "suite", suite)


def states(directory):
    return [status.state for status in directory.status()]


class TestStatus:
    def test_before_anything(self, directory):
        assert states(directory) == ["waiting"] * 3
        assert not directory.is_driven()

    @pytest.mark.slow
    def test_from_the_directory_alone(self, directory):
        directory.claim().release()
        done, failed, running = directory.jobs
        run_training(tiny.setup(seed=0), directory.run_path(done), progress=False)
        for job in (failed, running):
            directory.submit(job)
        directory.fail(failed, "it broke", final=True)
        directory.start(running, 1)
        directory.beat()
        seen = {status.job.name: status for status in open_suite(directory.path).status()}
        assert [seen[job.name].state for job in directory.jobs] == ["done", "failed", "running"]
        assert seen[failed.name].error == "it broke"
        assert seen[done.name].progress.done == seen[done.name].progress.total == 1000
        summary = summarise(list(seen.values()))
        # Nobody waits for what has failed, and the one that runs is taken to be as fast as the one before it.
        assert (summary.counts["done"], summary.done, summary.total) == (1, 1000, 2000)
        assert summary.per_second == pytest.approx(seen[done.name].progress.per_second)
        assert summary.seconds_left == pytest.approx(1000 / summary.per_second)

    def test_time_left_of_cells_that_differ(self):
        """A hundred cells are done, half of them in no time, and a hundred are left, two at a time."""
        job = read_table({"experiment": "fig4"}, PRESETS).jobs()[0]
        done = [JobStatus(job, "done", Progress(1, 1, 1 / seconds)) for seconds in [0.01, 100] * 50]
        running, waiting = (JobStatus(job, state, Progress(0, 1, 0)) for state in ("running", "waiting"))
        left = summarise([*done, running, running, *[waiting] * 98]).seconds_left
        assert left == pytest.approx(100 * (50 * 100.01 / 100) / 2)

    def test_a_driver_that_died_runs_nothing(self, directory, monkeypatch):
        directory.claim().release()
        directory.start(directory.jobs[0], directory.submit(directory.jobs[0]))
        directory.beat()
        assert states(directory)[0] == "running"
        late = time.time() + 2 * directories.SILENCE
        monkeypatch.setattr(directories.time, "time", lambda: late)
        assert states(directory)[0] == "waiting"

    def test_an_attempt_of_before_is_not_the_one_now(self, directory):
        directory.claim().release()
        job = directory.jobs[0]
        directory.start(job, directory.submit(job))
        assert directory.submit(job) == 2
        directory.beat()
        assert states(directory)[0] == "waiting"

    def test_errors_are_kept(self, directory):
        directory.claim().release()
        job = directory.jobs[0]
        for error in ("one", "two"):
            directory.submit(job)
            directory.fail(job, error, final=error == "two")
        kept = json.loads((directory.path / "jobs" / f"{job.name}.json").read_text())
        assert kept == {"state": "failed", "attempt": 2, "errors": ["one", "two"]}


class TestClaim:
    def test_two_suites_refuse_each_other(self, directory, suite):
        claimed = directory.claim()
        with pytest.raises(bs.InputError, match="another run is at work there"):
            SuiteDirectory(directory.path, suite).claim()
        claimed.release()
        other = read_table(TABLE | {"frames": 2_000}, PRESETS)
        with pytest.raises(bs.InputError, match=r"suite\.frames 1000 there, 2000 here"):
            SuiteDirectory(directory.path, other).claim()

    def test_how_it_runs_may_change(self, directory):
        directory.claim().release()
        other = read_table(TABLE | {"resources": {"cores": 2}, "checkpoint_seconds": 7}, PRESETS)
        SuiteDirectory(directory.path, other).claim().release()
        found = open_suite(directory.path).suite
        assert (found.resources.cores, found.checkpoint_seconds) == (2, 7)

    def test_another_commit_is_warned_of(self, directory, monkeypatch):
        directory.claim().release()
        config = json.loads((directory.path / "config.json").read_text())
        (directory.path / "config.json").write_text(json.dumps(config | {"commit": "another"}))
        with pytest.raises(bs.BellsketchWarning, match="was begun at commit another"):
            directory.claim()

    def test_other_versions_are_refused(self, directory):
        directory.claim().release()
        config = json.loads((directory.path / "config.json").read_text())
        (directory.path / "config.json").write_text(json.dumps(config | {"bellsketch": "0.0.1"}))
        with pytest.raises(bs.InputError, match=r"bellsketch 0\.0\.1 there"):
            directory.claim()
        (directory.path / "config.json").write_text(json.dumps(config | {"format": 0}))
        with pytest.raises(bs.InputError, match="in format 0, and this version reads format 1"):
            open_suite(directory.path)

    @pytest.mark.parametrize("text", ["{", "[]", '{"training": {}}'])
    def test_what_is_no_suite(self, tmp_path, text):
        with pytest.raises(bs.InputError, match=r"has no config\.json"):
            open_suite(tmp_path)
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(bs.InputError, match="not the config of a suite"):
            open_suite(tmp_path)


class TestPlan:
    def test_hours_at_a_given_rate(self, directory):
        (estimate,) = estimates(directory, 0.5)
        assert (estimate.jobs, estimate.frames) == (3, 3_000)
        assert estimate.hours == pytest.approx(3_000 / 0.5 / 3600)

    def test_rate_of_its_own_runs(self, directory):
        job = directory.jobs[0]
        run_training(tiny.setup(seed=0), directory.run_path(job), progress=False)
        (estimate,) = estimates(directory)
        assert (estimate.jobs, estimate.frames, estimate.rate.source) == (2, 2_000, "runs of this suite")
        assert estimate.rate.frames_per_second == job.progress(directory.run_path(job)).per_second

    def test_unknown_rates_are_not_made_up(self, directory):
        (estimate,) = estimates(directory)
        assert estimate.rate is None
        assert estimate.hours != estimate.hours

    @pytest.mark.parametrize(("name", "device"), [("minatar", "cpu"), ("atari57", "gpu")])
    def test_measured_rates_come_with_the_library(self, tmp_path, name, device):
        found = estimates(SuiteDirectory(tmp_path, PRESETS[name]))
        assert {estimate.setting for estimate in found} == {"sketch_dqn", "dqn", "c51", "qr_dqn", "iqn"}
        for estimate in found:
            assert estimate.rate.device == device
            assert estimate.hours == pytest.approx(estimate.frames / estimate.rate.frames_per_second / 3_600)

    def test_disk(self, directory):
        running, kept = disk_bytes(directory.jobs, 2)
        replay = 2_000 * (10 * 5 * 4 + 14)  # a frame of Catch, and 14 bytes of what happened
        assert 2 * 3 * replay < running < 2 * 3 * (replay + 4e6)
        run_training(tiny.setup(seed=0), directory.run_path(directory.jobs[0]), progress=False)
        directory.jobs[0].run(directory.run_path(directory.jobs[0]), 100.0)
        assert not (directory.run_path(directory.jobs[0]) / "checkpoints").exists()
        real = sum(file.stat().st_size for file in directory.run_path(directory.jobs[0]).rglob("*") if file.is_file())
        assert kept / 3 / 3 < real < kept  # networks are compressed
