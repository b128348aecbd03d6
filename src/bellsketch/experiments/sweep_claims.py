"""What the paper says of its sweeps over m and slope, decided from their records."""

import numpy as np
import pandas as pd

from bellsketch.experiments.claims import Claim
from bellsketch.experiments.plotting import averages
from bellsketch.experiments.problems import title
from bellsketch.experiments.sweeps import BASE_FEATURES, OURS, PAPERS, WITHOUT_SLOPE

RANDOM_ENOUGH = 1e-3
"""Returns are random where the Dirac at the mean is further from the truth than this."""


def sweep_claims(figure: str, where: str, records: pd.DataFrame) -> list[Claim]:
    """Claims on one figure; each is decided for the paper's regression, and its detail says how ours does."""
    both = {form: _numbers(records, form) for form in (PAPERS, OURS)}
    papers, ours = both[PAPERS], both[OURS]

    def claim(name: str, statement: str, key: str, relation: str, threshold: float, what: str) -> Claim:
        value, worst = papers[key]
        detail = f"{what}{'; worst: ' + worst if worst else ''}; free intercept: {ours[key][0]:.2g}"
        return Claim(f"{figure}.{name}", statement, where, value, relation, threshold, detail)

    return [
        claim(
            "embedding-falls",
            "The embedding error falls as features are added, for every feature and environment",
            "embedding",
            "<",
            1.0,
            "largest ratio of the error at the largest m to that at the smallest",
        ),
        claim(
            "cramer-falls",
            "The Cramér distance falls as features are added, for every feature and environment",
            "cramer",
            "<",
            1.0,
            "largest ratio of the distance at the largest m to that at the smallest",
        ),
        claim(
            "beats-dirac",
            "Sketch-DP is much closer to the truth than the Dirac at the mean where returns are random",
            "dirac",
            "<",
            0.5,
            f"largest ratio of Cramér distances over features at m = {BASE_FEATURES}",
        ),
        claim(
            "near-projection",
            "All methods perform well: the decoded distribution is near the best its support allows",
            "excess",
            "<",
            1.0,
            f"largest excess over the projection's own distance, sigmoid at m = {BASE_FEATURES}",
        ),
        claim(
            "closer-than-categorical",
            "Sketch-DP can be closer to the projected truth than categorical DP",
            "categorical",
            ">",
            0.0,
            "share of (environment, m) where some feature's excess is below categorical DP's",
        ),
        claim(
            "smoother-smaller",
            "Smoother features generally give smaller embedding errors",
            "smooth",
            ">",
            0.5,
            "share of (environment, feature) whose error at the smallest slope is below that at the largest",
        ),
        claim(
            "intermediate-slope",
            "Cramér distances are small only for an intermediate range of slopes",
            "intermediate",
            "≥",
            0.9,
            "share of (environment, feature) whose best slope is neither the smallest nor the largest",
        ),
    ]


def _numbers(records: pd.DataFrame, form: str) -> dict[str, tuple[float, str]]:
    """The measured number of each claim and where it is worst, for one form of intercept."""
    sketches = records[(records["method"] == "sketch") & (records["intercept"] == form)]
    default = sketches[sketches["slope_factor"] == 1.0]
    base = default[default["num_features"] == BASE_FEATURES]
    slopes = sketches[(sketches["num_features"] == BASE_FEATURES) & ~sketches["features"].isin(WITHOUT_SLOPE)]
    by_slope = averages(slopes, ["environment", "features", "slope_factor"], "cramer").unstack()
    smooth = averages(slopes, ["environment", "features", "slope_factor"], "embedding_sq_error").unstack()
    inner = by_slope.idxmin(axis=1).between(by_slope.columns[0], by_slope.columns[-1], inclusive="neither")
    return {
        "embedding": _worst(_last_over_first(default, "embedding_sq_error")),
        "cramer": _worst(_last_over_first(default, "cramer")),
        "dirac": _worst(_over_dirac(base, records)),
        "excess": _worst(_excess_share(base)),
        "categorical": (float(_closer_than_categorical(default, records)), ""),
        "smooth": (float((smooth.iloc[:, 0] < smooth.iloc[:, -1]).mean()), ""),
        "intermediate": (
            float(inner.mean()),
            "",
        ),
    }


def _worst(values: pd.Series) -> tuple[float, str]:
    """The largest value, and where it is. What diverged is worse than anything."""
    values = values.fillna(np.inf)
    if values.empty:
        return np.nan, ""
    environment, features = values.idxmax()
    below = f"{int((values < 1).sum())} of {len(values)} below 1"
    return float(values.max()), f"{title(environment)}, {features}; {below}"


def _last_over_first(rows: pd.DataFrame, metric: str) -> pd.Series:
    table = averages(rows, ["environment", "features", "num_features"], metric).unstack().fillna(np.inf)
    return table.iloc[:, -1] / table.iloc[:, 0]


def _over_dirac(base: pd.DataFrame, records: pd.DataFrame) -> pd.Series:
    dirac = records[records["method"] == "dirac"].groupby("environment")["cramer"].mean()
    ratios = averages(base, ["environment", "features"], "cramer").div(dirac, level="environment")
    return ratios[ratios.index.get_level_values("environment").isin(dirac[dirac > RANDOM_ENOUGH].index)]


def _excess_share(base: pd.DataFrame) -> pd.Series:
    sigmoid = base[base["features"] == "sigmoid"]
    excess = averages(sigmoid, ["environment", "features"], "excess_cramer")
    return excess / (averages(sigmoid, ["environment", "features"], "cramer") - excess)


def _closer_than_categorical(rows: pd.DataFrame, records: pd.DataFrame) -> float:
    categorical = averages(
        records[records["method"] == "categorical"], ["environment", "num_features"], "excess_cramer"
    )
    ours = averages(rows, ["environment", "num_features", "features"], "excess_cramer").unstack().min(axis=1)
    return float((ours < categorical.reindex(ours.index)).mean())
