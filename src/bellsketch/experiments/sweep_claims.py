"""What the paper says of its sweeps over m and slope, decided from their records."""

import numpy as np
import pandas as pd

from bellsketch.experiments.claims import Claim, Claimant
from bellsketch.experiments.plotting import averages
from bellsketch.experiments.problems import title
from bellsketch.experiments.sweeps import BASE_FEATURES, OURS, PAPERS, WITHOUT_SLOPE

ROUNDING = 1e-14
"""Embedding errors below this are rounding."""
RANDOM_ENOUGH = 1e-3
"""Returns are random where the Dirac at the mean is further from the truth than this."""


def sweep_claims(figure: str, where: str, records: pd.DataFrame) -> list[Claim]:
    """Claims on one figure; each is decided for the paper's regression, and its detail says how ours does."""
    papers, ours = (_numbers(records, form) for form in (PAPERS, OURS))
    make = Claimant(figure, where)

    def claim(name: str, statement: str, relation: str, threshold: float, what: str, where: str | None = None) -> Claim:
        value, remark = papers[name]
        detail = f"{what}{remark}; free intercept: {ours[name][0]:.2g}"
        return make(name, statement, value, relation, threshold, detail, where)

    return [
        claim(
            "embedding-falls",
            "The embedding error falls as features are added, for every feature and environment",
            "<",
            1.0,
            "largest ratio of the error at the largest m to that at the smallest",
        ),
        claim(
            "cramer-falls",
            "The Cramér distance falls as features are added, for every feature and environment",
            "<",
            1.0,
            "largest ratio of the distance at the largest m to that at the smallest",
        ),
        claim(
            "beats-dirac",
            "All methods are far closer to the truth than the Dirac at the mean, where returns are random",
            "<",
            0.5,
            f"largest ratio of Cramér distances over features and categorical DP at m = {BASE_FEATURES}",
        ),
        claim(
            "near-projection",
            "All methods perform well: the decoded distribution is near the best its support allows",
            "<",
            1.0,
            f"largest excess, in units of the projection's own distance, over features at m = {BASE_FEATURES}",
        ),
        claim(
            "closer-than-categorical",
            "Sketch-DP can be closer to the projected truth than categorical DP",
            ">",
            0.0,
            "share of (environment, m) where some feature's excess is below categorical DP's",
            "App. Extended tabular results",
        ),
        claim(
            "smoother-smaller",
            "Smoother features generally give smaller embedding errors",
            ">",
            0.5,
            "share of (environment, feature) whose error at the smallest slope is below that at the largest",
        ),
        claim(
            "intermediate-slope",
            "Cramér distances are small only for an intermediate range of slopes",
            "≥",
            0.9,
            "share of (environment, feature) where both the smallest and the largest slope are more than 2× the best",
        ),
    ]


def _numbers(records: pd.DataFrame, form: str) -> dict[str, tuple[float, str]]:
    """The measured number of each claim with a remark, for one form of intercept."""
    sketches = records[(records["method"] == "sketch") & (records["intercept"] == form)]
    default = sketches[sketches["slope_factor"] == 1.0]
    base = default[default["num_features"] == BASE_FEATURES]
    slopes = sketches[(sketches["num_features"] == BASE_FEATURES) & ~sketches["features"].isin(WITHOUT_SLOPE)]
    pairs = ["environment", "features"]
    smooth = averages(slopes, [*pairs, "slope_factor"], "embedding_sq_error").unstack().fillna(np.inf)
    return {
        "embedding-falls": _falls(averages(default, [*pairs, "num_features"], "embedding_sq_error")),
        "cramer-falls": _falls(averages(default, [*pairs, "num_features"], "cramer")),
        "beats-dirac": _worst(_over_dirac(base, records)),
        "near-projection": _worst(_excess_share(base)),
        "closer-than-categorical": (_closer_than_categorical(default, records), ""),
        "smoother-smaller": (float((smooth.iloc[:, 0] < smooth.iloc[:, -1]).mean()), ""),
        "intermediate-slope": _intermediate(averages(slopes, [*pairs, "slope_factor"], "cramer")),
    }


def _worst(values: pd.Series) -> tuple[float, str]:
    """The largest value, and where it is. What diverged is worse than anything."""
    values = values.fillna(np.inf)
    environment, features = values.idxmax()
    return float(values.max()), f"; largest: {title(environment)}, {features}"


def _falls(values: pd.Series) -> tuple[float, str]:
    """Last over first of each row, how many fall, and the steepest rise between neighbours."""
    table = values.unstack().fillna(np.inf)
    ratio, where = _worst(table.iloc[:, -1] / table.iloc[:, 0])
    count = f"{int((table.iloc[:, -1] < table.iloc[:, 0]).sum())} of {len(table)} pairs fall"
    shown = np.maximum(table.to_numpy(), ROUNDING)
    with np.errstate(invalid="ignore"):
        rises = shown[:, 1:] / shown[:, :-1]
    rises = np.where(np.isnan(rises), 1.0, rises)  # from infinite to infinite
    row, column = np.unravel_index(int(rises.argmax()), rises.shape)
    place = f"{title(table.index[row][0])}, {table.index[row][1]}, at m = {table.columns[column + 1]:g}"
    rise = f"largest rise from one m to the next {rises.max():.2g}×" if np.isfinite(rises.max()) else "first to diverge"
    return ratio, f"{where}; {count}; {rise} ({place})"


def _over_dirac(base: pd.DataFrame, records: pd.DataFrame) -> pd.Series:
    dirac = records[records["method"] == "dirac"].groupby("environment")["cramer"].mean()
    categorical = records[(records["method"] == "categorical") & (records["num_features"] == BASE_FEATURES)]
    both = pd.concat([base, categorical.assign(features="categorical DP")])
    ratios = averages(both, ["environment", "features"], "cramer").div(dirac, level="environment")
    return ratios[ratios.index.get_level_values("environment").isin(dirac[dirac > RANDOM_ENOUGH].index)]


def _excess_share(base: pd.DataFrame) -> pd.Series:
    excess = averages(base, ["environment", "features"], "excess_cramer")
    return excess / (averages(base, ["environment", "features"], "cramer") - excess)


def _closer_than_categorical(rows: pd.DataFrame, records: pd.DataFrame) -> float:
    categorical = averages(
        records[records["method"] == "categorical"], ["environment", "num_features"], "excess_cramer"
    )
    ours = averages(rows, ["environment", "num_features", "features"], "excess_cramer").unstack().min(axis=1)
    return float((ours < categorical.reindex(ours.index)).mean())


def _intermediate(values: pd.Series) -> tuple[float, str]:
    table = values.unstack().fillna(np.inf)
    bad = table.div(table.min(axis=1), axis=0) > 2
    smooth, sharp = bad.iloc[:, 0].mean(), bad.iloc[:, -1].mean()
    fine = sorted(set(table.index[~bad.iloc[:, -1]].get_level_values("features")))
    remark = f"; the smallest alone {smooth:.2g}, the largest {sharp:.2g}"
    return float((bad.iloc[:, 0] & bad.iloc[:, -1]).mean()), remark + f", which suits {', '.join(fine)}" * bool(fine)
