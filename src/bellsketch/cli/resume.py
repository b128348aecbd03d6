"""``bellsketch resume``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from bellsketch.cli.devices import on_device
from bellsketch.cli.training import train_and_show
from bellsketch.deep.run import read_config
from bellsketch.deep.run_directory import CHECKPOINT_SECONDS


@dataclasses.dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, from its last good checkpoint, as it was configured.

    Example: bellsketch resume runs/breakout
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Directory of a run."""
    device: str | None = None
    """cpu or gpu; default: what JAX prefers."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Save at the first record after so many seconds."""
    tensorboard: bool = False
    """Also write event files for TensorBoard."""
    wandb: bool = False
    """Also log to Weights & Biases, if it is installed."""
    quiet: bool = False
    """Show no progress."""

    def __call__(self) -> None:
        config = read_config(self.run)
        with on_device(self.device):
            train_and_show(
                config,
                self.run,
                fresh=False,
                checkpoint_seconds=self.checkpoint_seconds,
                tensorboard=self.tensorboard,
                wandb=self.wandb,
                quiet=self.quiet,
            )
