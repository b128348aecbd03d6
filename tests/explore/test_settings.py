"""Whatever a page may send, only settings within their limits come out."""

import dataclasses
import math

import pytest

import bellsketch as bs
from bellsketch.explore.settings import MOST_FEATURES, RIDGES, SLOPES, Settings, from_page

PAGE = {
    "environment": "tree",
    "family": "gaussian",
    "num_features": 12,
    "log_slope": 0.5,
    "anchors": [-0.2, 1.1],
    "log_ridge": -6,
    "intercept": "none",
}


def test_of_a_page():
    settings = from_page(**PAGE)
    expected = Settings("tree", "gaussian", 12, math.sqrt(10), (-0.2, 1.1), 1e-6, "none")
    assert dataclasses.astuple(settings)[:3] == dataclasses.astuple(expected)[:3]
    assert settings.slope_factor == pytest.approx(expected.slope_factor)
    assert settings.ridge == pytest.approx(expected.ridge)
    assert (settings.anchors, settings.intercept) == (expected.anchors, expected.intercept)


def test_ends_of_limits_are_allowed():
    for log_slope, log_ridge, m in ((-1.0, -15, 1), (1.0, 0, float(MOST_FEATURES))):
        settings = from_page(**PAGE | {"log_slope": log_slope, "log_ridge": log_ridge, "num_features": m})
        assert SLOPES[0] <= settings.slope_factor <= SLOPES[1]
        assert RIDGES[0] <= settings.ridge <= RIDGES[1]
        assert isinstance(settings.num_features, int)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("environment", "tre", "unknown environment 'tre'. Did you mean 'tree'"),
        ("environment", None, "environment=None: pass a name"),
        ("environment", ["tree"], "environment"),
        ("environment", "x" * 10_000, "unknown environment"),
        ("family", "__import__('os')", "unknown feature family"),
        ("intercept", 1, "intercept=1: pass a name"),
        ("num_features", 0, "num_features=0: must lie between 1 and 80"),
        ("num_features", 10**9, "num_features"),
        ("num_features", 10**5000, "num_features=an enormous number: must lie between"),
        ("num_features", 12.5, "num_features=12.5: pass a whole number"),
        ("num_features", True, "num_features=True: pass a whole number"),
        ("num_features", "12", "num_features='12': pass a whole number"),
        ("num_features", math.nan, "num_features=nan"),
        ("log_slope", 1.1, "log_slope=1.1: must lie between -1 and 1"),
        ("log_slope", -math.inf, "log_slope=-inf"),
        ("log_slope", math.nan, "log_slope=nan"),
        ("log_ridge", 3, "log_ridge=3: must lie between -15 and 0"),
        ("log_ridge", None, "log_ridge=None"),
        ("anchors", [1.0, 1.0], "anchors from 1 to 1: must start before they end"),
        ("anchors", [0.0, 7.0], "anchors=7.0: must lie between -1.5 and 2.5"),
        ("anchors", [0.0], "anchors="),
        ("anchors", "01", "anchors='01'"),
        ("anchors", [0.0, "1"], "anchors='1'"),
    ],
    ids=lambda entry: str(entry)[:30] if not isinstance(entry, int) or entry < 10**10 else "enormous",
)
def test_of_another_page(name, value, message):
    with pytest.raises(bs.InputError, match=message.replace("(", r"\(").replace("[", r"\[")) as caught:
        from_page(**PAGE | {name: value})
    assert len(str(caught.value)) < 600
