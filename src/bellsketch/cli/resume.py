"""``bellsketch resume``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from bellsketch.cli.training import Flat, Running
from bellsketch.deep.run import read_config


@dataclasses.dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, from its last good checkpoint, as it was configured.

    Example: bellsketch resume runs/breakout
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Directory of a run."""
    running: Annotated[Running, Flat] = dataclasses.field(default_factory=Running)

    def __call__(self) -> None:
        self.running(read_config(self.run), self.run)
