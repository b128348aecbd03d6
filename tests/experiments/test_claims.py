"""Verdicts, and the page that lists them."""

import json
import math
from pathlib import Path

import pytest

import bellsketch as bs
from bellsketch.experiments.claims import Claim, claims_json
from bellsketch.experiments.claims_page import claims_page, written_directories

DOCS = Path(__file__).parents[2] / "docs"


def claim(measured, relation="<", threshold=1.0, name="fig0.word", detail=""):
    return Claim(name, "It is so", "Sec. 1", measured, relation, threshold, detail)


@pytest.mark.parametrize(
    ("relation", "verdicts"),  # of 0, 1 and 2 against 1
    [
        ("<", [True, False, False]),
        ("≤", [True, True, False]),
        (">", [False, False, True]),
        ("≥", [False, True, True]),
    ],
)
def test_relations(relation, verdicts):
    assert [claim(measured, relation).holds for measured in (0.0, 1.0, 2.0)] == verdicts
    assert not claim(math.nan, relation).holds


def test_infinity_is_decided_and_written_in_words():
    assert not claim(math.inf).holds
    assert claim(math.inf, ">").holds
    assert claim(math.inf).record()["measured"] == "inf"
    assert claim(0.25).record()["measured"] == 0.25


@pytest.mark.parametrize("relation", ["=", "==", "<=", ">=", ""])
def test_unknown_relations(relation):
    with pytest.raises(bs.InputError, match=f"relation='{relation}'.*<, ≤, >, ≥"):
        claim(1.0, relation)


@pytest.fixture
def directories(tmp_path):
    """As ``reproduce`` leaves them, for two figures that exist."""
    claims = {
        "fig2": [claim(0.5, name="fig2.yes", detail="largest of all"), claim(2.0, name="fig2.too-large")],
        "fig4": [claim(math.nan, name="fig4.nothing"), claim(3.0, "≥", name="fig4.large-enough")],
    }
    for name, written in claims.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"command": f"bellsketch reproduce {name}"}))
        (tmp_path / name / "claims.json").write_text(claims_json(written))
    return [tmp_path / name for name in claims]


def test_page(directories):
    page = claims_page(directories)
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| `")}
    assert list(rows) == ["`fig2.yes`", "`fig2.too-large`", "`fig4.nothing`", "`fig4.large-enough`"]
    for name in rows:
        assert page.count(name) == 1
    verdicts = {name: line.split("|")[-2].strip(" *") for name, line in rows.items()}
    assert list(verdicts.values()) == ["yes", "no", "no", "yes"]
    assert "0.5 (largest of all) | < 1 |" in rows["`fig2.yes`"]
    assert "| nan |" in rows["`fig4.nothing`"]
    assert page.index("bellsketch reproduce fig2") < page.index("`fig2.yes`") < page.index("bellsketch reproduce fig4")


def test_rows_have_as_many_cells_as_the_head(directories):
    for line in claims_page(directories).splitlines():
        assert not line.startswith("|") or line.count("|") == 7


def test_directories_in_the_order_of_the_catalogue(directories):
    root = directories[0].parent
    (root / "fig2-sigmoid").mkdir()  # not finished
    (root / "other").mkdir()
    (root / "other" / "claims.json").write_text(claims_json([]))
    assert written_directories(root) == directories


@pytest.mark.skipif(not (DOCS / "claims.md").exists(), reason="docs/claims.md has not been written yet")
def test_the_committed_page_is_that_of_the_committed_figures():
    page = claims_page(written_directories(DOCS / "figures"))
    assert (DOCS / "claims.md").read_text(encoding="utf-8") == page
