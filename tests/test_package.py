"""What is built to be installed, and that it works where nothing else is."""

import email
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import bellsketch as bs
from bellsketch.cli import COMMANDS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling")
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return directory


def test_the_wheel_has_all_of_the_library_and_nothing_else(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        inside = {name for name in wheel.namelist() if not name.startswith(f"bellsketch-{bs.__version__}.dist-info/")}
    here = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "bellsketch").rglob("*") if p.is_file()}
    assert inside == {name for name in here if "__pycache__" not in name}
    assert {"bellsketch/py.typed", "bellsketch/experiments/report/template.html"} <= inside


def test_the_source_can_be_built_and_tested(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    needed = ("pyproject.toml", "README.md", "LICENSE", "src/bellsketch/py.typed", "tests/conftest.py", "mkdocs.yml")
    assert set(needed) <= names
    assert path.stat().st_size < 5e6


def test_metadata_is_complete(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        text = wheel.read(f"bellsketch-{bs.__version__}.dist-info/METADATA").decode()
        entry_points = wheel.read(f"bellsketch-{bs.__version__}.dist-info/entry_points.txt").decode()
    metadata = email.message_from_string(text)
    assert metadata["Name"] == "bellsketch"
    assert metadata["Version"] == bs.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    extras = {"deep", "cuda", "cluster", "tensorboard", "wandb", "docs", "explore"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert any("arxiv.org" in url for url in metadata.get_all("Project-URL"))
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(metadata.get_all("Classifier"))
    assert metadata["Summary"]
    assert metadata["Keywords"]
    assert "bellsketch = bellsketch.cli:main" in entry_points


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(built, tmp_path):
    """Takes minutes: JAX and all else is installed. Packages come from the index that pip is configured for."""
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    bin_directory = tmp_path / "venv" / "bin"

    def run(*command):
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        words = [bin_directory / command[0], *command[1:]]
        done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt", wheel)
    assert run("bellsketch", "--version") == run("python", "-m", "bellsketch", "--version")
    assert "certified bound" in run("bellsketch", "demo")
    assert (tmp_path / "runs" / "demo" / "walk_through.png").stat().st_size > 1e4
    others = [name for name in COMMANDS if name not in ("demo", "solve", "compare", "reproduce", "bench", "doctor")]
    said = " ".join(run("bellsketch", "--help").replace("│", " ").split())  # it may be in a box
    assert f"Not installed: {', '.join(others)}." in said  # which is said, not raised
    assert "[deep]" in run("bellsketch", "doctor", "--json")
