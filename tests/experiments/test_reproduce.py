"""Run directories: what is written, and that no stopped, broken or repeated run is computed twice or differently."""

import csv
import dataclasses
import gzip
import json
import math
import threading

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.experiments.reproduce import reproduce
from fake_experiment import EXPERIMENT, cells, measure

PARTS = list(EXPERIMENT.quick.parts)
FILES = {"config.json", "results.csv", "figure.png", "figure.pdf", "claims.json"}


class Measure:
    """The fake measurement; remembers which parts it was asked for, and may stop with an error before the k-th."""

    def __init__(self, stop_at=None, error=None):
        self.parts, self.stop_at, self.error = [], stop_at, error

    def __call__(self, settings, cell):
        if len(self.parts) == self.stop_at:
            raise self.error
        self.parts.append(cell["part"])
        return measure(settings, cell)


def fake(**changes):
    return dataclasses.replace(EXPERIMENT, **changes)


def run(out, jobs=1, **kwargs):
    """Reproduce the fake; returns the parts that were measured."""
    counted = Measure()
    reproduce(fake(measure=counted), out, jobs=jobs, **kwargs)
    return counted.parts


def stop(out, after, error):
    with pytest.raises(type(error)):
        reproduce(fake(measure=Measure(after, error)), out, jobs=1)


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def read(path):
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of a run that nothing happened to."""
    path = tmp_path_factory.mktemp("whole")
    assert run(path) == PARTS
    return path


class TestFiles:
    def test_names(self, whole):
        assert set(contents(whole)) == FILES
        assert (whole / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert (whole / "figure.pdf").read_bytes().startswith(b"%PDF")

    def test_results_are_the_records_in_the_order_of_cells(self, whole):
        rows = list(csv.DictReader((whole / "results.csv").open(encoding="utf-8", newline="")))
        assert list(rows[0]) == ["part", "place", "row", "value", "maybe", "extra"]
        assert [(row["part"], row["row"]) for row in rows] == [(part, r) for part in PARTS for r in "01"]
        signs = np.tile([1, -1], len(PARTS))
        np.testing.assert_allclose(
            [float(row["value"]) for row in rows], signs * np.repeat(np.sqrt([1, 2, 3, 4, 5]), 2), rtol=1e-5
        )

    def test_what_is_missing_is_an_empty_cell(self, whole):
        rows = list(csv.DictReader((whole / "results.csv").open(encoding="utf-8", newline="")))
        assert [float(row["maybe"] or "nan") for row in rows if row["row"] == "1"] == pytest.approx(
            [math.nan, math.nan, 2.0, 2.0, 2.0], nan_ok=True
        )
        assert all(row["maybe"] == "" for row in rows if row["row"] == "0" or row["part"] in "ab")
        assert [row["extra"] for row in rows[:4]] == ["", "", "ö", "ö"]

    def test_config(self, whole):
        config = read(whole / "config.json")
        assert config["experiment"] == "fake"
        assert config["scale"] == "quick"
        assert config["settings"] == {"parts": PARTS, "power": 0.5, "seed": 0}
        assert config["command"] == "bellsketch reproduce fake --scale quick"
        assert config["bellsketch"] == bs.__version__
        assert config["versions"]["numpy"] == np.__version__
        assert config["versions"]["jax"] == jax.__version__
        assert config["commit"] is None or len(config["commit"].split()[0]) == 40
        assert config["seconds"] >= 0
        assert {"python", "machine", "date"} <= set(config)

    def test_config_has_the_seed_in_settings_and_command(self, tmp_path):
        run(tmp_path, seed=3)
        config = read(tmp_path / "config.json")
        assert config["settings"]["seed"] == 3
        assert config["command"].endswith("--seed 3")

    def test_claims(self, whole):
        records = read(whole / "claims.json")
        for record in records:
            assert set(record) >= {"id", "statement", "where", "measured", "relation", "threshold", "holds"}
        assert {record["id"]: record["holds"] for record in records} == {
            "fake.holds": True,
            "fake.fails": False,
            "fake.nothing": False,
        }
        assert records[0]["measured"] == pytest.approx(math.sqrt(5), rel=1e-5)
        assert records[2]["measured"] == "nan"

    def test_claims_are_returned_too(self, whole):
        claims = reproduce(EXPERIMENT, whole)
        assert [claim.record() for claim in claims] == read(whole / "claims.json")


class TestContinuing:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no more memory")], ids=["Ctrl-C", "error"])
    @pytest.mark.parametrize("after", [0, 1, 3])
    def test_a_stopped_run_keeps_what_it_has(self, whole, tmp_path, after, error):
        stop(tmp_path, after, error)
        assert len(read_cells(tmp_path)) == after
        assert not (tmp_path / "results.csv").exists()
        assert run(tmp_path) == PARTS[after:]
        assert (tmp_path / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
        assert (tmp_path / "claims.json").read_bytes() == (whole / "claims.json").read_bytes()
        assert set(contents(tmp_path)) == FILES

    def test_stopped_twice(self, whole, tmp_path):
        stop(tmp_path, 2, KeyboardInterrupt())
        stop(tmp_path, 1, KeyboardInterrupt())
        assert run(tmp_path) == PARTS[3:]
        assert (tmp_path / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()

    @pytest.mark.parametrize(("cut", "kept"), [(1, 3), (2, 2), (30, 2), (150, 2)])
    def test_a_last_line_cut_short_is_computed_again(self, whole, tmp_path, cut, kept):
        stop(tmp_path, 3, KeyboardInterrupt())
        file = tmp_path / "cells.jsonl"
        file.write_bytes(file.read_bytes()[:-cut])
        assert len(read_cells(tmp_path)) == kept
        stop(tmp_path, 1, KeyboardInterrupt())  # what is appended after the cut line can be read
        assert run(tmp_path) == PARTS[kept + 1 :]
        assert (tmp_path / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()

    def test_a_complete_run_is_only_drawn_again(self, tmp_path):
        run(tmp_path)
        before = contents(tmp_path)
        for name in ("figure.png", "figure.pdf", "claims.json"):
            (tmp_path / name).unlink()
        assert run(tmp_path) == []
        assert contents(tmp_path) == before

    def test_progress_counts_what_was_kept(self, tmp_path):
        stop(tmp_path, 3, KeyboardInterrupt())
        seen = []
        reproduce(EXPERIMENT, tmp_path, jobs=1, report=lambda done, total: seen.append((done, total)))
        assert seen == [(3, 5), (4, 5), (5, 5)]

    def test_fresh_discards(self, tmp_path):
        run(tmp_path, seed=1)
        old = contents(tmp_path)
        assert run(tmp_path, fresh=True) == PARTS
        assert contents(tmp_path)["results.csv"] != old["results.csv"]
        assert read(tmp_path / "config.json")["settings"]["seed"] == 0

    def test_fresh_leaves_no_old_claims_beside_a_new_config(self, tmp_path):
        run(tmp_path, seed=1)
        with pytest.raises(KeyboardInterrupt):
            reproduce(fake(measure=Measure(2, KeyboardInterrupt())), tmp_path, jobs=1, fresh=True)
        assert set(contents(tmp_path)) == {"config.json", "cells.jsonl"}

    def test_fresh_discards_what_is_unfinished(self, tmp_path):
        stop(tmp_path, 3, KeyboardInterrupt())
        assert run(tmp_path, fresh=True) == PARTS


def read_cells(path):
    """The parts of all lines of ``cells.jsonl`` that are whole."""
    parts = []
    file = path / "cells.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            parts.append(json.loads(line)["cell"]["part"])
        except ValueError:
            continue
    return parts


class TestRefusing:
    @pytest.mark.parametrize("finished", [True, False])
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"seed": 1}, "seed 0 there, 1 here"),
            ({"scale": "full"}, "scale.*quick there, full here"),
            ({"quick": dataclasses.replace(EXPERIMENT.quick, power=2.0)}, r"settings.*power 0\.5 there, 2\.0 here"),
            ({"name": "other"}, "experiment.*fake there, other here"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_a_directory_with_another_run_stays_as_it_is(self, tmp_path, change, message, finished):
        if finished:
            run(tmp_path)
        else:
            stop(tmp_path, 2, KeyboardInterrupt())
        before = contents(tmp_path)
        arguments = {key: change[key] for key in change if key in ("seed", "scale")}
        other = fake(**{key: change[key] for key in change if key not in arguments})
        with pytest.raises(bs.InputError, match=f"(?s){message}.*--fresh"):
            reproduce(other, tmp_path, jobs=1, **arguments)
        assert contents(tmp_path) == before

    @pytest.mark.parametrize("text", ["", "{", "{}", "\x00", "[]", "null"])
    def test_a_config_that_cannot_be_read(self, tmp_path, text):
        run(tmp_path)
        (tmp_path / "config.json").write_text(text)
        before = contents(tmp_path)
        with pytest.raises(bs.InputError, match=r"config\.json cannot be read"):
            run(tmp_path)
        assert contents(tmp_path) == before

    def test_results_without_a_config(self, tmp_path):
        run(tmp_path)
        (tmp_path / "config.json").unlink()
        with pytest.raises(bs.InputError, match=r"no config\.json"):
            run(tmp_path)

    def test_bad_arguments_leave_no_directory(self, tmp_path):
        out = tmp_path / "new"
        with pytest.raises(bs.InputError, match="jobs=0"):
            run(out, jobs=0)
        with pytest.raises(bs.InputError, match="scale='medium'"):
            run(out, scale="medium")
        assert not out.exists()

    def test_a_path_that_is_a_file(self, tmp_path):
        file = tmp_path / "file"
        file.write_text("mine")
        with pytest.raises(bs.InputError, match="out="):
            run(file)
        assert file.read_text() == "mine"


class TestSideBySide:
    def test_two_jobs_give_what_one_gives(self, whole, tmp_path):
        reproduce(EXPERIMENT, tmp_path, jobs=2)
        assert (tmp_path / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()

    def test_timed_cells_run_alone_and_in_order(self, tmp_path):
        counted = Measure()  # counts only what runs in this process
        reproduce(fake(measure=counted, timed=True), tmp_path, jobs=2)
        assert counted.parts == PARTS

    def test_cells_that_share_a_device_run_in_two_threads(self, whole, tmp_path):
        both = threading.Barrier(2)
        counted = Measure()  # counts only what runs in this process

        def meet(settings, cell):
            if cell["part"] in "abcd":
                both.wait(timeout=60)
            return counted(settings, cell)

        reproduce(fake(measure=meet, shares_device=True), tmp_path)
        assert sorted(counted.parts) == PARTS
        assert (tmp_path / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()


def test_scales_and_seeds():
    assert len(cells(EXPERIMENT.settings("full"))) == 8
    assert EXPERIMENT.settings("quick", seed=7).seed == 7


def test_a_compressed_table_is_still_a_table(tmp_path):
    run(tmp_path)
    table = tmp_path / "results.csv"
    (tmp_path / "results.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    table.unlink()
    assert run(tmp_path) == []
    assert not table.exists()


def test_two_runs_do_not_share_a_directory(tmp_path):
    """The second is told so at once, and leaves the first alone."""

    def intrude(settings, cell):
        with pytest.raises(bs.InputError, match="another run is at work"):
            run(tmp_path)
        return measure(settings, cell)

    reproduce(fake(measure=intrude), tmp_path, jobs=1)
    assert {path.name for path in tmp_path.iterdir()} == FILES
