"""One directory, one run: who may claim it, and what is said to those who may not."""

import json
import subprocess
import sys

import pytest

import bellsketch as bs
from bellsketch.runs.claimed_directory import ClaimedDirectory, differences

CONFIG = {"agent": "dqn", "settings": {"seed": 0, "learner": {"rate": 0.5, "sizes": (1, 2)}}, "commit": "abc"}


def claim(path, fresh=False, **changes):
    return ClaimedDirectory(
        path, {**CONFIG, **changes}, identity=("agent", "settings"), contents=("log.csv", "checkpoints"), fresh=fresh
    )


def settings(seed=0, rate=0.5, **learner):
    return {"seed": seed, "learner": {"rate": rate, "sizes": [1, 2], **learner}}


def test_a_new_directory_gets_the_config_and_a_lock(tmp_path):
    directory = claim(tmp_path / "a" / "b")
    assert {path.name for path in directory.path.iterdir()} == {"config.json", "run.lock"}
    assert json.loads((directory.path / "config.json").read_text()) == directory.config
    assert directory.config == {**CONFIG, "settings": settings(), "seconds": 0.0}
    directory.release()
    assert [path.name for path in directory.path.iterdir()] == ["config.json"]


def test_the_same_run_continues_with_the_old_config(tmp_path):
    directory = claim(tmp_path)
    directory.config["seconds"] = 12.5
    directory.save_config()
    directory.release()
    again = claim(tmp_path, commit="def")
    assert again.config["seconds"] == 12.5
    assert again.config["commit"] == "abc"
    with pytest.warns(bs.BellsketchWarning, match="begun at commit abc and is continued at def"):
        again.warn_of_other_commit("def")
    again.warn_of_other_commit("abc")
    again.release()


def test_every_difference_is_named(tmp_path):
    claim(tmp_path).release()
    with pytest.raises(bs.InputError) as caught:
        claim(tmp_path, agent="c51", settings=settings(seed=1, rate=0.1, clip=3))
    assert str(caught.value) == (
        f"out={tmp_path}: holds another run (agent dqn there, c51 here; settings.seed 0 there, 1 here;"
        " settings.learner.rate 0.5 there, 0.1 here; settings.learner.clip nothing there, 3 here);"
        " choose another directory, or pass --fresh to replace it"
    )
    claim(tmp_path).release()  # the lock is open again


def test_nothing_is_not_the_word():
    assert list(differences({"a": "nothing"}, {})) == ["a nothing there, nothing here"]
    assert not list(differences({"a": {"b": None}}, {"a": {"b": None}}))


def test_fresh_removes_files_and_directories_but_nothing_else(tmp_path):
    claim(tmp_path).release()
    (tmp_path / "checkpoints" / "7").mkdir(parents=True)
    (tmp_path / "checkpoints" / "7" / "data").write_text("old")
    for name in ("log.csv", "mine.txt"):
        (tmp_path / name).write_text("old")
    directory = claim(tmp_path, fresh=True, agent="c51")
    directory.release()
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "mine.txt"}
    assert directory.config["agent"] == "c51"


@pytest.mark.parametrize("fresh", [False, True])
def test_what_is_not_known_to_be_a_run_is_left_alone(tmp_path, fresh):
    (tmp_path / "log.csv").write_text("mine")
    with pytest.raises(bs.InputError, match=r"holds log\.csv but no config\.json"):
        claim(tmp_path, fresh=fresh)
    assert (tmp_path / "log.csv").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "null", '{"agent": "dqn", "settings": 1, "seconds": "x"}'])
def test_a_config_that_cannot_be_read(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(bs.InputError, match=r"config\.json cannot be read"):
        claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(bs.InputError, match="is a file; choose a directory"):
        claim(tmp_path / "file")


def test_one_at_a_time(tmp_path):
    first = claim(tmp_path)
    with pytest.raises(bs.InputError, match="another run is at work there"):
        claim(tmp_path, fresh=True)
    first.release()
    claim(tmp_path).release()


def test_a_run_that_was_killed_holds_nothing(tmp_path):
    script = (
        "import os, pathlib, sys; from bellsketch.runs.claimed_directory import ClaimedDirectory as C;"
        "C(pathlib.Path(sys.argv[1]), {'agent': 'dqn', 'settings': 1}, identity=(), contents=());"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)])
    assert (tmp_path / "run.lock").exists()
    claim(tmp_path, settings=1).release()
