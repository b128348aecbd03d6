"""What is shown of a run, or sent elsewhere, while it goes on."""

import importlib.machinery
import sys
import time
import types

import pytest

import bellsketch as bs
import tiny
from bellsketch.deep import trackers
from bellsketch.deep.loops.loop import LoopState
from bellsketch.deep.progress import describe, progress_line
from bellsketch.deep.training import Progress


def progress(**changes):
    records = [
        {"seed": 4, "mean_return": 1.0, "loss": 0.5, "epsilon": 0.25, "episodes": 3},
        {"seed": 5, "mean_return": 2.0, "loss": 0.25, "epsilon": 0.25, "episodes": 2},
    ]
    values = {"records": records, "evaluations": [], "frames_per_second": 12_345.6} | changes
    return Progress(1_500, 200_000, **values, state=object.__new__(LoopState))


class TestProgress:
    def test_line(self):
        line = describe(progress())
        assert line == "1.5k/200k frames 12.3k/s  return 1.5  loss 0.375  ε 0.25"

    def test_line_of_what_is_not_known_yet(self):
        rows = progress().records
        rows[0]["mean_return"] = float("nan")
        assert "return 2 " in describe(progress(records=rows))
        rows[1]["mean_return"] = float("nan")
        assert "return – " in describe(progress(records=rows))

    def test_is_shown_on_stderr_or_not_at_all(self, capsys):
        for shown in (True, False):
            with progress_line(shown) as show:
                show(progress())
            out, err = capsys.readouterr()
            assert out == ""
            assert ("1.5k/200k" in err) == shown


class TestTrackers:
    def test_scalars(self):
        found = trackers.scalars(progress(evaluations=[{"seed": 4, "mean_return": 7.0}]))
        assert found["mean_return/seed_4"] == 1.0
        assert found["loss/seed_5"] == 0.25
        assert found["evaluation/seed_4"] == 7.0
        assert found["frames_per_second"] == 12_345.6
        assert len(found) == 2 * 4 + 1 + 1

    @pytest.mark.parametrize("module", ["tensorboardX", "wandb"])
    def test_what_is_not_installed(self, module, monkeypatch, tmp_path):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        make = {
            "tensorboardX": lambda: trackers.tensorboard_tracker(tmp_path),
            "wandb": lambda: trackers.wandb_tracker(tiny.config(), tmp_path),
        }
        with pytest.raises(bs.InputError, match=f"pip install {module}"):
            make[module]()

    def test_tensorboard(self, tmp_path):
        pytest.importorskip("tensorboardX")
        track = trackers.tensorboard_tracker(tmp_path / "run" / "tensorboard")
        assert not list(tmp_path.iterdir())  # the run has yet to claim it
        track(progress())
        track(progress())
        (file,) = (tmp_path / "run" / "tensorboard").iterdir()
        deadline = time.monotonic() + 10  # another thread writes it, a little later
        while b"mean_return/seed_4" not in file.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def test_wandb(self, monkeypatch, tmp_path):
        """With something in its place: it may not be installed, and would ask for an account."""
        started, logged = [], []

        def init(**given):
            started.append(given)
            return types.SimpleNamespace(log=lambda values, step: logged.append((values, step)))

        fake = types.ModuleType("wandb")
        fake.init, fake.__spec__ = init, importlib.machinery.ModuleSpec("wandb", None)
        monkeypatch.setitem(sys.modules, "wandb", fake)
        config = tiny.config()
        track = trackers.wandb_tracker(config, tmp_path)
        assert not started  # nor anything written: the run has yet to claim its directory
        assert not list(tmp_path.iterdir())
        track(progress())
        track(progress(frames_per_second=1.0))
        (given,) = started
        name = (tmp_path / "wandb_id").read_text()
        assert given == {
            "project": "bellsketch",
            "config": config.plain(),
            "dir": str(tmp_path),
            "resume": "allow",
            "id": name,
        }
        assert name
        assert [step for _, step in logged] == [1_500, 1_500]
        assert logged[0][0] == trackers.scalars(progress())
        assert logged[1][0]["frames_per_second"] == 1.0
        trackers.wandb_tracker(config, tmp_path)(progress())  # of a run that goes on
        assert started[1] == given
