"""The paper's propositions as numbers: the one-step bound, the bound for indicator features, regression errors."""

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.coefficients import BellmanCoefficients, fit_coefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.families import make_features
from bellsketch.core.features import FeatureMap, Indicator
from bellsketch.core.ranges import ReturnRange
from bellsketch.experiments.claims import OURS as OURS_WHERE
from bellsketch.experiments.claims import Claim
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.plotting import COLOURS, INTERCEPT_LABELS, STYLES
from bellsketch.experiments.problems import DETERMINISTIC, problem, title
from bellsketch.experiments.sweeps import FAMILY_NAMES, OURS, PAPERS
from bellsketch.tabular.certificate import indicator_bound
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import iterate
from bellsketch.tabular.sketch import sketch_operator

POINTS_PER_BIN = 50
NUM_ATOMS = 5
"""Of each random return distribution, at most."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Propositions 1 and 4 on deterministic environments, and the regression error of each family on one of them."""

    environments: tuple[str, ...] = DETERMINISTIC
    families: tuple[str, ...] = FAMILY_NAMES
    num_features: tuple[int, ...] = (10, 20, 50, 100, 200, 500)
    distributions: int = 200
    """Random return distributions on which Prop. 1 is tried."""
    prop1_features: int = 50
    iterations: int = 500
    error_environment: str = "random_chain"
    error_features: tuple[int, ...] = (5, 10, 15, 20, 30, 40, 50, 70, 100)
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """Prop. 1 by environment and family, Prop. 4 by environment and m, regression errors by family."""
    return [
        *({"part": "prop1", "environment": e, "features": f} for e in settings.environments for f in settings.families),
        *({"part": "prop4", "environment": e, "num": m} for e in settings.environments for m in settings.num_features),
        *({"part": "regression", "features": f} for f in settings.families),
    ]


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """One part of one cell."""
    if cell["part"] == "prop1":
        return _one_step(settings, cell)
    if cell["part"] == "prop4":
        return _indicator_bound(settings, cell)
    return _regression_errors(settings, cell)


# ---------------------------------------------------------------------------------------------------------------------
# Prop. 1: a backup of the sketch is off by no more than the largest regression error
# ---------------------------------------------------------------------------------------------------------------------


def _one_step(settings: Settings, cell: Cell) -> list[Record]:
    case = problem(cell["environment"], settings.seed)
    features = make_features(cell["features"], case.return_range, settings.prop1_features)
    records = []
    for form in (PAPERS, OURS):
        fit = fit_coefficients(
            features, case.return_range.grid(), case.mrp.rewards, (case.mrp.discount, 0.0), intercept=form
        )
        worst_return, bound = _largest_error(case.mrp, fit)
        key = jax.random.key(settings.seed)
        tried = [_random_returns(k, case.mrp) for k in jax.random.split(key, settings.distributions)]
        certain = AtomicDistribution(np.full((case.mrp.num_states, 1), worst_return), np.ones((case.mrp.num_states, 1)))
        gaps = [_one_step_gap(case.mrp, fit, eta) for eta in (certain, *tried)]
        shared = {"part": "prop1", "environment": case.name, "features": cell["features"], "intercept": form}
        records.append({**shared, "value": float(max(gaps)), "bound": bound})
    return records


def _largest_error(mrp: MRP, fit: BellmanCoefficients) -> tuple[float, float]:
    """sup_g max_r ‖φ(r + γg) − A φ(g) − c‖ on a fine grid over possible returns, and where it is."""
    least, greatest = mrp.return_bounds
    g = np.linspace(least.min(), greatest.max(), 20_001)
    errors = np.zeros_like(g)
    for reward in mrp.rewards:
        matrix, offset = fit.at(reward, mrp.discount)
        # Of a reward with several atoms it is the mean error that enters a backup.
        target = sum(w * fit.features(a + mrp.discount * g) for a, w in zip(reward.atoms, reward.weights, strict=True))
        errors = np.maximum(errors, np.linalg.norm(target - fit.features(g) @ matrix.T - offset, axis=1))
    return float(g[errors.argmax()]), float(errors.max())


def _random_returns(key: jax.Array, mrp: MRP) -> AtomicDistribution:
    """A few atoms for each state, on the grid on which the bound was looked for."""
    least, greatest = mrp.return_bounds
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    grid = np.linspace(least.min(), greatest.max(), 20_001)
    shape = (mrp.num_states, int(rng.integers(1, NUM_ATOMS + 1)))
    return AtomicDistribution(rng.choice(grid, shape), rng.dirichlet(np.ones(shape[1]), shape[0]))


def _one_step_gap(mrp: MRP, fit: BellmanCoefficients, eta: AtomicDistribution) -> float:
    """max_x ‖Φ(𝒯^π η)(x) − (𝒯_φ Φη)(x)‖, each side by its definition."""
    sketch = np.einsum("xn,xnm->xm", eta.probabilities, fit.features(eta.locations))
    through_sketch = sketch_operator(mrp, fit)(sketch)
    o = mrp.outcomes
    direct = np.zeros_like(sketch)
    for x, p, r, y in zip(o.state, o.probability, o.reward, o.successor, strict=True):
        reward = mrp.rewards[r]
        for atom, weight in zip(reward.atoms, reward.weights, strict=True):
            if y < 0:
                direct[x] += p * weight * fit.features(atom)
            else:
                direct[x] += p * weight * eta.probabilities[y] @ fit.features(atom + mrp.discount * eta.locations[y])
    return float(np.linalg.norm(direct - through_sketch, axis=1).max())


# ---------------------------------------------------------------------------------------------------------------------
# Prop. 4: with indicator features the error is at most (G_max − G_min)(3 + 2γ) / ((1 − γ) m)
# ---------------------------------------------------------------------------------------------------------------------


def _indicator_bound(settings: Settings, cell: Cell) -> list[Record]:
    case, m = problem(cell["environment"], settings.seed), cell["num"]
    mrp, discount = case.mrp, case.mrp.discount
    rewards = [atom for reward in mrp.rewards for atom in reward.atoms]
    whole = ReturnRange(min(rewards) / (1 - discount), max(rewards) / (1 - discount))
    features = Indicator(whole.points(m + 1))
    centres = whole.low + (np.arange(m * POINTS_PER_BIN) + 0.5) * whole.width / (m * POINTS_PER_BIN)
    mu = AtomicDistribution(centres, np.full(centres.size, 1 / centres.size))
    # The last feature is 1 on the whole range: the span contains the constants and no intercept is needed.
    fit = fit_coefficients(features, mu, mrp.rewards, (discount, 0.0), ridge=1e-12, intercept=PAPERS)
    start = np.tile(features(0.0), (mrp.num_states, 1))
    sketch = iterate([sketch_operator(mrp, fit)], start[None], settings.iterations)[0]
    error = np.abs(sketch - case.truth.embedding(features)).sum(axis=1).max() * whole.width / m
    return [
        {
            "part": "prop4",
            "environment": case.name,
            "features": "indicator",
            "num_features": m,
            "value": float(error),
            "bound": indicator_bound(mrp, features),
        }
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Regression error: what Prop. 1 says is left to a single step
# ---------------------------------------------------------------------------------------------------------------------


def _regression_errors(settings: Settings, cell: Cell) -> list[Record]:
    case = problem(settings.error_environment, settings.seed)
    records = []
    for num in settings.error_features:
        features: FeatureMap = make_features(cell["features"], case.return_range, num)
        for form in (PAPERS, OURS):
            fit = fit_coefficients(
                features, case.return_range.grid(), case.mrp.rewards, (case.mrp.discount,), intercept=form
            )
            shared = {"part": "regression", "environment": case.name, "features": cell["features"], "intercept": form}
            records.append({**shared, "num_features": num, "value": fit.max_error})
    return records


# ---------------------------------------------------------------------------------------------------------------------
# The figure
# ---------------------------------------------------------------------------------------------------------------------


def plot(records: pd.DataFrame) -> Figure:
    """Prop. 1: gap against bound. Prop. 4: error and bound against m. Regression error against m."""
    figure, (first, second, third) = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
    _plot_prop1(first, records[records["part"] == "prop1"])
    _plot_prop4(second, records[records["part"] == "prop4"])
    rows = records[records["part"] == "regression"]
    for (family, form), line in rows.groupby(["features", "intercept"]):
        label = str(family) if form == PAPERS else None
        third.loglog(line["num_features"], line["value"], STYLES[form], color=COLOURS[family], marker=".", label=label)
    name = title(str(rows["environment"].iloc[0]))
    third.plot([], [], "--", color="0.4", label=INTERCEPT_LABELS[OURS])
    third.set(xlabel="number of features m", title=f"Largest regression error, {name}")
    third.legend(fontsize=7, frameon=False)
    return figure


def _plot_prop1(axis: Any, rows: pd.DataFrame) -> None:
    for family, group in rows.groupby("features"):
        for form, marker in ((PAPERS, "o"), (OURS, "x")):
            chosen = group[group["intercept"] == form]
            label = str(family) if form == PAPERS else None
            axis.loglog(chosen["bound"], chosen["value"], marker, color=COLOURS[family], ms=5, mfc="none", label=label)
    span = [rows["bound"].min() / 2, rows["bound"].max() * 2]
    axis.plot(span, span, color="black", lw=1)
    axis.fill_between(span, span, [s * 1e3 for s in span], color="0.93", zorder=0)
    axis.set(
        ylim=(rows["value"].min() / 3, span[1] * 3),
        xlabel="sup over returns of the regression error",
        ylabel="largest one-step error found",
        title="Prop. 1: nothing above the line (○ paper's form, × ours)",
    )
    axis.legend(fontsize=7, frameon=False)


def _plot_prop4(axis: Any, rows: pd.DataFrame) -> None:
    for i, (environment, line) in enumerate(rows.groupby("environment")):
        axis.loglog(line["num_features"], line["value"], "o-", color=f"C{i}", ms=3, label=title(str(environment)))
        axis.loglog(line["num_features"], line["bound"], ":", color=f"C{i}")
    axis.plot([], [], ":", color="0.4", label="bound")
    axis.set(xlabel="number of indicator features m", ylabel="‖U − U^π‖", title="Prop. 4: errors under their bounds")
    axis.set_ylim(bottom=1e-4)  # returns that fall on edges leave no error at all
    axis.legend(fontsize=7, frameon=False, loc="lower left")


def claims(records: pd.DataFrame) -> list[Claim]:
    """The propositions, and what the text concludes from them."""
    prop1, prop4, errors = (records[records["part"] == part] for part in ("prop1", "prop4", "regression"))
    filled = prop1["value"] / prop1["bound"]
    share = prop4["value"] / prop4["bound"]
    # Where returns happen to fall on edges an environment's error vanishes at some m: take the worst environment.
    relative = prop4["value"] / prop4.groupby("environment")["bound"].transform("max")
    worst = relative.groupby(prop4["num_features"]).max()
    exponent = float(np.polyfit(np.log(worst.index.to_numpy()), np.log(worst.to_numpy()), 1)[0])
    papers = errors[errors["intercept"] == PAPERS].set_index(["features", "num_features"])["value"].unstack()
    falls = (papers.iloc[:, -1] / papers.iloc[:, 0]).sort_values()
    return [
        Claim(
            "theory.prop-1",
            "A backup of the sketch is off by at most the largest regression error",
            "Prop. 1",
            float(filled.max()),
            "≤",
            1.0 + 1e-9,
            f"largest error found / bound over environments, families and intercepts; median {filled.median():.2g}",
        ),
        Claim(
            "theory.prop-4",
            "Indicator features: the error is below (G_max − G_min)(3 + 2γ)/((1 − γ)m)",
            "Prop. 4",
            float(share.max()),
            "≤",
            1.0,
            f"largest error / bound over environments and m; median {share.median():.2g}",
        ),
        Claim(
            "theory.prop-4-rate",
            "… so that embeddings become arbitrarily accurate as features are added",
            "Prop. 4",
            exponent,
            "<",
            -0.5,
            "exponent of the error in m, worst environment at each m; the bound has −1",
        ),
        Claim(
            "theory.regression-falls",
            "The regression error of every family falls as features are added",
            OURS_WHERE,
            float(falls.max()),
            "<",
            1.0,
            f"largest ratio of the error at the largest m to that at the smallest, {falls.index[-1]};"
            f" next, {falls.index[-2]}: {falls.iloc[-2]:.2g}",
        ),
    ]


EXPERIMENT = Experiment(
    name="theory",
    title="Propositions 1 and 4 against measured errors, and each family's regression error",
    quick=Settings(("random_chain", "cycle", "tree"), ("sigmoid", "gaussian", "indicator"), (10, 50, 200), 20),
    full=Settings(),
    cells=cells,
    measure=measure,
    plot=plot,
    claims=claims,
)
