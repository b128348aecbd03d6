"""Runs that were stopped, however it happened, end with the records of runs that were not."""

import dataclasses
import itertools
import json
import shutil
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import bellsketch as bs
import tiny
import toy_environments
from bellsketch.cli import main
from bellsketch.deep import run_directory
from bellsketch.deep.checkpoint import Checkpoints
from bellsketch.deep.environments import returns as returns_module
from bellsketch.deep.run import load_run, read_returns, run_training, train
from bellsketch.deep.run_directory import TrainingDirectory
from bellsketch.deep.setup import set_up
from bellsketch.deep.training import training

pytestmark = [
    pytest.mark.usefixtures("quick_compiles"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium"),
]

TABLES = ("records.csv", "evaluations.csv")
LONG = {"frames": 2_000, "records": 40, "evaluations": 8}
"""With a checkpoint at each of so many records there is time to be stopped in."""
# Its rewards do not follow the seed.
gymnasium.register(
    "Unseeded-v0",
    entry_point=toy_environments.Shows,
    kwargs={"space": spaces.Box(0, 1, (2,)), "rewards": lambda _: np.random.default_rng().uniform()},
)
COMMAND = "import sys; from bellsketch.cli import main; sys.exit(main())"


def tables(path):
    return [(path / name).read_bytes() for name in TABLES]


@pytest.fixture(scope="module")
def setup():
    return tiny.setup(seeds=2)


@pytest.fixture(scope="module")
def whole(setup, tmp_path_factory):
    """A run that was never stopped."""
    path = tmp_path_factory.mktemp("whole")
    run_training(setup, path, progress=False)
    return path


@pytest.fixture(autouse=True)
def at_every_record(monkeypatch):
    """However long copying takes."""
    monkeypatch.setattr(run_directory, "COPIES_APART", 0.0)


def stop_after(setup, path, records, *, seconds=0.0):
    """Train for so many records, with checkpoints so many seconds apart; then stop without a word."""
    directory = TrainingDirectory(path, setup.config, seconds=seconds)
    stream = training(setup, directory)
    for _ in itertools.islice(stream, records):
        directory._wait()  # where a checkpoint is still being written the next is left out
    stream.close()
    directory.release()


class TestStopped:
    @pytest.mark.parametrize("records", [1, 4])
    def test_goes_on(self, setup, whole, tmp_path, records):
        stop_after(setup, tmp_path, records)
        run = run_training(setup, tmp_path, progress=False)
        assert tables(tmp_path) == tables(whole)
        assert run.frames == 1000
        expected = load_run(whole, setup)
        for a, b in zip(jax.tree.leaves(run.networks), jax.tree.leaves(expected.networks), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_before_any_checkpoint(self, setup, whole, tmp_path):
        stop_after(setup, tmp_path, 4, seconds=1e9)
        assert not (tmp_path / "checkpoints").exists()
        run_training(setup, tmp_path, progress=False)
        assert tables(tmp_path) == tables(whole)

    def test_what_was_recorded_after_the_checkpoint_is_made_again(self, setup, whole, tmp_path):
        stop_after(setup, tmp_path, 3)
        later = {"records.csv": "0,640,135,0.01,20,-0.4,0.04", "evaluations.csv": "seed,frames,x\n0,640,4,-0.5"}
        for name, line in {**later, "times.csv": "640,2000.0"}.items():
            with (tmp_path / name).open("a") as file:  # as if there had been more, the last line in part
                file.write(f"{line}\n{line[:5]}")
        run_training(setup, tmp_path, progress=False)
        assert tables(tmp_path) == tables(whole)
        frames = [int(line.split(",")[0]) for line in (tmp_path / "times.csv").read_text().splitlines()[1:]]
        assert frames == [100, 280, 460, 640, 820, 1000]

    def test_between_the_last_checkpoint_and_its_networks(self, setup, whole, tmp_path, monkeypatch):
        directory = TrainingDirectory(tmp_path, setup.config)

        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(directory._networks, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            list(training(setup, directory))
        directory.release()
        assert Checkpoints(tmp_path / "checkpoints").steps() == [1000]
        run = run_training(setup, tmp_path, progress=False)
        assert run.frames == 1000
        assert tables(tmp_path) == tables(whole)

    def test_when_it_was_done(self, setup, whole, tmp_path):
        shutil.copytree(whole, tmp_path / "run")
        before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run" / "checkpoints").rglob("*")}
        run = run_training(setup, tmp_path / "run", progress=False)
        assert run.frames == 1000
        assert tables(tmp_path / "run") == tables(whole)
        assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "run" / "checkpoints").rglob("*")}

    def test_when_it_was_done_and_checkpoints_were_deleted(self, setup, whole, tmp_path):
        shutil.copytree(whole, tmp_path / "run")
        shutil.rmtree(tmp_path / "run" / "checkpoints")
        assert run_training(setup, tmp_path / "run", progress=False).frames == 1000
        assert tables(tmp_path / "run") == tables(whole)

    def test_on_the_host(self, tmp_path):
        """Another vector of environments, which goes on where the one before was."""

        def toy():
            return tiny.setup(environment="gym:Mixed-v0", frames=400, records=3, evaluations=1)

        run_training(toy(), tmp_path / "whole", progress=False)
        stop_after(toy(), tmp_path / "stopped", 2)
        run_training(toy(), tmp_path / "stopped", progress=False)
        assert tables(tmp_path / "stopped") == tables(tmp_path / "whole")


class TestInterrupted:
    @pytest.fixture(autouse=True)
    def here(self):
        if threading.current_thread() is not threading.main_thread():
            pytest.skip("signals arrive elsewhere")

    def interrupt(self, setup, path, monkeypatch, where):
        """Ctrl-C right after the first record was appended, or its checkpoint passed over."""
        directory = TrainingDirectory(path, setup.config, seconds=1e9)
        original = getattr(directory, where)

        def interrupted(*arguments, **options):
            original(*arguments, **options)
            monkeypatch.setattr(directory, where, original)
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(directory, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(training(setup, directory))
        directory.release()
        return Checkpoints(path / "checkpoints").steps()

    @pytest.mark.parametrize("where", ["append", "checkpoint"])
    def test_waits_for_a_record_with_a_checkpoint(self, setup, whole, tmp_path, monkeypatch, where):
        before = signal.getsignal(signal.SIGINT)
        assert self.interrupt(setup, tmp_path, monkeypatch, where) == [280]
        assert signal.getsignal(signal.SIGINT) is before
        run_training(setup, tmp_path, progress=False)
        assert tables(tmp_path) == tables(whole)


class TestDamage:
    def damage(self, path, step):
        largest = max((path / "checkpoints" / f"{step:012d}").rglob("*"), key=lambda file: file.stat().st_size)
        largest.write_bytes(largest.read_bytes()[:-10])

    def test_the_checkpoint_before_is_used(self, setup, whole, tmp_path):
        stop_after(setup, tmp_path, 4)
        assert Checkpoints(tmp_path / "checkpoints").steps() == [460, 640]
        self.damage(tmp_path, 640)
        with pytest.warns(bs.BellsketchWarning, match=r"000640.* bytes, not \d+; going on from step 460"):
            run = run_training(setup, tmp_path, progress=False, checkpoint_seconds=0.0)
        assert run.frames == 1000
        assert tables(tmp_path) == tables(whole)
        assert max(Checkpoints(tmp_path / "checkpoints").steps()) == 1000

    def test_no_checkpoint_is_left(self, setup, tmp_path):
        stop_after(setup, tmp_path, 3)
        before = (tmp_path / "records.csv").read_bytes()
        for step in (280, 460):
            self.damage(tmp_path, step)
        with pytest.raises(bs.InputError, match=r"no checkpoint there is intact \(.*000460.*000280.*\); put the files"):
            run_training(setup, tmp_path, progress=False)
        assert (tmp_path / "records.csv").read_bytes() == before
        assert not (tmp_path / "run.lock").exists()

    def test_checkpoints_are_gone(self, setup, tmp_path):
        """Nothing is begun again, or deleted, without a word."""
        stop_after(setup, tmp_path, 3)
        assert run_directory.has_checkpoint(tmp_path)
        shutil.rmtree(tmp_path / "checkpoints")
        assert not run_directory.has_checkpoint(tmp_path)
        before = (tmp_path / "records.csv").read_bytes()
        with pytest.raises(bs.InputError) as caught:
            run_training(setup, tmp_path, progress=False)
        assert str(caught.value) == (
            f"out={tmp_path}: has networks at frame 460 of a run that is not done, but its checkpoints/, from which it"
            " would go on, has none; put them back from a copy, or train into it with --fresh to begin again"
        )
        assert (tmp_path / "records.csv").read_bytes() == before
        assert load_run(tmp_path, setup).frames == 460
        assert not (tmp_path / "run.lock").exists()
        assert run_training(setup, tmp_path, progress=False, fresh=True).frames == 1000

    def test_networks_are_gone(self, setup, tmp_path):
        """Those of the checkpoint take their place."""
        stop_after(setup, tmp_path, 3)
        before = load_run(tmp_path, setup)
        shutil.rmtree(tmp_path / "networks")
        after = load_run(tmp_path, setup)
        assert after.frames == before.frames == 460
        for a, b in zip(jax.tree.leaves(after.networks), jax.tree.leaves(before.networks), strict=True):
            np.testing.assert_array_equal(a, b)
        shutil.rmtree(tmp_path / "checkpoints")
        with pytest.raises(bs.InputError, match="has no networks yet; let it train until its first checkpoint"):
            load_run(tmp_path, setup)


class TestReturns:
    """Of a run are those that it began with, though random play shows others each time."""

    OPTIONS = tiny.OPTIONS | {"frames": 200, "records": 2, "evaluations": 0, "discount": 0.9}
    COMMAND = ("train", "c51", "gym:Unseeded-v0", *tiny.arguments(**OPTIONS), "--quiet", "--out")

    @pytest.fixture(scope="class")
    @classmethod
    def begun(cls, tmp_path_factory):
        """A run that was stopped after its first checkpoint, and its returns."""
        path = tmp_path_factory.mktemp("begun") / "run"
        setup = tiny.setup("c51", "gym:Unseeded-v0", **cls.OPTIONS)

        def stop(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_training(setup, path, progress=False, checkpoint_seconds=0.0, trackers=[stop])
        return path, setup

    @pytest.fixture
    def run(self, begun, tmp_path):
        """A copy of it."""
        return shutil.copytree(begun[0], tmp_path / "run")

    @pytest.fixture
    def no_probe(self, monkeypatch):
        def fail(*_):
            raise AssertionError("played at random")

        monkeypatch.setattr(returns_module, "random_rewards", fail)

    def test_are_others_each_time(self, begun):
        _, setup = begun
        assert "random" in setup.returns.source
        assert set_up(setup.config).returns != setup.returns

    @pytest.mark.usefixtures("no_probe")
    def test_of_a_run_that_is_loaded(self, begun, run):
        loaded = load_run(run).setup
        assert loaded.returns == begun[1].returns
        assert loaded.agent.summary == begun[1].agent.summary
        assert main(["evaluate", str(run), "--episodes", "1"]) == 0

    @pytest.mark.usefixtures("no_probe")
    def test_of_a_run_that_goes_on(self, begun, run):
        noted = json.loads((run / "config.json").read_text())["found"]
        assert main(["resume", str(run), "--quiet"]) == 0
        assert main([*self.COMMAND, str(run)]) == 0
        again = train("c51", "gym:Unseeded-v0", out=run, progress=False, **self.OPTIONS)
        assert again.frames == 200
        assert again.setup.returns == begun[1].returns
        assert json.loads((run / "config.json").read_text())["found"] == noted

    def test_of_a_run_that_goes_on_with_another_setup(self, begun, run):
        """As a suite does it."""
        other = set_up(begun[1].config)
        assert other.returns != begun[1].returns
        noted = json.loads((run / "config.json").read_text())["found"]
        done = run_training(other, run, progress=False)
        assert (done.frames, done.setup.returns) == (200, begun[1].returns)
        assert json.loads((run / "config.json").read_text())["found"] == noted

    def test_of_a_fresh_run(self, begun, run):
        again = train("c51", "gym:Unseeded-v0", out=run, fresh=True, progress=False, **self.OPTIONS)
        assert again.setup.returns != begun[1].returns
        assert read_returns(run, again.config) == again.setup.returns

    @pytest.mark.slow
    def test_of_a_fresh_run_from_the_command_line(self, begun, run):
        assert main([*self.COMMAND, str(run), "--fresh"]) == 0
        assert read_returns(run, begun[1].config) not in (None, begun[1].returns)

    def test_of_another_run(self, begun, run):
        config = begun[1].config
        assert read_returns(run, config) == begun[1].returns
        assert read_returns(run, dataclasses.replace(config, seed=1)) is None
        assert read_returns(run / "nothing", config) is None

    def test_that_were_not_noted(self, begun, run):
        about = json.loads((run / "config.json").read_text())
        for found in ({"agent": "C51"}, {}):
            (run / "config.json").write_text(json.dumps(about | {"found": found}))
            assert read_returns(run, begun[1].config) is None
        del about["found"]
        (run / "config.json").write_text(json.dumps(about))
        assert read_returns(run, begun[1].config) is None

    @pytest.mark.parametrize("change", [{"low": "x"}, {"low": 1e9}, {"lowest": 0.0}])
    def test_that_make_no_sense(self, begun, run, change):
        about = json.loads((run / "config.json").read_text())
        about["found"]["returns"] |= change
        (run / "config.json").write_text(json.dumps(about))
        with pytest.raises(bs.InputError, match=r"config\.json: found\.returns=.* are no returns .*--fresh"):
            read_returns(run, begun[1].config)


class TestOutput:
    def test_another_configuration_is_refused(self, setup, whole):
        config = tiny.config(seeds=2, learning_rate=0.5, frames=2_000, evaluations=1)
        before = {file.name for file in whole.iterdir()}
        with pytest.raises(bs.InputError) as caught:
            run_training(dataclasses.replace(setup, config=config), whole, progress=False)
        assert str(caught.value) == (
            f"out={whole}: holds another run (training.frames 1000 there, 2000 here; training.learner.learning_rate"
            " 0.001 there, 0.5 here; training.evaluation.evaluations 2 there, 1 here); choose another directory, or"
            " pass --fresh to replace it"
        )
        assert {file.name for file in whole.iterdir()} == before

    def test_fresh(self, setup, whole, tmp_path):
        stop_after(dataclasses.replace(setup, config=tiny.config(seeds=2, frames=300)), tmp_path, 1)
        (tmp_path / "mine.txt").write_text("mine")
        run = run_training(setup, tmp_path, progress=False, fresh=True)
        assert run.frames == 1000
        assert tables(tmp_path) == tables(whole)
        assert (tmp_path / "mine.txt").exists()

    def test_a_file(self, setup, tmp_path):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(bs.InputError, match="is a file; choose a directory"):
            run_training(setup, tmp_path / "file", progress=False)

    def test_somebody_elses(self, setup, tmp_path):
        (tmp_path / "records.csv").write_text("mine")
        with pytest.raises(bs.InputError, match=r"holds records\.csv but no config\.json"):
            run_training(setup, tmp_path, progress=False)
        assert (tmp_path / "records.csv").read_text() == "mine"

    def test_in_use(self, setup, tmp_path):
        directory = TrainingDirectory(tmp_path, setup.config)
        with pytest.raises(bs.InputError, match="another run is at work there"):
            run_training(setup, tmp_path, progress=False)
        directory.release()


def start(*arguments):
    child = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    return child


def wait_for_a_record(child, path):
    """Until there is a new one, or the child has ended. Going on, it may first have to cut them back."""

    def count():
        return (path / "records.csv").read_bytes().count(b"\n") if (path / "records.csv").exists() else 0

    fewest = count()
    while child.poll() is None and count() <= max(fewest, 1):
        fewest = min(fewest, count())
        time.sleep(0.01)


def kill_at_random(environment, path, kills, generator):
    """Begin a run, or go on with one, and kill it; so many times. Returns how often it was still at work."""
    options = ["--checkpoint-seconds", "0", "--quiet"]
    times = 0
    for _ in range(kills):
        words = ["resume", str(path)] if (path / "config.json").exists() else ["train", "dqn", environment]
        if words[0] == "train":
            words += [*tiny.arguments(**LONG), "--out", str(path)]
        child = start(*words, *options)
        wait_for_a_record(child, path)
        time.sleep(generator.uniform(0.0, 1.5))
        child.kill()
        _, message = child.communicate()
        times += child.returncode == -signal.SIGKILL
        assert child.returncode in (0, -signal.SIGKILL), message
    return times


class TestKilled:
    @pytest.mark.slow
    def test_and_interrupted(self, tmp_path):
        """Killed at a random moment; gone on with; Ctrl-C, which waits for a record; and gone on with to the end."""
        setup, path = tiny.setup(**LONG), tmp_path / "stopped"
        assert kill_at_random("Catch-bsuite", path, 1, np.random.default_rng(0)) == 1
        child = start("resume", str(path), "--checkpoint-seconds", "1e9", "--quiet")
        wait_for_a_record(child, path)
        child.send_signal(signal.SIGINT)
        _, message = child.communicate()
        assert child.returncode == 130, message
        assert f"stopped; bellsketch resume {path} goes on" in message
        assert "Traceback" not in message
        last = int((path / "records.csv").read_text().splitlines()[-1].split(",")[1])
        assert Checkpoints(path / "checkpoints").steps()[-1] == last < 2_000
        run_training(setup, path, progress=False)
        run_training(setup, tmp_path / "whole", progress=False)
        assert tables(path) == tables(tmp_path / "whole")

    @pytest.mark.slow
    @pytest.mark.parametrize("environment", ["Catch-bsuite", "gym:CartPole-v1"])
    def test_at_random_moments(self, tmp_path, environment):
        path = tmp_path / "stopped"
        assert kill_at_random(environment, path, 6, np.random.default_rng(1)) >= 3
        run_training(tiny.setup(environment=environment, **LONG), path, progress=False)
        run_training(tiny.setup(environment=environment, **LONG), tmp_path / "whole", progress=False)
        assert tables(path) == tables(tmp_path / "whole")

    @pytest.mark.slow
    def test_a_second_interrupt_does_not_wait(self, tmp_path):
        child = start("train", "dqn", "Catch-bsuite", *tiny.arguments(frames=10**8, records=2), "--out", str(tmp_path))
        wait_for_a_record(child, tmp_path)
        for _ in range(2):
            time.sleep(1.0)
            child.send_signal(signal.SIGINT)
        try:
            _, message = child.communicate(timeout=60)
        finally:
            child.kill()
        assert child.returncode == 130, message
        assert f"stopped; bellsketch resume {tmp_path} begins again, as there is no checkpoint yet" in message
        assert not (tmp_path / "run.lock").exists()


class TestBeside:
    """Checkpoints are written while the run goes on."""

    def test_what_is_saved_is_what_was_there(self, setup, tmp_path, monkeypatch):
        """Though the run has written over its state before anything was saved."""
        directory = TrainingDirectory(tmp_path, setup.config, seconds=1e6)
        stream = training(setup, directory)
        now = next(stream)
        expected = jax.tree.map(lambda x: np.array(x), now.state.replay)
        save, later = directory._save, threading.Event()
        monkeypatch.setattr(directory, "_save", lambda *given: later.wait() and save(*given))
        directory._last_save = -1e9
        directory.checkpoint(setup, now.state, now=False)
        assert next(stream).frames > now.frames
        assert not Checkpoints(tmp_path / "checkpoints").steps()
        later.set()
        directory.release()
        step, state, _ = Checkpoints(tmp_path / "checkpoints").restore(setup.shape())
        assert step == now.frames
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(state.replay), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_nobody_waits_for_a_slow_disk(self, setup, tmp_path, monkeypatch):
        directory = TrainingDirectory(tmp_path, setup.config, seconds=0.0)
        save, later, saved = directory._save, threading.Event(), []
        monkeypatch.setattr(directory, "_save", lambda *given: later.wait() and (saved.append(given[0]), save(*given)))
        stream = training(setup, directory)
        frames = [p.frames for p in itertools.islice(stream, 5)]
        stream.close()
        later.set()
        directory.release()
        assert saved == frames[:1]

    def test_what_goes_wrong_is_said(self, setup, tmp_path, monkeypatch):
        directory = TrainingDirectory(tmp_path, setup.config, seconds=0.0)

        def fail(*_):
            raise OSError("the disk is full")

        monkeypatch.setattr(directory._checkpoints, "save", fail)
        with pytest.raises(OSError, match="the disk is full"):
            list(training(setup, directory))
        directory.release()

    def test_a_large_state_is_copied_less_often(self, setup, tmp_path, monkeypatch):
        monkeypatch.setattr(run_directory, "COPIES_APART", 1e9)
        stop_after(setup, tmp_path, 5)
        assert Checkpoints(tmp_path / "checkpoints").steps() == [100]
