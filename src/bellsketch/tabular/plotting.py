"""Pictures of return distributions."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bellsketch.core.distributions import AtomicDistribution

MAX_STATES = 12
MAX_STEPS = 300


def plot_distributions(
    distributions: AtomicDistribution, truth: AtomicDistribution | None = None, states: list[int] | None = None
) -> Figure:
    """One panel per state: the CDF of the estimate (solid) and of the truth (grey band underneath)."""
    if states is None:
        states = list(range(min(distributions.locations.shape[0], MAX_STATES)))
    columns = min(len(states), 4)
    rows = -(-len(states) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.6 * columns, 2.1 * rows), sharey=True, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(states) :]:
        axis.axis("off")
    for axis, state in zip(axes.flat, states, strict=False):
        if truth is not None:
            plot_cdf(axis, truth[state], color="0.75", linewidth=4, label="truth")
        plot_cdf(axis, distributions[state], color="tab:blue", linewidth=1.2, label="sketch")
        axis.set_title(f"state {state}", fontsize=9)
        axis.set_xlim(*visible_range(distributions[state]))
    axes[-1, 0].set_xlabel("return")
    axes[0, 0].set_ylabel("P(G ≤ x)")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def plot_cdf(axis: Axes, distribution: AtomicDistribution, **style: Any) -> None:
    """The staircase of one distribution, at the points where it matters to the eye."""
    largest = np.argsort(distribution.probabilities)[-MAX_STEPS:]
    points = np.union1d(np.linspace(*visible_range(distribution), MAX_STEPS), distribution.locations[largest])
    axis.plot(points, distribution.cdf(points), drawstyle="steps-post", **style)


def visible_range(distribution: AtomicDistribution) -> tuple[float, float]:
    """Where the distribution is, with a little room on both sides."""
    low, high = (float(distribution.quantile(level)) for level in (0.001, 0.999))
    pad = 0.15 * (high - low) if high > low else max(0.25, 0.1 * abs(low))
    return low - pad, high + pad
