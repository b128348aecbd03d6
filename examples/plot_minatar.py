"""Sketch-DQN on MinAtar, and what it expects.

Trains Sketch-DQN on MinAtar's Breakout for a minute or two, then plays. What one sees on the left is the return of
training episodes; on the right the game at three moments, with the distribution of the return that the network predicts
for each action (the chosen one in orange, lines at means). After so little training predictions are rough: there is
some mass below 0, where no return can be. A discount of 0.9 makes returns short enough to be learnt in that time. Needs
``pip install 'bellsketch[deep]'``.
"""

import itertools
import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bellsketch as bs
from bellsketch.deep import train
from bellsketch.deep.pictures import draw_observation
from bellsketch.deep.playing import Moment, moments

DISCOUNT = 0.9
SHOWN = (2, 6, 10)
"""Steps of an episode."""


def main(environment: str = "Breakout-MinAtar", frames: int = 100_000, **options: object) -> Figure:
    run = train("sketch_dqn", environment, frames=frames, discount=DISCOUNT, evaluations=0, progress=False, **options)
    episode = list(itertools.islice(moments(run, seed=1), SHOWN[-1] + 1))
    num_actions = len(episode[0].values)

    figure = plt.figure(figsize=(11, 6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.6])
    curve = left.subplots()
    curve.plot(run.records["frames"], run.records["mean_return"], marker=".")
    curve.set(xlabel="frames", title=f"{environment}: return of an episode")
    axes = right.subplots(len(SHOWN), 1 + num_actions, width_ratios=[1.1] + [1.0] * num_actions)
    for row, step in zip(axes, SHOWN, strict=True):
        moment = episode[min(step, len(episode) - 1)]
        draw_observation(row[0], moment.observation)
        row[0].set_ylabel(f"step {step}")
        draw_predictions(row[1:], moment)
    for action, axis in enumerate(axes[0, 1:]):
        axis.set_title(f"action {action}", fontsize=10)
    for axis in axes[-1, 1:]:
        axis.set_xlabel("return")
    return figure


def draw_predictions(axes: np.ndarray, moment: Moment) -> None:
    """The distribution of the return after each action."""
    ends = moment.distribution.quantile(np.array([0.005, 0.995]))
    low, high = float(ends.min()), float(ends.max())
    edges = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 30)
    for action, axis in enumerate(axes):
        predicted: bs.AtomicDistribution = moment.distribution[action]
        draw: Axes = axis
        heights, _ = np.histogram(predicted.locations, edges, weights=predicted.probabilities)
        draw.stairs(heights, edges, fill=True, color="tab:orange" if action == moment.action else "0.7")
        draw.axvline(float(predicted.mean), color="black", linewidth=1)
        draw.set(yticks=[], xlim=(edges[0], edges[-1]))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bs.BellsketchWarning)
        main().savefig("minatar.png", dpi=120)
