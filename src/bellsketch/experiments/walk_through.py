"""The paper's walk-through (Fig. 2 and its sigmoid twin): Sketch-DP on the loopy fork, panel by panel."""

import dataclasses
import functools

import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.features import FeatureMap, Fourier, Sigmoid
from bellsketch.core.imputation import Decoder
from bellsketch.core.metrics import cramer, squared_embedding_error
from bellsketch.core.projections import categorical_projection
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.algorithm import run
from bellsketch.tabular.certificate import certify
from bellsketch.tabular.environments import make
from bellsketch.tabular.ground_truth import GroundTruth, ground_truth
from bellsketch.tabular.sketch import SketchDP, sketch_operator

# Sec. "Sketch-DP at work": 13 features over [−4.5, 4.5], μ uniform on a dense grid over [−4, 4], start at φ(0).
NUM_FEATURES = 13
FEATURE_RANGE = ReturnRange(-4.5, 4.5)
REGRESSION_RANGE = ReturnRange(-4.0, 4.0)
ITERATIONS = 200
SHOWN_ITERATIONS = (1, 3, 6, 12, 24, 200)
STATE_COLOURS = ("tab:blue", "tab:orange", "tab:red", "tab:green")


@dataclasses.dataclass(frozen=True)
class WalkThrough:
    """One run of Sketch-DP, and everything the figure shows of it."""

    name: str
    """``fourier`` or ``sigmoid``."""
    path: Float[np.ndarray, "t s m"]
    """The sketches after 0, 1, 2, … iterations."""
    max_regression_error: float
    spectral_radius: float
    bound: float
    """Of the certificate."""

    @property
    def features(self) -> FeatureMap:
        if self.name == "fourier":
            return Fourier(FEATURE_RANGE.low, FEATURE_RANGE.high, NUM_FEATURES)
        return Sigmoid(FEATURE_RANGE.points(NUM_FEATURES), 5 * Sigmoid.width / REGRESSION_RANGE.width)

    @property
    def decoder(self) -> Decoder:
        """Onto an even grid of as many points as there are features."""
        return Decoder(self.features, FEATURE_RANGE.points(NUM_FEATURES))

    @property
    def truth(self) -> GroundTruth:
        return _truth()

    @functools.cached_property
    def true_embedding(self) -> Float[np.ndarray, "s m"]:
        return self.truth.embedding(self.features)

    @property
    def final(self) -> Float[np.ndarray, "s m"]:
        return self.path[-1]

    @property
    def embedding_sq_error(self) -> float:
        """The largest over states."""
        return float(squared_embedding_error(self.final, self.true_embedding).max())

    @property
    def cramer(self) -> float:
        """Of the distributions decoded onto the even grid, the largest over states."""
        return float(cramer(self.decoder(self.final), self.truth.distribution).max())

    def principal_components(self) -> tuple[Float[np.ndarray, "m 2"], Float[np.ndarray, " m"], float]:
        """The path's first two components, its centre, and the share of variance these two explain."""
        rows = self.path.reshape(-1, self.path.shape[-1])
        centre = rows.mean(axis=0)
        _, s, components = np.linalg.svd(rows - centre, full_matrices=False)
        plane = components[:2].T
        plane = plane * np.where((rows[0] - centre) @ plane > 0, -1.0, 1.0)  # signs are arbitrary: start lower left
        return plane, centre, float((s[:2] ** 2).sum() / (s**2).sum())


@functools.cache
def _truth() -> GroundTruth:
    return ground_truth(make("loopy_fork"))


def walk_through(
    key: jax.Array, name: str, *, intercept: str = "free", ridge: float = 1e-9, iterations: int = ITERATIONS
) -> WalkThrough:
    """Run the walk-through with ``fourier`` or ``sigmoid`` features."""
    mrp = make("loopy_fork")
    blank = WalkThrough(name, np.zeros((1, mrp.num_states, NUM_FEATURES)), np.nan, np.nan, np.nan)
    features, grid = blank.features, REGRESSION_RANGE.grid(margin=0.0)
    coefficients = fit_coefficients(features, grid, mrp.rewards, (mrp.discount, 0.0), ridge=ridge, intercept=intercept)
    operator = sketch_operator(mrp, coefficients)
    result = run(key, SketchDP(features, operator.on_device(), blank.decoder), iterations, record_every=1)
    start = np.broadcast_to(features(0.0), result.state.shape)
    return WalkThrough(
        name,
        np.concatenate([start[None], result.history]),
        coefficients.max_error,
        operator.spectral_radius(),
        certify(mrp, coefficients, operator, result.state).bound,
    )


# ---------------------------------------------------------------------------------------------------------------------
# The figure
# ---------------------------------------------------------------------------------------------------------------------


def plot_walk_through(runs: list[WalkThrough], beside: WalkThrough | None = None) -> Figure:
    """Panels A–E, one row per feature map. The path of a run ``beside`` it is drawn dashed."""
    figure = plt.figure(figsize=(15, 3.9 * len(runs)), layout="constrained")
    rows = np.atleast_1d(np.array(figure.subfigures(len(runs), 1)))
    for row, run_ in zip(rows, runs, strict=True):
        row.suptitle(f"{run_.name.capitalize()} features, m = {NUM_FEATURES}", fontsize=11, fontweight="bold")
        left, middle, right = row.subfigures(1, 3, width_ratios=[0.8, 1.05, 2.2])
        a, b = left.subplots(2, 1, height_ratios=[1.15, 1])
        _plot_model(a)
        _plot_features(b, run_)
        _plot_paths(middle.subplots(), run_, beside)
        _plot_decoded(right.subplots(2, 4, sharex=True, sharey="row"), run_)
    return figure


def _letter(axis: Axes, letter: str, title: str) -> None:
    axis.set_title(f"$\\bf{{{letter}}}$  {title}", loc="left", fontsize=9)


def _plot_model(axis: Axes) -> None:
    places: dict[int, tuple[float, float]] = {1: (0.0, 0.0), 2: (1.15, 0.0), 3: (2.3, 0.62), 4: (2.3, -0.62)}
    edges = {(1, 2): "", (2, 3): "1/3", (2, 4): "2/3", (3, 1): "", (4, 1): ""}
    bends = {(3, 1): 0.38, (4, 1): -0.38}
    for (start, end), label in edges.items():
        arrow = FancyArrowPatch(
            places[start],
            places[end],
            connectionstyle=f"arc3,rad={bends.get((start, end), 0.0)}",
            arrowstyle="-|>",
            mutation_scale=11,
            shrinkA=11,
            shrinkB=11,
            color="0.35",
        )
        axis.add_patch(arrow)
        if label:
            (x0, y0), (x1, y1) = places[start], places[end]
            axis.text((x0 + x1) / 2, (y0 + y1) / 2 + 0.16 * np.sign(y1), label, fontsize=8, ha="center", va="center")
    for state, (x, y) in places.items():
        axis.plot(x, y, "o", markersize=19, color=STATE_COLOURS[state - 1])
        axis.text(x, y, str(state), color="white", ha="center", va="center", fontweight="bold")
    for state, reward in ((3, "r = −1"), (4, "r = +1")):
        axis.text(places[state][0] + 0.3, places[state][1], reward, fontsize=8, va="center")
    axis.set(xlim=(-0.4, 3.2), ylim=(-1.25, 1.25))
    axis.axis("off")
    _letter(axis, "A", "the model")


def _plot_features(axis: Axes, run_: WalkThrough) -> None:
    z = np.linspace(-6, 6, 500)
    shown = slice(None) if isinstance(run_.features, Sigmoid) else slice(5)
    axis.plot(z, run_.features(z)[:, shown], linewidth=1.2)
    if isinstance(run_.features, Sigmoid):
        for anchor in np.asarray(run_.features.anchors):
            axis.axvline(anchor, color="0.6", linestyle=":", linewidth=0.8)
    for low, high in ((-6, REGRESSION_RANGE.low), (REGRESSION_RANGE.high, 6)):
        axis.axvspan(low, high, color="0.9", zorder=0)
    axis.set(xlim=(-6, 6), xlabel="return z")
    _letter(axis, "B", "features φ(z)" + ("" if shown.stop is None else " (first 5)") + "; μ on white")


def _plot_paths(axis: Axes, run_: WalkThrough, beside: WalkThrough | None) -> None:
    plane, centre, explained = run_.principal_components()
    path, truth = (run_.path - centre) @ plane, (run_.true_embedding - centre) @ plane
    for state, colour in enumerate(STATE_COLOURS):
        axis.plot(*path[:, state].T, "-", color=colour, linewidth=1.4, alpha=0.7)
        axis.plot(*path[:, state].T, ".", color=colour, markersize=3.5)
        axis.plot(*truth[state], "x", color=colour, markersize=11, markeredgewidth=2.5)
        axis.annotate(
            str(state + 1), truth[state], xytext=(8, 4), textcoords="offset points", color=colour, fontsize=10
        )
        if beside is not None:
            axis.plot(*((beside.path[:, state] - centre) @ plane).T, "--", color="0.75", linewidth=4, zorder=0)
    axis.plot(*path[0, 0], "o", color="0.5", markersize=8, zorder=5)
    axis.set(xlabel="first principal component", ylabel="second")
    axis.text(0.98, 0.95, f"{explained:.1%} of variance", transform=axis.transAxes, ha="right", va="top", fontsize=9)
    if beside is not None:
        handles = [
            Line2D([], [], color="tab:blue", linestyle="-", label="no intercept (the paper's)"),
            Line2D([], [], color="0.75", linestyle="--", linewidth=4, label="free intercept (ours)"),
        ]
        axis.legend(handles=handles, fontsize=7, frameon=False, loc="best")
    _letter(axis, "C", "embeddings, from φ(0) (grey) to the truth (×)")


def _plot_decoded(axes: np.ndarray, run_: WalkThrough) -> None:
    support = np.asarray(run_.decoder.support)
    projected = categorical_projection(run_.truth.distribution, support)
    bins = np.linspace(-4.5, 4.5, 91)
    scale = (support[1] - support[0]) / (bins[1] - bins[0])  # so that the histogram lies under the stems
    shades = plt.colormaps["viridis_r"](np.linspace(0.05, 1.0, len(SHOWN_ITERATIONS)))
    shown = [k for k in SHOWN_ITERATIONS if k < len(run_.path)]
    imputed = {k: run_.decoder(run_.path[k]) for k in shown}
    for state, (top, bottom) in enumerate(axes.T):
        true = run_.truth.distribution[state]
        weights = true.probabilities * scale
        top.hist(true.locations, bins=bins, weights=weights, color=STATE_COLOURS[state], alpha=0.35)
        _stems(top, projected[state], STATE_COLOURS[state])
        _stems(bottom, projected[state], "0.6")
        for k, shade in zip(shown, shades, strict=False):
            bottom.plot(support, imputed[k].probabilities[state], color=shade, linewidth=1.3, label=f"{k}")
        top.text(0.03, 0.9, f"state {state + 1}", transform=top.transAxes, fontsize=9, color=STATE_COLOURS[state])
        bottom.set_xlabel("return")
    _letter(axes[0, 0], "D", "the truth, and projected (stems)")
    _letter(axes[1, 0], "E", "decoded from the sketch")
    axes[1, -1].legend(
        title="iteration", fontsize=7, title_fontsize=7, frameon=False, loc="upper left", labelspacing=0.25
    )


def _stems(axis: Axes, distribution: AtomicDistribution, colour: str) -> None:
    lines = axis.stem(distribution.locations, distribution.probabilities, basefmt=" ", linefmt="-", markerfmt="o")
    lines.markerline.set(color=colour, markersize=4)
    lines.stemlines.set(color=colour, linewidth=1.2)
