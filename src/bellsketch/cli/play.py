"""``bellsketch play``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from bellsketch.cli.devices import on_device
from bellsketch.deep.pictures import save_video
from bellsketch.deep.playing import moments
from bellsketch.deep.run import load_run


@dataclasses.dataclass(frozen=True)
class Play:
    """A film of an episode, with the return distribution that the network predicts for each action beside it.

    Example: bellsketch play runs/breakout --video breakout.gif
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Directory of a run, finished or not."""
    video: Path | None = None
    """File to write, .gif or .mp4 (which needs ffmpeg); default: play.gif in the run's directory."""
    max_steps: int = 300
    """The film ends here, or where the episode does."""
    seed_index: int = 0
    """Which of the run's seeds plays, counted from 0."""
    seed: int = 0
    """For the episode: where it starts, and what happens."""
    frames_per_second: int = 8
    """Of the film."""
    device: str | None = None
    """cpu or gpu; default: what JAX prefers."""

    def __call__(self) -> None:
        video = self.video or self.run / "play.gif"
        with on_device(self.device):
            run = load_run(self.run)
            shown = moments(run, seed_index=self.seed_index, seed=self.seed, max_steps=self.max_steps)
            span = (run.setup.returns.low, run.setup.returns.high)
            count = save_video(video, shown, span, self.frames_per_second)
        Console().print(f"{count} steps: {escape(str(video))}", soft_wrap=True)
