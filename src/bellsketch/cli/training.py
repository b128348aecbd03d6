"""Training from the command line: what will be learnt, a line while it is, and what came of it."""

from pathlib import Path

import matplotlib.pyplot as plt
from rich.console import Console
from rich.markup import escape

from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.run import Run, run_training
from bellsketch.deep.setup import set_up
from bellsketch.deep.trackers import tensorboard_tracker, wandb_tracker


def train_and_show(
    config: TrainingConfig,
    out: Path,
    *,
    fresh: bool,
    checkpoint_seconds: float,
    tensorboard: bool,
    wandb: bool,
    quiet: bool,
) -> None:
    """Train, or what is missing of it, into a directory."""
    console = Console(stderr=True)
    setup = set_up(config)
    if not quiet:
        console.print(f"{config.environment}: {escape(setup.describe())}", soft_wrap=True, highlight=False)
    trackers = [tensorboard_tracker(out / "tensorboard")] if tensorboard else []
    trackers += [wandb_tracker(config, out)] if wandb else []
    try:
        run = run_training(
            setup, out, progress=not quiet, fresh=fresh, checkpoint_seconds=checkpoint_seconds, trackers=trackers
        )
    except KeyboardInterrupt:
        console.print(f"stopped; bellsketch resume {escape(str(out))} goes on", soft_wrap=True)
        raise
    figure = run.plot()
    figure.savefig(out / "figure.png", dpi=130)
    plt.close(figure)
    Console().print(f"{summary(run)}  Records, networks and picture: {escape(str(out))}", soft_wrap=True)


def summary(run: Run) -> str:
    """How it went, in a sentence."""
    if run.evaluations.empty:
        return f"{run.frames:,} frames."
    last = run.evaluations[run.evaluations["frames"] == run.evaluations["frames"].max()]["mean_return"]
    spread = f" (seeds from {last.min():.2f} to {last.max():.2f})" if len(last) > 1 else ""
    return f"{run.frames:,} frames; mean return {last.mean():.2f}{spread} in the last evaluation."
