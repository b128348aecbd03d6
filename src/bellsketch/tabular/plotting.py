"""Pictures of return distributions."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bellsketch.core.distributions import AtomicDistribution

MAX_STATES = 12


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
        axis.set_xlim(*_visible_range(distributions[state]))
    axes[-1, 0].set_xlabel("return")
    axes[0, 0].set_ylabel("P(G ≤ x)")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def plot_cdf(axis: Axes, distribution: AtomicDistribution, **style: object) -> None:
    """The staircase of one distribution."""
    order = distribution.sorted()
    low, high = _visible_range(distribution)
    heights = np.concatenate([[0.0], np.cumsum(order.probabilities)])
    axis.stairs(heights[:-1], np.concatenate([[low], order.locations]), baseline=None, **style)  # type: ignore[arg-type]
    axis.plot([order.locations[-1], max(high, order.locations[-1])], [1, 1], **{**style, "label": None})  # type: ignore[arg-type]


def _visible_range(distribution: AtomicDistribution) -> tuple[float, float]:
    low, high = (float(distribution.quantile(level)) for level in (0.001, 0.999))
    pad = 0.15 * (high - low) if high > low else max(0.25, 0.1 * abs(low))
    return low - pad, high + pad
