"""Every figure at quick scale, and that its claims can come out false."""

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.reproduce import reproduce

figures = pytest.mark.parametrize("name", EXPERIMENTS)
SLOW = ("fig4", "tabular-full", "anchor-range", "polynomial", "sfdp", "theory", "beyond", "minatar", "minatar-ablation")
"""Run by ``make test-all``: those that take longest."""


def reverse_num_features(records):
    """As if few features were many."""
    swapped = records["num_features"].replace({10: 50, 50: 10})
    # Slopes are swept at 50 features only; what is at another m must not be.
    return records[records["slope_factor"].isna() | (records["slope_factor"] == 1.0)].assign(num_features=swapped)


def scale(column, factor, **where):
    """As if a column had other numbers in the rows where others have these values."""

    def change(records):
        chosen = pd.Series(True, records.index)
        for name, value in where.items():
            chosen &= records[name] == value
        return records.assign(**{column: records[column].where(~chosen, factor * records[column])})

    return change


def rename(column, names):
    return lambda records: records.assign(**{column: records[column].replace(names)})


FALSIFIED = {
    "fig2": [(rename("state", {3: 4, 4: 3}), ["nearer-to-4"])],
    "fig4": [(reverse_num_features, ["cramer-falls"]), (scale("cramer", 1e3, method="sketch"), ["beats-dirac"])],
    "bellman-coefficients": [(scale("value", 10, quantity="max_error"), ["error-sigmoid", "error-gaussian"])],
    "polynomial": [
        (
            rename("features", {"sigmoid, 50": "polynomial, degree 50", "polynomial, degree 50": "sigmoid, 50"}),
            ["degree-50-fails"],
        )
    ],
    "sfdp": [(scale("seconds_per_iteration", 1e-6, method="SFDP, SciPy (the paper's)"), ["slower"])],
    "theory": [(scale("value", 1e6), ["prop-1", "prop-4"])],
    "beyond": [(scale("bound", 1e-9), ["certificate-holds"]), (scale("value", 1e3, method="fine"), ["fine-decoding"])],
}
"""Changes of the records, and the claims that do not survive them."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in EXPERIMENTS]
)
def test_quick_figure(name, tmp_path):
    """All checks of a figure in one test: it is computed once."""
    experiment = EXPERIMENTS[name]
    claims = reproduce(experiment, tmp_path, scale="quick", jobs=1)

    pixels = matplotlib.image.imread(tmp_path / "figure.png")
    assert min(pixels.shape[:2]) > 400
    assert pixels[..., :3].std() > 0.02
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")

    records = pd.read_csv(tmp_path / "results.csv", keep_default_na=False, na_values=[""])
    assert len(records) >= len(experiment.cells(experiment.quick))

    ids = [claim.id for claim in claims]
    assert len(set(ids)) == len(ids) > 0
    for claim in claims:
        assert claim.id.startswith(f"{name}.")
        assert not np.isnan(claim.measured), claim  # infinite is what diverged
        assert claim.statement
        assert claim.where
        assert "|" not in claim.statement + claim.where + claim.detail  # they stand in a Markdown table

    for change, words in FALSIFIED.get(name, []):
        verdicts = {claim.id: claim.holds for claim in experiment.claims(change(records))}
        for word in words:
            assert not verdicts[f"{name}.{word}"]
            assert next(claim for claim in claims if claim.id == f"{name}.{word}").holds, "false without the change"


@figures
@pytest.mark.parametrize(("field", "number"), [("jitters", 100), ("iterations", 200), ("updates", 100_000)])
def test_full_scale_is_the_papers(name, field, number):
    full = EXPERIMENTS[name].full
    if not hasattr(full, field):
        pytest.skip(f"{name} has no {field}")
    if (name, field) == ("theory", "iterations"):
        number = 500  # Prop. 4 is about the fixed point
    assert getattr(full, field) == number


@figures
def test_names_and_cells(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    for scale in ("quick", "full"):
        parts = [tuple(sorted(cell.items())) for cell in experiment.cells(experiment.settings(scale, seed=5))]
        assert len(set(parts)) == len(parts) > 0
        assert experiment.settings(scale, seed=5).seed == 5
