"""The worked example of Bellman coefficients: fit, singular vectors and values, eigenvalues."""

import dataclasses
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.features import Gaussian, Sigmoid, TranslationFamily
from bellsketch.core.ranges import ReturnRange
from bellsketch.experiments.claims import OURS as OURS_WHERE
from bellsketch.experiments.claims import Claim, Claimant
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.plotting import INTERCEPT_LABELS, shades
from bellsketch.experiments.sweeps import OURS, PAPERS

WHERE = "App. Mathematical properties of Bellman coefficients"
FAMILIES: dict[str, type[TranslationFamily]] = {"sigmoid": Sigmoid, "gaussian": Gaussian}
DEFAULT_SLOPE = 2.0
NUM_VECTORS = 4


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's example. It does not say the slope, so that is swept around the default, 20/L = 2."""

    num_features: int = 20
    anchor_bound: float = 8.0
    grid_bound: float = 5.0
    grid_points: int = 10_000
    reward: float = 1.0
    discount: float = 0.8
    ridge: float = 1e-6
    drawn_slopes: tuple[tuple[str, float], ...] = (("sigmoid", 2.0), ("gaussian", 1.0))
    """Of what is drawn: slopes at which the paper's numbers come out."""
    slopes: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
    drawn_points: int = 161
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """Each family with each form of intercept."""
    return [{"features": name, "intercept": form} for name in FAMILIES for form in (PAPERS, OURS)]


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """Largest errors and norms for each slope; curves, vectors and spectra for the one that is drawn.

    Rows are told apart by ``quantity``: ``index`` is the feature, vector or value, ``z`` the return or anchor.
    """
    records: list[Record] = []
    anchors = ReturnRange(-settings.anchor_bound, settings.anchor_bound).points(settings.num_features)
    grid = ReturnRange(-settings.grid_bound, settings.grid_bound).grid(settings.grid_points, margin=0.0)
    drawn = dict(settings.drawn_slopes)[cell["features"]]
    for slope in settings.slopes:
        features = FAMILIES[cell["features"]](anchors, slope)
        fit = fit_coefficients(
            features, grid, [settings.reward], [settings.discount], ridge=settings.ridge, intercept=cell["intercept"]
        )
        matrix, offset = np.asarray(fit.matrices[0, 0]), np.asarray(fit.offsets[0, 0])
        eigenvalues = np.linalg.eigvals(matrix)
        z = np.linspace(-settings.anchor_bound, settings.anchor_bound, settings.drawn_points)
        target, fitted = features(settings.reward + settings.discount * z), features(z) @ matrix.T + offset
        outside = np.abs(z) > settings.grid_bound
        shared = {**cell, "slope": slope}
        summary = {
            "max_error": fit.max_error,
            "max_error_outside": float(np.abs(target - fitted)[outside].max()),
            "largest_singular_value": float(np.linalg.norm(matrix, 2)),
            "largest_real_part": float(eigenvalues.real.max()),
            "spectral_radius": float(np.abs(eigenvalues).max()),
        }
        records += [{**shared, "quantity": name, "value": value} for name, value in summary.items()]
        if slope == drawn:
            curves = {"feature": features(z), "target": target, "fitted": fitted}
            records += _curve_rows(shared, curves, z)
            records += _spectrum_rows(shared, matrix, anchors, eigenvalues)
    return records


def _curve_rows(shared: Record, curves: dict[str, np.ndarray], z: np.ndarray) -> list[Record]:
    return [
        {**shared, "quantity": name, "index": i, "z": float(x), "value": float(values[k, i])}
        for name, values in curves.items()
        for i in range(values.shape[1])
        for k, x in enumerate(z)
    ]


def _spectrum_rows(shared: Record, matrix: np.ndarray, anchors: np.ndarray, eigenvalues: np.ndarray) -> list[Record]:
    left, singular, right = np.linalg.svd(matrix)
    rows: list[Record] = [
        {**shared, "quantity": "singular_value", "index": i, "value": float(s)} for i, s in enumerate(singular)
    ]
    rows += [
        {**shared, "quantity": "eigenvalue", "index": i, "value": float(e.real), "imaginary": float(e.imag)}
        for i, e in enumerate(eigenvalues)
    ]
    for i in range(NUM_VECTORS):
        sign = np.sign(right[i, np.argmax(np.abs(right[i]))])  # vectors are known up to a sign they share
        for name, vector in (("right_vector", right[i]), ("left_vector", left[:, i])):
            rows += [
                {**shared, "quantity": name, "index": i, "z": float(x), "value": float(sign * v)}
                for x, v in zip(anchors, vector, strict=True)
            ]
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# The figure
# ---------------------------------------------------------------------------------------------------------------------


def plot(records: pd.DataFrame) -> Figure:
    """A row for each family: features, fit, singular vectors, singular values, eigenvalues."""
    figure, axes = plt.subplots(len(FAMILIES), 5, figsize=(17, 6.2), layout="constrained")
    for row, family in zip(axes, FAMILIES, strict=True):
        rows = records[records["features"] == family]
        papers = rows[rows["intercept"] == PAPERS]
        slope = papers.loc[papers["quantity"] == "feature", "slope"].iloc[0]
        _plot_curves(row[0], papers, {"feature": "-"})
        _plot_curves(row[1], papers, {"target": "-", "fitted": "--"})
        _plot_curves(row[2], papers, {"right_vector": "-", "left_vector": "--"}, every=1)
        _plot_spectra(row[3], row[4], rows)
        row[0].set_ylabel(f"{family}, slope {slope:g}", fontsize=10)
        row[1].set_ylim(-0.25, 1.25)
        for axis in row[:2]:
            for side in (-1, 1):
                axis.axvspan(side * Settings.grid_bound, side * Settings.anchor_bound, color="0.92", zorder=0)
            axis.set(xlim=(-Settings.anchor_bound, Settings.anchor_bound), xlabel="return z")
        row[2].set_xlabel("anchor")
    titles = (
        "features φ(z); μ on white",
        "φ(r + γz) and B φ(z) (dashed)",
        "singular vectors: right, left (dashed)",
        "singular values",
        "eigenvalues",
    )
    for axis, text in zip(axes[0], titles, strict=True):
        axis.set_title(text, fontsize=10)
    return figure


def _plot_curves(axis: Any, rows: pd.DataFrame, styles: dict[str, str], every: int = 3) -> None:
    for quantity, style in styles.items():
        lines = [line for _, line in rows[rows["quantity"] == quantity].groupby("index")][::every]
        for line, colour in zip(lines, shades(len(lines)), strict=True):
            axis.plot(line["z"], line["value"], style, color=colour, lw=1.3)


def _plot_spectra(values: Any, plane: Any, rows: pd.DataFrame) -> None:
    circle = np.exp(2j * np.pi * np.linspace(0, 1, 200))
    plane.plot(circle.real, circle.imag, color="0.8")
    for form, marker, colour in ((PAPERS, "o", "C0"), (OURS, "x", "C3")):
        chosen = rows[rows["intercept"] == form]
        singular = chosen[chosen["quantity"] == "singular_value"]
        eigen = chosen[chosen["quantity"] == "eigenvalue"]
        style = {"color": colour, "marker": marker, "linestyle": "none", "markersize": 5, "fillstyle": "none"}
        values.plot(singular["index"] + 1, singular["value"], **style, label=INTERCEPT_LABELS[form])
        plane.plot(eigen["value"], eigen["imaginary"], **style)
    values.axhline(1.0, color="0.8")
    values.legend(fontsize=8, frameon=False)
    values.set_xlabel("index")
    plane.set(xlabel="real part", ylabel="imaginary part")
    plane.axhline(0, color="0.9", zorder=0)


def claims(records: pd.DataFrame) -> list[Claim]:
    """What the appendix says of the example, and what the free intercept changes."""
    summary = records[records["index"].isna()].set_index(["quantity", "features", "intercept", "slope"])["value"]
    summary = summary.sort_index()
    drawn = records[records["quantity"] == "feature"].groupby("features")["slope"].first()

    def number(quantity: str, family: str, form: str = PAPERS) -> float:
        return float(summary[quantity, family, form, drawn[family]])

    claim = Claimant("bellman-coefficients", WHERE)
    result = []
    for family in FAMILIES:
        errors = summary["max_error", family, PAPERS]
        good = [f"{slope:g}" for slope, error in errors.items() if error < 0.002]
        result.append(
            claim(
                f"error-{family}",
                f"The largest error over [−5, 5] is below 0.002 for {family} features",
                number("max_error", family),
                "<",
                0.002,
                f"at slope {drawn[family]:g}; of the slopes swept, {', '.join(good)} do;"
                f" free intercept {number('max_error', family, OURS):.2g}",
            )
        )
    defaults = {family: float(summary["max_error", family, PAPERS, DEFAULT_SLOPE]) for family in FAMILIES}
    result.append(
        claim(
            "error-default-slope",
            "… also if both features have the default slope, 20/L = 2",
            max(defaults.values()),
            "<",
            0.002,
            ", ".join(f"{family} {error:.2g}" for family, error in defaults.items()),
        )
    )
    both = list(FAMILIES)
    outside = min(number("max_error_outside", f) / number("max_error", f) for f in both)
    singular = {form: [number("largest_singular_value", f, form) for f in both] for form in (PAPERS, OURS)}
    real = {form: [number("largest_real_part", f, form) for f in both] for form in (PAPERS, OURS)}
    return [
        *result,
        claim("error-outside", "The error is larger outside [−5, 5]", outside, ">", 1.0, "smaller ratio of the two"),
        claim(
            "harmonic",
            "The leading singular vectors resemble harmonic functions",
            min(_harmonic(records[records["features"] == family]) for family in both),
            ">",
            0.8,
            f"share of a vector that the best sinusoid explains at anchors in [−5, 5], median over {NUM_VECTORS}"
            " right vectors, smaller of the two families",
        ),
        claim(
            "not-a-contraction",
            "The largest singular value exceeds 1: one backup may expand",
            min(singular[PAPERS]),
            ">",
            1.0,
            "sigmoid {:.3f}, Gaussian {:.3f}".format(*singular[PAPERS]),
        ),
        claim(
            "stable",
            "All eigenvalues have real parts below or very close to 1",
            max(real[PAPERS]),
            "≤",
            1.001,
            "sigmoid {:.4f}, Gaussian {:.4f}".format(*real[PAPERS]),
        ),
        claim(
            "free-contracts",
            "With a free intercept the sigmoid's backup contracts in L²",
            singular[OURS][0],
            "<",
            1.0,
            f"largest singular value; √γ = {Settings.discount**0.5:.3f}; Gaussian {singular[OURS][1]:.3f}",
            OURS_WHERE,
        ),
        claim(
            "free-spectrum",
            "With a free intercept no eigenvalue has a real part above γ",
            max(real[OURS]),
            "≤",
            Settings.discount,
            "largest real parts: sigmoid {:.3f}, Gaussian {:.3f}".format(*real[OURS]),
            OURS_WHERE,
        ),
    ]


def _harmonic(rows: pd.DataFrame) -> float:
    """How much of the leading right singular vectors a sinusoid of some frequency explains, in the median."""
    chosen = rows[(rows["quantity"] == "right_vector") & (rows["intercept"] == PAPERS)]
    chosen = chosen[chosen["z"].abs() <= Settings.grid_bound]
    shares = []
    for _, vector in chosen.groupby("index"):
        z, v = vector["z"].to_numpy(), vector["value"].to_numpy()
        fits = [np.column_stack([np.cos(w * z), np.sin(w * z)]) for w in np.linspace(0.02, 3.0, 300)]
        rests = [np.sum((v - basis @ np.linalg.lstsq(basis, v, rcond=None)[0]) ** 2) for basis in fits]
        shares.append(1 - min(rests) / np.sum(v**2))
    return float(np.median(shares))


EXPERIMENT = Experiment(
    name="bellman-coefficients",
    title="The worked example of Bellman coefficients, its fit and its spectrum",
    quick=Settings(),
    full=Settings(),
    cells=cells,
    measure=measure,
    plot=plot,
    claims=claims,
)
