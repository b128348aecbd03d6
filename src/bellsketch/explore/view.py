"""What the page shows for one choice of settings: computed and drawn here, without a browser."""

import base64
import dataclasses
import functools
import html
import io
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.linalg
from jaxtyping import Complex, Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import BellsketchError, BellsketchWarning
from bellsketch.core.families import make_features
from bellsketch.core.features import FeatureMap, TranslationFamily
from bellsketch.core.metrics import cramer, squared_embedding_error, wasserstein
from bellsketch.core.ranges import GRID_MARGIN, ReturnRange
from bellsketch.core.regression import FitReport
from bellsketch.explore.settings import REACH, Settings
from bellsketch.tabular.certificate import Certificate
from bellsketch.tabular.environments import make
from bellsketch.tabular.ground_truth import GroundTruth, ground_truth
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import single_threaded_blas
from bellsketch.tabular.plotting import visible_range
from bellsketch.tabular.solve import Solution, solve

VISIBLE = 1e-6
"""Returns range over all but this much of the mass of any state, at either end."""
SHOWN_STATES = 4
BACKUPS = 60
"""Of a path: γ⁶⁰ is 0.002."""
FAR = 20.0
"""A path that leaves the truth this many times further than it started from it is cut there."""
FEW_FEATURES = 5
"""So many of those that have no place on the line are drawn: more cannot be told apart."""
FLOOR = 1e-17
"""Smaller errors are rounding."""
INK = "0.35"
MARGINS = {"left": 0.05, "right": 0.99, "bottom": 0.17, "top": 0.9}
"""Fixed: finding them out would take as long as drawing."""
STEPS = 500
"""Points of a line."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """What depends on the environment only."""

    mrp: MRP
    truth: GroundTruth
    returns: ReturnRange
    """That are not rare."""


@dataclasses.dataclass(frozen=True)
class View:
    """A sketch with everything that is shown of it."""

    settings: Settings
    problem: Problem
    solution: Solution
    eigenvalues: Complex[np.ndarray, " u"]
    """Of the linear part of the operator, on all states."""
    path: Float[np.ndarray, "t s m"]
    """Sketches after 0, 1, 2, … backups, from φ(0)."""
    true_sketch: Float[np.ndarray, "s m"]
    states: tuple[int, ...]
    """Those whose distributions are drawn."""
    imputed: AtomicDistribution | None
    """Of these states; None if the sketch is so far off that it is no distribution's."""
    notes: tuple[str, ...]
    """What is not as it should be."""
    seconds: float

    @property
    def radius(self) -> float:
        """The spectral radius: below 1, iterating converges."""
        return float(np.abs(self.eigenvalues).max())

    @functools.cached_property
    def embedding_errors(self) -> Float[np.ndarray, " s"]:
        """‖U − U^π‖₂ of each state."""
        return np.sqrt(squared_embedding_error(self.solution.sketch, self.true_sketch))

    @functools.cached_property
    def true_distributions(self) -> AtomicDistribution:
        """Of the states that are drawn."""
        return self.problem.truth.distribution[list(self.states)]

    @functools.cached_property
    def certificate(self) -> Certificate:
        """A bound on the embedding errors. It takes longer than the rest, so it is computed when it is asked for."""
        with single_threaded_blas():
            return self.solution.certificate

    def numbers(self) -> dict[str, str]:
        """What a person wants to know, in words."""
        solution, reports, m = self.solution, self._reports, self.settings.num_features
        values = {
            "largest regression error": f"{solution.coefficients.max_error:.1e}",
            "operator norm max ‖A_r‖": f"{solution.coefficients.operator_norm:.3f}",
            "spectral radius": f"{self.radius:.3f}",
            "directions the regression uses": f"{min((r.rank for r in reports), default=m)} of {m}",
            "largest error of a mean": f"{np.abs(solution.mean - self.problem.mrp.value).max():.1e}",
            "largest embedding error ‖U − U^π‖": f"{self.embedding_errors.max():.1e}",
        }
        if self.imputed is not None:
            distances = (
                cramer(self.imputed, self.true_distributions),
                wasserstein(self.imputed, self.true_distributions),
            )
            for name, distance in zip(("Cramér", "Wasserstein"), distances, strict=True):
                values[f"{name} distance of the worst drawn"] = f"{distance.max():.1e}"
        return values

    def summary(self) -> str:
        """What is shown."""
        s, returns, anchors = self.settings, self.problem.returns, self.settings.anchor_range(self.problem.returns)
        return (
            f"{s.environment}: {self.problem.mrp.num_states} states, γ = {self.problem.mrp.discount:g}, returns from"
            f" {returns.low:.3g} to {returns.high:.3g}. {s.num_features} {s.family} features from {anchors.low:.3g} to"
            f" {anchors.high:.3g}, ridge {s.ridge:.0e}, intercept {s.intercept}; computed in {self.seconds:.1f} s."
        )

    def verdict(self) -> str:
        """What the certificate says."""
        certificate = self.certificate
        if not math.isfinite(certificate.bound):
            return f"No certificate: {certificate.reason}."
        if certificate.reason:
            return f"A certificate that says nothing: {certificate.reason}."
        sure = "proven" if certificate.proven else "not proven"
        return (
            f"Certified: all sketches are within {certificate.bound:.1e} of the truth ({certificate.method}, {sure})."
        )

    @property
    def _reports(self) -> list[FitReport]:
        return [report for row in self.solution.coefficients.reports for report in row if report is not None]


@functools.cache
def problem(environment: str) -> Problem:
    """An environment with its true distributions."""
    mrp = make(environment)
    truth = ground_truth(mrp)
    ends = truth.distribution.quantile(np.array([VISIBLE, 1 - VISIBLE]))
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not low < high:  # every return is the same
        low, high = low - 0.5, high + 0.5
    return Problem(mrp, truth, ReturnRange(low, high))


def features_of(settings: Settings, returns: ReturnRange) -> FeatureMap:
    """The feature map, of which slopes are relative to the returns wherever anchors are."""
    anchors = settings.anchor_range(returns)
    factor = settings.slope_factor
    if factor == 1.0 and not _has_slope(settings.family):
        return make_features(settings.family, anchors, settings.num_features, margin=0.0)
    if _has_slope(settings.family):
        factor *= anchors.width / returns.width
    return make_features(settings.family, anchors, settings.num_features, slope_factor=factor, margin=0.0)


@functools.cache
def _has_slope(family: str) -> bool:
    return isinstance(make_features(family, ReturnRange(0.0, 1.0), 2), TranslationFamily)


def look(settings: Settings) -> View:
    """Solve with these settings, and take a look from all sides. Raises what ``solve`` raises."""
    begun = time.perf_counter()
    given = problem(settings.environment)
    with single_threaded_blas(), _notes() as notes:
        solution = solve(
            given.mrp,
            features=features_of(settings, given.returns),
            return_range=given.returns,
            ridge=settings.ridge,
            intercept=settings.intercept,
        )
        states = _spread(given.mrp.num_states)
        try:
            imputed = solution.decoder(solution.sketch[list(states)])
        except BellsketchError as error:
            imputed = None
            notes.append(f"No distributions can be read off this sketch: {error}")
        view = View(
            settings,
            given,
            solution,
            scipy.linalg.eigvals(solution.operator.dense()),
            _path(solution),
            given.truth.embedding(solution.features),
            states,
            imputed,
            (),
            0.0,
        )
        notes += _advice(view)
    return dataclasses.replace(view, notes=tuple(notes), seconds=time.perf_counter() - begun)


@contextmanager
def _notes() -> Iterator[list[str]]:
    """Warnings of the library become notes."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught, np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("always", BellsketchWarning)
        yield notes
    notes[:0] = [str(entry.message) for entry in caught if issubclass(entry.category, BellsketchWarning)]


def _spread(num_states: int) -> tuple[int, ...]:
    return tuple(np.unique(np.linspace(0, num_states - 1, SHOWN_STATES).round().astype(int)).tolist())


def _path(solution: Solution) -> np.ndarray:
    """Backups from φ(0), as long as they stay in sight."""
    path = [np.broadcast_to(solution.features(0.0), solution.sketch.shape)]
    reach = FAR * max(1.0, float(np.abs(solution.sketch).max()), float(np.abs(path[0]).max()))
    for _ in range(BACKUPS):
        following = np.asarray(solution.operator(path[-1]))
        if not np.abs(following).max() <= reach:
            break
        path.append(following)
    return np.stack(path)


def _advice(view: View) -> list[str]:
    notes = []
    m = view.settings.num_features
    if (rank := min((r.rank for r in view._reports), default=m)) <= m / 2:
        notes.append(
            f"The regression uses {rank} of {m} directions: to float64 and this ridge, the other features are"
            " combinations of these. A larger slope, or fewer features, make them differ."
        )
    anchors, returns = view.settings.anchor_range(view.problem.returns), view.problem.returns
    if anchors.low > returns.low or anchors.high < returns.high:
        notes.append(
            f"Features range from {anchors.low:.3g} to {anchors.high:.3g}, returns from {returns.low:.3g} to"
            f" {returns.high:.3g}: what lies beyond the features is not resolved. Widen the anchors."
        )
    if view.radius >= 1:
        notes.append(
            f"The spectral radius is {view.radius:.3f}: repeated backups do not converge, and the fixed point that is"
            " shown is not where they lead. Try more features, a larger ridge or a free intercept."
        )
    return notes


# ---------------------------------------------------------------------------------------------------------------------
# Pictures
# ---------------------------------------------------------------------------------------------------------------------


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
