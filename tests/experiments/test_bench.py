"""The benchmark at a tiny scale: what it writes, and that its claims can come out false; never how long it takes."""

import dataclasses
import json

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from bellsketch.cli import main
from bellsketch.experiments.bench_tabular import EXPERIMENT, Settings, claims, fitted_exponent
from bellsketch.experiments.catalogue import BENCHMARKS
from bellsketch.experiments.reproduce import read_records, reproduce

TINY = Settings((100, 1_000), (8, 16), 16, 100, 100, 10, (0.9, 0.999), ("grid", "random"), 0.9)
IDS = ("backup", "memory", "fixed-point", "residual", "device", "float32")


@pytest.fixture(scope="module", autouse=True)
def coarse():
    """At γ = 0.999 plain iteration would take long to a residual of 1e-8."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bellsketch.experiments.bench_tabular.RESIDUAL", 1e-4)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory and its claims."""
    path = tmp_path_factory.mktemp("bench")
    return path, reproduce(dataclasses.replace(EXPERIMENT, quick=TINY), path)


@pytest.fixture(scope="module")
def records(run):
    return read_records(run[0])


def test_every_claim_is_measured(run):
    path, found = run
    assert [claim.id for claim in found] == [f"bench-tabular.{name}" for name in IDS]
    assert all(np.isfinite(claim.measured) for claim in found)
    assert len(json.loads((path / "claims.json").read_text(encoding="utf-8"))) >= 1
    by_name = {claim.id.split(".")[1]: claim for claim in found}
    assert by_name["residual"].holds
    assert by_name["float32"].holds


def test_a_figure_is_drawn(run):
    assert matplotlib.image.imread(run[0] / "figure.png").std() > 0.01


def test_the_table_has_ratios(records):
    table = EXPERIMENT.table(records)
    np.testing.assert_allclose(table["ratio"], table["seconds"] / table["bare_seconds"])
    assert len(table) == len(records) - (records["precision"] == "float32").sum()
    assert set(table["part"]) == {"host", "device", "joint", "solve"}


def test_solvers_agree_wherever_they_are_timed(records):
    solved = records[records["part"] == "solve"]
    assert list(solved["graph"]) == ["line", "line", "grid", "random"]
    assert (solved[["residual", "plain_residual"]] <= 1e-4).all(axis=None)
    # At this residual the error may be 1 / (1 − γ) times as large, for each of the two.
    assert (solved["difference"] <= 2e-4 / (1 - solved["discount"])).all()
    assert (solved["iterations"] < solved["plain_iterations"]).all()


@pytest.mark.parametrize(
    ("name", "part", "column", "value"),
    [
        ("backup", "host", "seconds", 1e3),
        ("memory", "host", "copies", 4.0),
        ("fixed-point", "solve", "seconds", 1e3),
        ("residual", "solve", "residual", 2e-4),
        ("device", "device", "seconds", 1e3),
        ("float32", "host", "loss", 1e-3),
    ],
)
def test_claims_can_come_out_false(records, name, part, column, value):
    changed = records.assign(**{column: records[column].where(records["part"] != part, value)})
    assert not {claim.id.split(".")[1]: claim for claim in claims(changed)}[name].holds


def test_claims_can_come_out_true(records):
    good = records.assign(copies=3.0, bare_seconds=records["seconds"].where(records["part"] != "solve", 1e6))
    assert all(claim.holds for claim in claims(good))


@pytest.mark.parametrize("num", [2, 3, 4, 7])
def test_the_exponent_of_a_power(num):
    x = pd.Series(np.random.default_rng(0).permutation(2.0 ** np.arange(num)))
    assert fitted_exponent(x, 3 * x**1.5) == pytest.approx(1.5)


def test_the_exponent_is_that_of_large_cases():
    x = pd.Series(10.0 ** np.arange(6))
    assert fitted_exponent(x, np.maximum(x, 100.0)) == pytest.approx(1.0)


def test_the_command_runs_it_and_shows_the_table(capsys, tmp_path, monkeypatch, run):
    """In the directory of the run above: nothing is computed again."""
    tiny = dataclasses.replace(EXPERIMENT, quick=TINY, measure=lambda *_: pytest.fail("computed again"))
    monkeypatch.setitem(BENCHMARKS, "tabular", tiny)
    assert main(["bench", "tabular", "--out", str(run[0])]) == 0
    out = capsys.readouterr().out
    assert "ratio" in out
    assert "holds" in out
