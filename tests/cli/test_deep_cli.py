"""Training agents from the command line, and looking at what they learnt."""

import ast
import importlib
import inspect
import itertools
import json
import shutil
import subprocess
import sys

import jax
import matplotlib.image
import numpy as np
import pytest
from PIL import Image

import bellsketch as bs
import bellsketch.cli
import tiny
from bellsketch.cli import COMMANDS, main
from bellsketch.cli.training import Running
from bellsketch.deep.config import (
    AgentConfig,
    EvaluationConfig,
    HostConfig,
    LearnerConfig,
    LoopConfig,
    ReturnsConfig,
)
from bellsketch.deep.loops.fused import FusedRunner
from bellsketch.deep.playing import _drawing
from bellsketch.deep.presets import PRESETS
from bellsketch.deep.run import load_run

pytestmark = pytest.mark.usefixtures("quick_compiles")

DEEP = ("train", "resume", "evaluate", "play", "plot", "suite", "report")
TRAIN = ["train", "dqn", "Catch-bsuite", *tiny.arguments(seeds=2)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("runs") / "catch"
    assert main([*TRAIN, "--out", str(path)]) == 0
    return path


@pytest.fixture
def copy(run, tmp_path):
    """One to do as one likes with."""
    return shutil.copytree(run, tmp_path / "copy")


def words(capsys):
    """What was printed, to stdout and to stderr, without line breaks."""
    return tuple(" ".join(text.split()) for text in capsys.readouterr())


class TestTrain:
    def test_leaves_all_of_a_run(self, run):
        assert {file.name for file in run.iterdir()} == {
            "config.json", "records.csv", "evaluations.csv", "times.csv", "figure.png", "networks", "checkpoints",
        }  # fmt: skip
        about = json.loads((run / "config.json").read_text(encoding="utf-8"))
        assert about["found"]["returns"]["rewards"] == [-1.0, 0.0, 1.0]
        assert about["training"] == tiny.config(seeds=2).plain()
        assert {"jax", "equinox", "gymnax", "optax"} <= set(about["versions"])
        assert matplotlib.image.imread(run / "figure.png").std() > 0.01

    def test_says_what_it_does(self, capsys, copy):
        assert main([*TRAIN, "--out", str(copy)]) == 0  # it is done already
        out, err = words(capsys)
        assert err.startswith("Catch-bsuite: returns in [-1, 1], rewards -1, 0, 1 (rewards known for Catch-bsuite;")
        last = load_run(copy).evaluations.iloc[-2:]["mean_return"]
        assert f"1,000 frames; mean return {last.mean():.2f} (seeds from {last.min():.2f} to {last.max():.2f})" in out
        assert out.endswith(f"picture: {copy}")

    def test_quietly(self, capsys, copy):
        assert main([*TRAIN, "--out", str(copy), "--quiet"]) == 0
        assert words(capsys)[1] == ""

    def test_what_is_finished_is_not_done_again(self, capsys, copy, monkeypatch):
        def refuse(*_):
            raise AssertionError

        monkeypatch.setattr(FusedRunner, "explore", refuse)
        monkeypatch.setattr(FusedRunner, "advance", refuse)
        before = (copy / "records.csv").read_bytes()
        assert main(["resume", str(copy), "--quiet"]) == 0
        assert "1,000 frames; mean return" in words(capsys)[0]
        assert (copy / "records.csv").read_bytes() == before

    def test_another_configuration(self, capsys, copy):
        assert main([*TRAIN, "--batch-size", "16", "--discount", "0.9", "--out", str(copy)]) == 2
        _, err = words(capsys)
        assert "holds another run" in err
        assert "training.loop.batch_size 64 there, 16 here; training.loop.discount 0.99 there, 0.9 here" in err
        assert "--fresh" in err

    def test_trackers(self, tmp_path):
        """In a directory that is new."""
        pytest.importorskip("tensorboardX")
        assert main([*TRAIN, "--out", str(tmp_path / "run"), "--tensorboard", "--quiet"]) == 0
        assert list((tmp_path / "run" / "tensorboard").iterdir())

    def test_where_runs_go_by_default(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        called = {}
        monkeypatch.setattr(Running, "__call__", lambda self, config, out, **_: called.update(out=out))
        assert main(["train", "c51", "gym:ALE/Pong-v5", "--seed", "4"]) == 0
        assert called["out"].as_posix() == "runs/train/c51-gym-ALE-Pong-v5-4"


class TestEvaluate:
    def test_json(self, capsys, run):
        assert main(["evaluate", str(run), "--episodes", "3", "--seed", "5", "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert (record["agent"], record["environment"]) == ("dqn", "Catch-bsuite")
        assert (record["frames"], record["episodes"], record["unfinished"]) == (1000, 6, 0)
        assert -1 <= record["mean_return"] <= 1
        assert record["mean_return"] == pytest.approx(np.mean([row["mean_return"] for row in record["seeds"]]))
        played = load_run(run).evaluate(3, seed=5)
        assert [row["mean_return"] for row in record["seeds"]] == pytest.approx(played.returns.mean(axis=1))
        assert [row["seed"] for row in record["seeds"]] == [0, 1]
        assert [row["mean_length"] for row in record["seeds"]] == [9.0, 9.0]

    def test_table_and_picture(self, capsys, run, tmp_path):
        picture = tmp_path / "deep" / "seen.png"
        assert main(["evaluate", str(run), "--distributions", str(picture), "--at-step", "2"]) == 0
        out, _ = words(capsys)
        assert "dqn on Catch-bsuite after 1,000 frames: mean return" in out
        assert "over 8 episodes" in out
        assert matplotlib.image.imread(picture).std() > 0.01

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--frames", "100"], "frames=100: 'Catch-bsuite' plays whole episodes"),
            (["--frames", "100", "--episodes", "3"], "episodes=3 and frames=100: pass one of them"),
        ],
    )
    def test_frames(self, capsys, run, more, message):
        assert main(["evaluate", str(run), *more]) == 2
        assert message in words(capsys)[1]

    def test_a_step_that_there_is_not(self, capsys, run, tmp_path):
        arguments = ["evaluate", str(run), "--distributions", str(tmp_path / "x.png"), "--at-step", "9"]
        assert main(arguments) == 2
        assert "at_step=9: the episode ended before" in words(capsys)[1]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--at-step", "-1"], "at_step=-1: steps are counted from 0"),
            (["--episodes", "0"], "error: episodes=0: must be at least 1"),
            (["--distributions", "seen.foo"], "distributions=seen.foo: its ending says what kind of picture it is"),
        ],
    )
    def test_what_makes_no_sense_is_said_before_it_plays(self, capsys, run, monkeypatch, options, message):
        monkeypatch.setattr("bellsketch.deep.run.Run.evaluate", None)
        assert main(["evaluate", str(run), *options]) == 2
        assert message in words(capsys)[1]


class TestPlay:
    @pytest.mark.parametrize(("options", "frames"), [([], 9), (["--max-steps", "3", "--seed-index", "1"], 3)])
    def test_gif(self, capsys, run, tmp_path, options, frames):
        film = tmp_path / "deep" / "film.gif"
        assert main(["play", str(run), "--video", str(film), *options]) == 0
        assert words(capsys)[0] == f"{frames} steps: {film}"
        with Image.open(film) as image:
            assert (image.format, image.n_frames) == ("GIF", frames)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--video", "film.avi"], "video=film.avi: choose a name that ends in .gif or .mp4"),
            (["--max-steps", "0"], "max_steps=0"),
            (["--frames-per-second", "0"], "frames_per_second=0"),
            (["--seed-index", "2"], "seed_index=2: the run has 2 seeds, counted from 0"),
        ],
    )
    def test_what_makes_no_sense(self, capsys, copy, tmp_path, monkeypatch, options, message):
        monkeypatch.chdir(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        assert main(["play", str(copy), *options]) == 2
        assert message in words(capsys)[1]
        assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.parametrize(
        ("problem", "said"), [(NotImplementedError(), "(NotImplementedError)"), (OSError("no display"), "(no display)")]
    )
    def test_environments_that_do_not_draw_themselves(self, problem, said):
        def make(render):
            raise problem

        with pytest.warns(bs.BellsketchWarning) as caught:
            assert _drawing(make, "Shows-v0") is None
        assert f"environment 'Shows-v0' does not draw itself {said}: what the network" in str(caught[0].message)

    def test_films_that_need_ffmpeg(self, capsys, run, tmp_path, monkeypatch):
        monkeypatch.setattr("matplotlib.animation.writers.is_available", lambda name: False)
        assert main(["play", str(run), "--video", str(tmp_path / "film.mp4")]) == 2
        assert "ffmpeg is not installed; choose a name that ends in .gif" in words(capsys)[1]


class TestPlot:
    def test_several_runs(self, capsys, run, copy, tmp_path, monkeypatch):
        drawn = []
        plot_runs = importlib.import_module("bellsketch.cli.plot").plot_runs
        monkeypatch.setattr("bellsketch.cli.plot.plot_runs", lambda runs: drawn.append(plot_runs(runs)) or drawn[0])
        assert main(["plot", *[str(run), str(copy)] * 6, "--out", str(tmp_path / "deep" / "curves.png")]) == 0
        assert words(capsys)[0] == f"Learning curves: {tmp_path / 'deep' / 'curves.png'}"
        assert matplotlib.image.imread(tmp_path / "deep" / "curves.png").std() > 0.01
        (axis,) = drawn[0].axes
        assert len(axis.lines) == 2 * 12  # more than there are colours

    def test_a_picture_of_no_kind(self, capsys, run):
        assert main(["plot", str(run), "--out", "curves.foo"]) == 2
        assert "out=curves.foo: its ending says what kind of picture it is" in words(capsys)[1]

    def test_a_run_without_records(self, capsys, copy):
        (copy / "records.csv").unlink()
        assert main(["plot", str(copy)]) == 2
        assert "has no records yet" in words(capsys)[1]


class TestDamage:
    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "{}", '{"training": {"agent": 1}}', '{"training": {"options": 1}}']
    )
    @pytest.mark.parametrize("command", ["resume", "evaluate", "play", "plot"])
    def test_a_config_that_cannot_be_read(self, capsys, tmp_path, command, text):
        (tmp_path / "config.json").write_text(text)
        assert main([command, str(tmp_path)]) == 2
        _, err = words(capsys)
        assert "config.json is not the config of a training run" in err
        assert "pass a directory of train" in err

    def damage(self, directory):
        for file in directory.glob("*/manifest"):
            file.write_text("nonsense")

    def test_checkpoints(self, capsys, copy):
        self.damage(copy / "checkpoints")
        for command in ("resume", "evaluate"):  # which need none, since the run is done
            assert main([command, str(copy)]) == 0
        shutil.rmtree(copy / "networks")
        assert main(["resume", str(copy), "--quiet"]) == 2
        assert "checkpoints: no checkpoint there is intact" in words(capsys)[1]

    def test_networks(self, capsys, copy):
        """Those of the checkpoint take their place."""
        self.damage(copy / "networks")
        assert main(["evaluate", str(copy)]) == 0
        shutil.rmtree(copy / "networks")
        assert main(["evaluate", str(copy)]) == 0
        shutil.move(copy / "checkpoints", copy / "elsewhere")
        assert main(["evaluate", str(copy)]) == 2
        assert "has no networks yet; let it train until its first checkpoint" in words(capsys)[1]
        shutil.move(copy / "elsewhere", copy / "checkpoints")
        assert main(["resume", str(copy), "--quiet"]) == 0
        assert main(["evaluate", str(copy)]) == 0


@pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "dqm", "Catch-bsuite"], "unknown agent 'dqm'. Did you mean 'dqn'?"),
        (["train", "dqn", "Breakout-Minatar"], "Did you mean 'Breakout-MinAtar'?"),
        (["train", "dqn", "gym:CartPol-v1"], "Did you mean 'CartPole-v1'?"),
        (["train", "dqn", "pogn", "--exact"], "unknown environment 'pogn'. Did you mean 'pong'?"),
        (["train", "dqn", "breakot", "--threads", "4"], "Did you mean 'breakout'?"),
        (["train", "dqn", "gym:a b"], "environment 'gym:a b': Malformed"),
        (["train", "dqn", "gym:no_such_module:Name-v0"], "needs what is not installed"),
        (["train", "dqn", "Catch-bsuite", "--preset", "smal"], "unknown preset 'smal'. Did you mean 'small'?"),
        (["train", "dqn", "Pendulum-v1"], "continuous actions: agents here choose among finitely many"),
        (["train", "dqn", "gym:Pendulum-v1"], "agents here choose among finitely many"),
        (["train", "c51", "gym:CliffWalking-v1", "--discount", "1"], "unbounded return range with no range given"),
        (["train", "dqn", "Catch-bsuite", "--replay-capacity", "1000000000000"], "smaller --replay-capacity"),
        (["train", "dqn", "Catch-bsuite", "--frames", "1000"], "learning starts only after 1000 of them"),
        (["train", "dqn", "Catch-bsuite", "--num-environments", "3"], "one must be a multiple of the other"),
        (["train", "dqn", "Catch-bsuite", "--discount", "2"], "discount=2.0"),
        (["train", "dqn", "Catch-bsuite", "--risk", "cvar"], "write a number after cvar"),
        (["train", "dqn", "Catch-bsuite", "--features", "tanh"], "dqn has no such option"),
        (["train", "dqn", "Catch-bsuite", "--device", "abacus"], "choose cpu or gpu"),
        (["resume", "nowhere"], "run=nowhere: has no config.json; pass the directory that train wrote to"),
        (["evaluate", "nowhere"], "run=nowhere: has no config.json"),
        (["play", "nowhere"], "run=nowhere: has no config.json"),
        (["plot", "nowhere"], "run=nowhere: has no config.json"),
        (["plot"], "pass the directory of at least one run"),
    ],
)
def test_errors_are_one_line_on_stderr(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = words(capsys)
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_a_device_that_there_is_not(capsys, tmp_path, monkeypatch):
    def refuse(kind):
        raise RuntimeError(f"Unknown backend {kind}")

    devices = jax.devices
    monkeypatch.setattr("jax.devices", lambda *kind: refuse(*kind) if kind else devices())
    monkeypatch.chdir(tmp_path)
    assert main(["train", "dqn", "Catch-bsuite", "--device", "gpu"]) == 2
    assert "device='gpu': JAX finds none here, only cpu; install bellsketch[cuda]" in words(capsys)[1]


class TestPresets:
    def parse(self, *arguments):
        return bellsketch.cli._parse(["train", "dqn", *arguments])

    def test_suit_the_environment(self):
        for environment, name in (("Catch-bsuite", "small"), ("Asterix-MinAtar", "minatar"), ("pong", "paper")):
            parsed, preset = self.parse(environment), PRESETS[name]
            assert (parsed.frames, parsed.learner, parsed.loop) == (preset.frames, preset.learner, preset.loop)
            assert parsed.evaluation == preset.evaluation
        parsed = self.parse("Catch-bsuite", "--preset", "paper")
        assert (parsed.frames, parsed.learner, parsed.loop) == (200_000_000, LearnerConfig(), PRESETS["paper"].loop)

    def test_what_is_passed_goes_before_them(self):
        """Also where it is what the paper has."""
        small = PRESETS["small"]
        parsed = self.parse("Catch-bsuite", "--learning-rate", "5e-5", "--batch-size", "32", "--frames", "200000000")
        assert (parsed.frames, parsed.learner.learning_rate, parsed.loop.batch_size) == (200_000_000, 5e-5, 32)
        assert parsed.learner.target_period == small.learner.target_period != LearnerConfig().target_period
        assert parsed.loop.replay_capacity == small.loop.replay_capacity != LoopConfig().replay_capacity

    def test_reach_the_run(self, monkeypatch, tmp_path):
        configs = []
        monkeypatch.setattr(Running, "__call__", lambda self, config, out, **_: configs.append(config))
        monkeypatch.chdir(tmp_path)
        options = ["--learning-rate", "5e-5", "--rewards", "0", "1", "--reward-interval", "-1", "1", "--num", "21"]
        assert main(["train", "sketch_dqn", "Catch-bsuite", *options, "--evaluations", "3", "--double"]) == 0
        (config,) = configs
        assert (config.learner.learning_rate, config.options.num, config.options.double) == (5e-5, 21, True)
        assert (config.returns.rewards, config.returns.reward_interval) == ((0.0, 1.0), (-1.0, 1.0))
        assert config.evaluation.evaluations == 3


def option_docs(kind):
    """The text under each field of a class."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(kind)).body)
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def letters(text):
    """Without line breaks, and the lines of boxes."""
    return "".join(text.replace("│", "").split())


class TestHelp:
    def shown(self, capsys, *arguments):
        with pytest.raises(SystemExit) as stop:
            main([*arguments, "--help"])
        assert stop.value.code == 0
        return capsys.readouterr().out

    @pytest.mark.parametrize("name", COMMANDS)
    def test_of_every_command_has_every_option(self, capsys, name):
        shown = self.shown(capsys, name)
        command = bellsketch.cli._load(name)
        kinds = [command]
        if name == "train":
            kinds += [AgentConfig, LearnerConfig, LoopConfig, HostConfig, EvaluationConfig, ReturnsConfig]
        if name in ("train", "resume"):
            kinds += [Running]
        for kind in kinds:
            documented = option_docs(kind)
            for field in documented if kind is command else kind.__dataclass_fields__:
                assert letters(documented[field]) in letters(shown), field
                assert ":func:" not in documented[field]
        fields = set(command.__dataclass_fields__) - {
            "running",
            "options",
            "learner",
            "loop",
            "host",
            "evaluation",
            "returns",
        }
        assert fields == set(option_docs(command))

    def test_of_train_shows_the_papers_defaults(self, capsys):
        shown = letters(self.shown(capsys, "train"))
        for option, default in {
            "frames": "200000000", "learning-rate": "5e-05", "adam-epsilon": "0.0003125", "replay-capacity": "1000000",
            "learning-starts": "50000", "batch-size": "32", "update-period": "4", "target-period": "2500",
            "exploration-steps": "1000000", "exploration-final": "0.01", "discount": "0.99",
        }.items():  # fmt: skip
            assert f"(default:{default})" in shown.split(f"--{option}")[1][:150], option

    def test_lists_every_command(self, capsys):
        shown = self.shown(capsys)
        assert all(name in shown for name in COMMANDS)
        assert "Not installed" not in shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["reproduce", "--list"], "fig2-sigmoid"),
        pytest.param(["demo"], "certified bound", marks=pytest.mark.slow),
        pytest.param(["solve", "tree"], "certified", marks=pytest.mark.slow),
    ],
)
def test_without_the_deep_extra(tmp_path, command, shown):
    """Everything else works, and help says what is missing."""
    script = f"""
import sys
sys.modules["equinox"] = None
from bellsketch.cli import main
statuses = []
for arguments in ({command}, ["train", "dqn", "Catch-bsuite"], ["plot", "x"], ["--help"]):
    print("###", flush=True)
    print("###", file=sys.stderr, flush=True)
    try:
        statuses.append(main(arguments))
    except SystemExit as stop:
        statuses.append(stop.code)
assert statuses == [0, 2, 2, 0], statuses
"""
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert child.returncode == 0, child.stderr
    out, err = (text.split("###")[1:] for text in (child.stdout, child.stderr))
    assert shown in out[0]
    for name, text in (("train", err[1]), ("plot", err[2])):
        expected = f"error: bellsketch {name} needs equinox, which is not installed: pip install 'bellsketch[deep]'"
        assert " ".join(text.split()) == expected
    assert f"Not installed: {', '.join(DEEP)}. For these, pip install 'bellsketch[cluster]'." in " ".join(
        out[3].split()
    )
    assert all(name in out[3] for name in ("demo", "solve", "compare", "reproduce", "bench"))


class TestSuite:
    def test_dry_run(self, capsys, tmp_path):
        out = tmp_path / "suite"
        arguments = ["--agents", "dqn", "c51", "--seeds", "2", "--frames", "50000", "--frame-rate", "100", "--dry-run"]
        assert main(["suite", "minatar", *arguments, "--out", str(out), "--cores", "1"]) == 0
        shown = capsys.readouterr().out
        assert "20 jobs, 0 done; each takes 1 core" in shown
        # 20 jobs of 50,000 frames and a few more, at 100 a second.
        assert "2 h 46 min of jobs" in shown
        assert "Disk: at most" in shown
        assert not out.exists()

    def test_of_a_figure(self, capsys):
        assert main(["suite", "tabular-full", "--dry-run"]) == 0
        assert "504 jobs" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["atari58"], "Did you mean 'atari57'"),
            (["mine.toml"], "there is no such file"),
            (["status"], "say which suite"),
            (["status", "nowhere"], "has no config.json"),
            (["minatar", "somewhere"], "goes after --out"),
            (["minatar", "--agents", "dqm"], "Did you mean 'dqn'"),
            (["minatar", "--dry-run", "--frame-rate", "0"], "frame_rate=0.0: must be positive"),
            (["tabular-full", "--seeds", "2"], "whose cells are fixed"),
        ],
    )
    def test_bad_input(self, capsys, arguments, message):
        assert main(["suite", *arguments]) == 2
        assert message in " ".join(capsys.readouterr().err.split())

    def test_report_of_nothing(self, capsys, tmp_path):
        assert main(["report", str(tmp_path)]) == 2
        assert "pass the --out of a suite" in " ".join(capsys.readouterr().err.split())
