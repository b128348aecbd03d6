"""All methods with the same number of numbers per state, on one model."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import DivergenceError
from bellsketch.core.features import Sigmoid
from bellsketch.core.imputation import anchor_decoder, fine_decoder
from bellsketch.core.metrics import cramer, wasserstein
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.algorithm import Algorithm, run
from bellsketch.tabular.categorical import categorical_dp
from bellsketch.tabular.dirac import dirac_dp
from bellsketch.tabular.expectile import expectile_dp
from bellsketch.tabular.ground_truth import GroundTruth
from bellsketch.tabular.moments import moments_dp
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.particles import particle_dp
from bellsketch.tabular.plotting import plot_cdf, visible_range
from bellsketch.tabular.quantile import quantile_dp
from bellsketch.tabular.schedules import Decay
from bellsketch.tabular.sketch import SketchDP, sketch_dp

SUPPORT_MARGIN = 0.05  # a categorical support as tight as an estimated range allows
ITERATIONS = 400
PARTICLE_ITERATIONS = 3_000
CONVERGED = 1e-8
"""A method has converged once nothing it stores changes by more than this share of the return range."""

Factory = Callable[[MRP, int, ReturnRange], Algorithm]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How one method did; errors are the largest over states."""

    method: str
    cramer: float | None
    """None, like the other errors, if the method diverged."""
    wasserstein: float | None
    """W₁."""
    mean_error: float | None
    """Of the decoded distribution, against V^π."""
    setup_seconds: float
    seconds_per_iteration: float | None
    iterations: int | None
    """Until nothing changed any more, or None if that did not happen."""
    distributions: AtomicDistribution | None = dataclasses.field(repr=False)

    def record(self) -> dict[str, Any]:
        """Everything but the distributions."""
        return {k: v for k, v in vars(self).items() if k != "distributions"}


def _sketch(mrp: MRP, num: int, return_range: ReturnRange, decode: str) -> SketchDP:
    features = Sigmoid.from_range(return_range, num)
    coefficients = fit_coefficients(features, return_range.grid(), mrp.rewards, (mrp.discount, 0.0))
    decoder = fine_decoder(coefficients, return_range) if decode == "fine" else anchor_decoder(features, return_range)
    return sketch_dp(mrp, coefficients, decoder)


def _particles(mrp: MRP, num: int, return_range: ReturnRange) -> Algorithm:
    step_size = Decay(0.05 * return_range.width, 1.0, 50.0)
    return particle_dp(mrp, num, return_range, step_size)


METHODS: dict[str, Factory] = {
    "sketch (fine)": lambda mrp, num, span: _sketch(mrp, num, span, "fine"),
    "sketch (anchors)": lambda mrp, num, span: _sketch(mrp, num, span, "anchors"),
    "categorical": lambda mrp, num, span: categorical_dp(mrp, span.expand(SUPPORT_MARGIN).points(num)),
    "quantile": lambda mrp, num, span: quantile_dp(mrp, num),
    "expectile": lambda mrp, num, span: expectile_dp(mrp, num),
    "moments": moments_dp,
    "MMD particles": _particles,
    "Dirac": lambda mrp, num, span: dirac_dp(mrp),
}
"""Every method as a function of the model, the numbers per state and the return range."""


def compare(
    key: jax.Array,
    mrp: MRP,
    truth: GroundTruth,
    num: int,
    return_range: ReturnRange,
    methods: dict[str, Factory] | None = None,
    report: Callable[[str], None] = lambda method: None,
) -> list[Comparison]:
    """Run each method to convergence on one model and compare it with the truth."""
    results = []
    for method, factory in (methods or METHODS).items():
        report(method)
        factory(mrp, num, return_range)  # compiles what there is to compile
        start = time.perf_counter()
        algorithm = factory(mrp, num, return_range)
        setup = time.perf_counter() - start
        steps = PARTICLE_ITERATIONS if method == "MMD particles" else ITERATIONS
        try:
            outcome = run(key, algorithm, steps, record_every=steps)  # one scan, without stops to look around
        except DivergenceError:
            results.append(Comparison(method, None, None, None, setup, None, None, None))
            continue
        start = time.perf_counter()
        run(key, algorithm, steps, record_every=steps)  # now compiled
        elapsed = time.perf_counter() - start
        moving = np.flatnonzero(outcome.change > CONVERGED * return_range.width)
        last = int(moving[-1]) + 2 if moving.size else 1
        decoded = algorithm.decode(outcome.state)
        results.append(
            Comparison(
                method,
                float(np.max(cramer(decoded, truth.distribution))),
                float(np.max(wasserstein(decoded, truth.distribution))),
                float(np.max(np.abs(decoded.mean - mrp.value))),
                setup,
                elapsed / steps,
                last if last <= steps else None,
                decoded,
            )
        )
    return results


def plot_comparison(
    results: list[Comparison],
    truth: GroundTruth,
    sweep: dict[int, list[Comparison]] | None = None,
    max_states: int = 4,
) -> Figure:
    """Distributions side by side (a row per method, a column per state), and error against m if there is a sweep."""
    num_states = truth.distribution.locations.shape[0]
    states = np.unique(np.linspace(0, num_states - 1, min(num_states, max_states)).astype(int))
    figure = plt.figure(figsize=(2.1 * len(states) + (5.0 if sweep else 0), 1.25 * len(results)), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=[2.1 * len(states), 5.0]) if sweep else [figure]
    axes = parts[0].subplots(len(results), len(states), sharex="col", sharey=True, squeeze=False)
    colours = {result.method: f"C{i}" for i, result in enumerate(results)}
    for row, result in zip(axes, results, strict=True):
        for axis, state in zip(row, states, strict=True):
            plot_cdf(axis, truth.distribution[state], color="0.8", linewidth=4)
            if result.distributions is not None:
                plot_cdf(axis, result.distributions[state], color=colours[result.method], linewidth=1.2)
        row[0].set_ylabel(result.method.replace(" ", "\n"), rotation=0, ha="right", va="center", fontsize=8)
    for axis, state in zip(axes[0], states, strict=True):
        axis.set_title(f"state {state}: P(G ≤ x)", fontsize=9)
        axis.set_xlim(*visible_range(truth.distribution[state]))
    if sweep:
        axis = parts[1].subplots()
        for method, colour in colours.items():
            errors = [next(r.cramer for r in sweep[num] if r.method == method) for num in sweep]
            drawn = np.maximum([np.nan if error is None else error for error in errors], 1e-12)
            axis.loglog(list(sweep), drawn, "o-", color=colour, label=method)
        axis.set(xlabel="numbers per state, m", ylabel="Cramér distance, largest over states")
        axis.set_xticks(list(sweep), [str(num) for num in sweep])
        axis.minorticks_off()
        axis.legend(fontsize=8, frameon=False)
    return figure
