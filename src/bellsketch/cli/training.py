"""Training from the command line: what will be learnt, a line while it is, and what came of it."""

import dataclasses
from pathlib import Path

import matplotlib.pyplot as plt
import tyro
from rich.console import Console
from rich.markup import escape

from bellsketch.cli.devices import on_device
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.run import Run, read_returns, run_training
from bellsketch.deep.run_directory import CHECKPOINT_SECONDS, has_checkpoint
from bellsketch.deep.setup import check_memory, set_up
from bellsketch.deep.trackers import Tracker, tensorboard_tracker, wandb_tracker

Flat = tyro.conf.arg(name="")
"""Options of a part of a command, without the part's name in front."""


@dataclasses.dataclass(frozen=True)
class Running:
    """How to run it, whatever is learnt."""

    device: str | None = None
    """cpu or gpu; default: what JAX prefers."""
    devices: int = 1
    """Split the run among so many of them: environments, replay and batches. A run may go on with more or fewer."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Save at the first record after so many seconds."""
    tensorboard: bool = False
    """Also write event files for TensorBoard."""
    wandb: bool = False
    """Also log to Weights & Biases, if it is installed."""
    quiet: bool = False
    """Show no progress."""

    def __call__(self, config: TrainingConfig, out: Path, *, fresh: bool = False) -> None:
        """Train, or what is missing of it, into a directory."""
        console = Console(stderr=True)
        with on_device(self.device):
            setup = set_up(config, self.devices, None if fresh else read_returns(out, config))
            check_memory(setup)
            if not self.quiet:
                console.print(f"{config.environment}: {escape(setup.describe())}", soft_wrap=True, highlight=False)
            try:
                run = run_training(
                    setup,
                    out,
                    progress=not self.quiet,
                    fresh=fresh,
                    checkpoint_seconds=self.checkpoint_seconds,
                    trackers=self._trackers(config, out),
                )
            except KeyboardInterrupt:
                goes_on = "goes on" if has_checkpoint(out) else "begins again, as there is no checkpoint yet"
                console.print(f"stopped; bellsketch resume {escape(str(out))} {goes_on}", soft_wrap=True)
                raise
        figure = run.plot()
        figure.savefig(out / "figure.png", dpi=130)
        plt.close(figure)
        Console().print(f"{summary(run)}  Records, networks and picture: {escape(str(out))}", soft_wrap=True)

    def _trackers(self, config: TrainingConfig, out: Path) -> list[Tracker]:
        trackers = [tensorboard_tracker(out / "tensorboard")] if self.tensorboard else []
        return trackers + ([wandb_tracker(config, out)] if self.wandb else [])


def summary(run: Run) -> str:
    """How it went, in a sentence."""
    if run.evaluations.empty:
        return f"{run.frames:,} frames."
    last = run.evaluations[run.evaluations["frames"] == run.evaluations["frames"].max()]["mean_return"]
    if last.isna().all():
        return f"{run.frames:,} frames; no episode ended within the last evaluation: pass more --evaluation-frames."
    spread = f" (seeds from {last.min():.2f} to {last.max():.2f})" if len(last) > 1 else ""
    return f"{run.frames:,} frames; mean return {last.mean():.2f}{spread} in the last evaluation."
