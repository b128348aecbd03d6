"""Evaluations of environments on the host, beside training."""

import itertools
import threading
import time

import jax
import pandas as pd
import pytest

import tiny
import toy_environments  # noqa: F401, registers them
from bellsketch.deep import run_directory
from bellsketch.deep.checkpoint import Checkpoints
from bellsketch.deep.run import run_training
from bellsketch.deep.run_directory import TrainingDirectory
from bellsketch.deep.training import training

pytestmark = [
    pytest.mark.usefixtures("quick_compiles"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium"),  # it checks toys with much care
]


def toy(name="CutOff-v0", **options):
    return tiny.setup("dqn", f"gym:{name}", discount=0.99, **options)


class TestBeside:
    def slow(self, setup, monkeypatch):
        """An evaluation that goes on until it is let go."""
        runner, go = setup.runner, threading.Event()
        evaluate = type(runner).evaluate

        def wait(self, *given):
            go.wait()
            return evaluate(self, *given)

        monkeypatch.setattr(type(runner), "evaluate", wait)
        return go

    def test_frames_a_second_count_what_was_waited_for(self, monkeypatch):
        """By the record after it."""
        monkeypatch.setattr("bellsketch.deep.training._wait", lambda *_: time.sleep(0.5))
        *_, before, last = training(toy(frames=400, records=3, evaluations=3))
        assert last.frames - before.frames == 100
        assert 0 < last.frames_per_second <= 100 / 0.5

    def test_the_run_goes_on_and_the_evaluation_is_of_its_own_networks(self, monkeypatch, tmp_path):
        """With no checkpoint after which it could not be made again."""
        options = {"frames": 400, "records": 6, "evaluations": 2}
        expected = run_training(toy("CutOff-v0", **options), progress=False).evaluations
        setup = toy("CutOff-v0", **options)
        go = self.slow(setup, monkeypatch)
        monkeypatch.setattr(run_directory, "COPIES_APART", 0.0)
        directory = TrainingDirectory(tmp_path, setup.config, seconds=0.0)
        stream, first = training(setup, directory), []
        for progress in itertools.islice(stream, 6):
            first.append(progress)
            directory._wait()  # where a checkpoint is still being written the next is left out
        assert [row for p in first for row in p.evaluations] == []
        # The last checkpoint is that of the networks under evaluation: of later states it could not be made again.
        assert max(Checkpoints(tmp_path / "checkpoints").steps()) == expected["frames"].min() < first[-1].frames
        go.set()
        rows = [row for p in stream for row in p.evaluations]
        directory.release()
        pd.testing.assert_frame_equal(pd.DataFrame(rows), expected)

    def test_one_that_a_crash_interrupts_is_made_again(self, monkeypatch, tmp_path):
        """Whether or not it was done when the run was killed; and where they never stop, checkpoints go on."""
        options = {"frames": 400, "records": 4, "evaluations": 4}
        whole = run_training(toy("CutOff-v0", **options), tmp_path / "whole", progress=False)
        monkeypatch.setattr(run_directory, "COPIES_APART", 0.0)
        saved = {}
        for done in (False, True):
            setup, out = toy("CutOff-v0", **options), tmp_path / str(done)
            with monkeypatch.context() as patch:
                go = self.slow(setup, patch)
                directory = TrainingDirectory(out, setup.config, seconds=0.0)
                stream = training(setup, directory)
                for _ in range(2):
                    next(stream)
                    directory._wait()
                go.set()
                if done:  # the next record finds it done, and is lost
                    monkeypatch.setattr(directory, "checkpoint", lambda *_, **__: None)
                    next(stream)
                stream.close()
                directory.release()
            saved[done] = Checkpoints(out / "checkpoints").steps()[-1]
            run = run_training(toy("CutOff-v0", **options), out, progress=False)
            for name in ("records", "evaluations"):
                pd.testing.assert_frame_equal(getattr(run, name), getattr(whole, name))
        assert saved == dict.fromkeys((False, True), whole.records["frames"][1])

    def test_on_the_device_of_the_run(self, monkeypatch):
        setup, seen = toy("CutOff-v0", frames=200, records=1, evaluations=1), []
        evaluate = type(setup.runner).evaluate

        def watch(*given):
            seen.append(jax.config.jax_default_device)
            return evaluate(*given)

        monkeypatch.setattr(type(setup.runner), "evaluate", watch)
        with jax.default_device(jax.devices("cpu")[0]):
            list(training(setup))
        assert seen == [jax.devices("cpu")[0]]

    def test_what_goes_wrong_in_it_ends_the_run(self, monkeypatch):
        setup = toy("CutOff-v0", frames=400, records=6, evaluations=2)

        def fail(*_):
            raise OSError("no more environments")

        monkeypatch.setattr(type(setup.runner), "evaluate", fail)
        with pytest.raises(OSError, match="no more environments"):
            list(training(setup))

    def test_a_run_that_fails_does_not_wait_for_it(self, monkeypatch):
        setup = toy("CutOff-v0", frames=2_000, records=3, evaluations=3, evaluation_episodes=1)
        monkeypatch.setattr("bellsketch.deep.evaluation.MAX_STEPS", 10**9)
        monkeypatch.setattr("bellsketch.deep.evaluation.Episodes.after", lambda self, step: self)  # it never ends
        stream = training(setup)
        for _ in range(2):
            next(stream)
        stream.close()
