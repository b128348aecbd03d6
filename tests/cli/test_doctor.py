"""``bellsketch doctor``."""

import importlib.metadata
import json

import pytest

from bellsketch.cli import doctor, main


def found(capsys):
    assert main(["doctor", "--json"]) == 0
    return {entry["what"]: entry for entry in json.loads(capsys.readouterr().out)}


def test_what_is_here(capsys):
    entries = found(capsys)
    assert importlib.metadata.version("jax") in entries["JAX"]["found"]
    assert "float64" in entries["precision"]["found"]
    assert entries["precision"]["remedy"] == ""
    assert entries["extra deep"]["remedy"] == ""
    assert importlib.metadata.version("equinox") in entries["extra deep"]["found"]
    assert "cpu" in entries["devices"]["found"]
    assert "bellsketch[cuda]" in entries["devices"]["remedy"]


def test_every_extra_is_looked_at():
    assert set(doctor.extras()) == {"deep", "cuda", "cluster", "explore", "tensorboard", "wandb"}
    assert "ray" in doctor.extras()["cluster"]
    assert doctor.extras()["cuda"] == ["jax-cuda12-plugin"]


def test_what_is_missing_has_a_remedy(capsys, monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name == "ray":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    entry = found(capsys)["extra cluster"]
    assert "missing: ray" in entry["found"]
    assert entry["remedy"] == "pip install 'bellsketch[cluster]'"


@pytest.mark.parametrize("word", ["bellsketch", "machine", "extra deep"])
def test_as_a_table(capsys, word):
    assert main(["doctor"]) == 0
    assert word in capsys.readouterr().out
