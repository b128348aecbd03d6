"""The return distribution of each action, beside what the network sees."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import matplotlib.animation
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bellsketch.core.errors import InputError
from bellsketch.deep.networks import SCREEN_SIDE
from bellsketch.deep.playing import Moment

BINS = 60
"""Of the histogram that stands for a distribution."""


def plot_moment(moment: Moment, span: tuple[float, float], figure: Figure | None = None) -> Figure:
    """What the network sees, and the return distribution it predicts after each action; the chosen one in colour."""
    figure = plt.figure(figsize=(8, 4), layout="constrained") if figure is None else figure
    figure.clear()
    num = len(moment.values)
    grid = figure.add_gridspec(num, 2, width_ratios=[1, 1.4])
    seen = figure.add_subplot(grid[:, 0])
    draw_observation(seen, moment.observation if moment.rendered is None else moment.rendered)
    seen.set_title(f"return so far {moment.return_so_far:g}", fontsize=9)
    everywhere = moment.distribution.locations
    span = (min(span[0], float(np.min(everywhere))), max(span[1], float(np.max(everywhere))))
    edges = np.linspace(*span, BINS + 1)
    heights = [
        np.histogram(locations, edges, weights=weights)[0]
        for locations, weights in zip(moment.distribution.locations, moment.distribution.probabilities, strict=True)
    ]
    for action in range(num):
        axis = figure.add_subplot(grid[action, 1])
        colour = "C1" if action == moment.action else "0.6"
        axis.stairs(heights[action], edges, fill=True, color=colour)
        axis.axvline(float(moment.distribution.mean[action]), color="black", lw=1)
        axis.text(0.01, 0.8, f"acts by {moment.values[action]:.3g}", transform=axis.transAxes, fontsize=7, color="0.4")
        axis.set(xlim=span, ylim=(0, 1.05 * max(float(np.max(heights)), 1e-9)), yticks=[])
        axis.set_ylabel(f"action {action}", rotation=0, ha="right", va="center", fontsize=8)
        axis.tick_params(labelsize=7, labelbottom=action == num - 1)
    axis.set_xlabel("predicted return (line: its mean)", fontsize=8)
    return figure


def draw_observation(axis: Axes, observation: np.ndarray) -> None:
    """Images as images, the last of several screens, masks in a colour for each channel, vectors as bars."""
    axis.set(xticks=[], yticks=[])
    if observation.ndim == 1:
        axis.barh(np.arange(observation.size), observation, color="0.4")
        axis.set_yticks(np.arange(observation.size))
        axis.invert_yaxis()
    elif observation.ndim == 3 and observation.shape[-1] not in (1, 3) and min(observation.shape[:2]) >= SCREEN_SIDE:
        axis.imshow(observation[..., -1], cmap="gray", vmin=0, vmax=255)
    elif observation.ndim == 3 and observation.shape[-1] not in (1, 3):
        channel = np.max(observation.astype(float) * np.arange(1, observation.shape[-1] + 1), axis=-1)
        axis.imshow(channel, cmap="nipy_spectral", vmin=0, vmax=observation.shape[-1] + 1)
    else:
        axis.imshow(observation.squeeze())


def save_video(path: Path, moments: Iterable[Moment], span: tuple[float, float], frames_per_second: int = 8) -> int:
    """A film of moments, as GIF, or as MP4 where ffmpeg is installed. Returns how many there were."""
    writers = {".gif": "pillow", ".mp4": "ffmpeg"}
    if path.suffix not in writers:
        raise InputError(f"video={path}: choose a name that ends in .gif or .mp4")
    if not matplotlib.animation.writers.is_available(writers[path.suffix]):
        raise InputError(f"video={path}: {writers[path.suffix]} is not installed; choose a name that ends in .gif")
    if frames_per_second < 1:
        raise InputError(f"frames_per_second={frames_per_second}: must be at least 1")
    moments = iter(moments)
    first = next(moments, None)  # before there is a file: whatever is wrong with them is found out here
    if first is None:
        raise InputError("moments: there are none")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, count = plt.figure(figsize=(8, 4), layout="constrained"), 0
    writer = matplotlib.animation.writers[writers[path.suffix]](fps=frames_per_second)
    with writer.saving(figure, str(path), dpi=90):
        for count, moment in enumerate(itertools.chain([first], moments), start=1):  # noqa: B007
            plot_moment(moment, span, figure)
            writer.grab_frame()
    plt.close(figure)
    return count
