"""What was computed as pictures and HTML, for the page."""

import base64
import html
import io
import math

import numpy as np
import scipy.linalg
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.ranges import GRID_MARGIN
from bellsketch.explore.settings import REACH
from bellsketch.explore.view import BACKUPS, View
from bellsketch.tabular.operator import single_threaded_blas
from bellsketch.tabular.plotting import visible_range

FEW_FEATURES = 5
"""So many of those that have no place on the line are drawn: more cannot be told apart."""
FLOOR = 1e-17
"""Smaller numbers are drawn as this."""
INK = "0.35"
MARGINS = {"left": 0.05, "right": 0.99, "bottom": 0.17, "top": 0.9}
"""Fixed: finding them out would take as long as drawing."""
STEPS = 500
"""Points of a line."""


def draw_operator(view: View) -> Figure:
    """Features, one reward's A, the operator on all states, and its spectrum."""
    figure = Figure(figsize=(13, 3.2))
    features, one, whole, spectrum = figure.subplots(1, 4, gridspec_kw={**MARGINS, "wspace": 0.3})
    _draw_features(features, view)
    _draw_one(one, view)
    _draw_whole(whole, view)
    _draw_spectrum(spectrum, view)
    return figure


def _draw_features(axis: Axes, view: View) -> None:
    returns, features = view.problem.returns, view.solution.features
    shown = returns.expand(REACH / 2)
    z = np.linspace(shown.low, shown.high, STEPS)
    values = features(z)
    placed = features.anchors is not None
    count = features.num_features if placed else min(FEW_FEATURES, features.num_features)
    for i, colour in enumerate(colormaps["viridis"](np.linspace(0.0, 0.9, count))):
        axis.plot(z, values[:, i], color=colour, linewidth=0.9)
    if features.anchors is not None:
        axis.plot(features.anchors, np.zeros(features.num_features), "|", color="k", markersize=5, clip_on=False)
    fitted = returns.expand(GRID_MARGIN)
    for low, high in ((shown.low, fitted.low), (fitted.high, shown.high)):
        axis.axvspan(low, high, color="0.92", zorder=0)
    inside = values[(z >= fitted.low) & (z <= fitted.high)]
    room = 0.05 * max(float(np.ptp(inside)), 1e-9)
    axis.set(xlim=(shown.low, shown.high), ylim=(inside.min() - room, inside.max() + room), xlabel="return z")
    few = "" if placed or features.num_features <= FEW_FEATURES else f", the first {FEW_FEATURES}"
    axis.set_title(f"features φ(z){few}; fitted on white", fontsize=9)


def _draw_one(axis: Axes, view: View) -> None:
    mrp, operator = view.problem.mrp, view.solution.operator
    used = [r for r, _, _ in operator.groups]  # those after which episodes go on
    chosen = max(used, key=lambda r: abs(mrp.rewards[r].mean))
    _heat(axis, np.asarray(operator.matrices[chosen]))
    axis.set_title(f"A of reward {mrp.rewards[chosen].name}", fontsize=9)
    axis.set(xlabel="feature of the next return", ylabel="feature of the return")


def _draw_whole(axis: Axes, view: View) -> None:
    m = view.settings.num_features
    _heat(axis, view.solution.operator.dense())
    for x in range(1, view.problem.mrp.num_states):
        axis.axhline(x * m - 0.5, color="0.8", linewidth=0.6)
        axis.axvline(x * m - 0.5, color="0.8", linewidth=0.6)
    middles = (np.arange(view.problem.mrp.num_states) + 0.5) * m - 0.5
    names = [str(x) for x in range(view.problem.mrp.num_states)]
    axis.set_xticks(middles, names)
    axis.set_yticks(middles, names)
    axis.tick_params(length=0)
    axis.set(xlabel="next state", ylabel="state")
    axis.set_title("the operator: a block for each pair of states", fontsize=9)


def _heat(axis: Axes, matrix: np.ndarray) -> None:
    """Red and blue about zero, on a scale that shows small entries beside large ones."""
    largest = max(float(np.abs(matrix).max()), 1e-12)
    colours = SymLogNorm(linthresh=max(largest / 100, 1e-12), vmin=-largest, vmax=largest)
    image = axis.imshow(matrix, cmap="RdBu_r", norm=colours, interpolation="nearest", aspect="equal")
    bar = axis.figure.colorbar(image, ax=axis, shrink=0.8, ticks=[-largest, 0.0, largest])
    bar.ax.set_yticklabels([f"{-largest:.2g}", "0", f"{largest:.2g}"], fontsize=7)
    bar.ax.minorticks_off()


def _draw_spectrum(axis: Axes, view: View) -> None:
    axis.add_patch(Circle((0, 0), 1.0, fill=False, color=INK, linewidth=1))
    discount = view.problem.mrp.discount
    axis.add_patch(Circle((0, 0), discount, fill=False, color="0.7", linestyle=":"))
    outside = np.abs(view.eigenvalues) >= 1
    for chosen, colour in ((~outside, "tab:blue"), (outside, "tab:red")):
        points = view.eigenvalues[chosen]
        axis.plot(points.real, points.imag, "o", color=colour, markersize=3.5, alpha=0.6, markeredgewidth=0)
    reach = 1.1 * max(1.0, view.radius)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="real", ylabel="imaginary")
    axis.set_title(f"eigenvalues, radius {view.radius:.3f}; γ dotted", fontsize=9)


def draw_returns(view: View) -> Figure:
    """Paths of embeddings, and distributions against the truth."""
    figure = Figure(figsize=(13, 3.0))
    widths = [1.5] + [1.0] * len(view.states)
    axes = figure.subplots(1, len(widths), width_ratios=widths, gridspec_kw={**MARGINS, "left": 0.06, "wspace": 0.2})
    _draw_paths(axes[0], view)
    for i, (axis, state) in enumerate(zip(axes[1:], view.states, strict=True)):
        true = view.true_distributions[i]
        low, high = visible_range(true)
        x = np.linspace(low, high, STEPS)
        axis.plot(x, _cdf(true, x), drawstyle="steps-post", color="0.75", linewidth=4, label="truth")
        if view.imputed is not None:
            estimate = _cdf(view.imputed[i], x)
            axis.plot(x, estimate, drawstyle="steps-post", color="tab:blue", linewidth=1.2, label="sketch")
        axis.set(xlim=(low, high), ylim=(-0.03, 1.03), xlabel="return")
        axis.set_title(f"state {state}: P(G ≤ x)", fontsize=9)
    axes[1].legend(frameon=False, fontsize=8)
    return figure


def _cdf(distribution: AtomicDistribution, points: np.ndarray) -> np.ndarray:
    """P(G ≤ x), for many points and many atoms at once."""
    ordered = distribution.sorted()
    below = np.searchsorted(ordered.locations, points, side="right")
    return np.append(0.0, np.cumsum(ordered.probabilities))[below]


def _draw_paths(axis: Axes, view: View) -> None:
    """In the plane of the first two principal components of paths and truth."""
    states, m = view.true_sketch.shape
    rows = np.concatenate([view.path.reshape(-1, m), view.true_sketch])
    centre = rows.mean(axis=0)
    plane = np.zeros((m, 2))
    with single_threaded_blas():
        components = scipy.linalg.eigh((rows - centre).T @ (rows - centre))[1][:, ::-1][:, :2]
    plane[:, : components.shape[1]] = components * np.where(
        components.sum(axis=0) < 0, -1.0, 1.0
    )  # signs are arbitrary
    path, truth = (view.path - centre) @ plane, (view.true_sketch - centre) @ plane
    for x in range(states):
        colour = f"C{x % 10}"
        axis.plot(*path[:, x].T, ".-", color=colour, linewidth=1, markersize=3, alpha=0.7)
        axis.plot(*truth[x], "x", color=colour, markersize=9, markeredgewidth=2)
    axis.plot(*path[0, 0], "o", color="0.5", markersize=7, zorder=5)
    axis.set(xlabel="first principal component", ylabel="second")
    cut = "" if len(view.path) > BACKUPS else f", cut after {len(view.path) - 1} backups"
    axis.set_title(f"embeddings, from φ(0) (grey) to the truth (×){cut}", fontsize=9)


def draw_errors(view: View) -> Figure:
    """The embedding error of each state under the certificate's bound."""
    figure = Figure(figsize=(13, 2.3))
    axis = figure.subplots(gridspec_kw=MARGINS | {"bottom": 0.2, "top": 0.88})
    errors = np.maximum(view.embedding_errors, FLOOR)
    names = np.arange(len(errors))
    axis.set_yscale("log")
    axis.bar(names, errors, width=0.5, color="tab:blue", alpha=0.7, label="‖U − U^π‖")
    bound = view.certificate.bound
    if math.isfinite(bound):
        axis.axhline(max(bound, FLOOR), color="tab:red", linewidth=1.5, label="certified bound")
    if errors.min() < view.resolution:
        axis.axhline(view.resolution, color="0.4", linewidth=1, linestyle=":", label="what the truth is off by")
    tallest = max(float(errors.max()), bound if math.isfinite(bound) else 0.0)
    axis.set(xlabel="state", xticks=names, ylim=(float(errors.min()) / 10, tallest * 30))
    axis.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    axis.set_title("embedding errors", fontsize=9)
    return figure


def numbers_table(view: View) -> str:
    """The numbers as HTML."""
    style = "display: grid; grid-template-columns: max-content max-content; gap: 0.2rem 2.5rem"
    cells = (html.escape(cell) for row in view.numbers().items() for cell in row)
    return f"<div id='numbers' style='{style}'>{''.join(f'<span>{cell}</span>' for cell in cells)}</div>"


def paragraph(words: str, name: str) -> str:
    """Text as HTML, with a name to find it by."""
    return f"<p id='{name}'>{html.escape(words)}</p>"


def picture(figure: Figure, words: str) -> str:
    """The picture as HTML with the picture in it: a file of its own may be gone when a page asks for it."""
    data = base64.b64encode(png(figure)).decode()
    return f"<img src='data:image/png;base64,{data}' alt='{html.escape(words)}' style='width: 100%'>"


def png(figure: Figure, dpi: int = 110) -> bytes:
    """The picture as a file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return file.getvalue()
