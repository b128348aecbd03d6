"""``bellsketch train``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from bellsketch.cli.training import Flat, Running
from bellsketch.deep.config import (
    AgentConfig,
    EvaluationConfig,
    HostConfig,
    LearnerConfig,
    LoopConfig,
    ReturnsConfig,
    TrainingConfig,
)
from bellsketch.deep.presets import find_preset


@dataclasses.dataclass(frozen=True)
class Train:
    """Train an agent. A run that was stopped goes on where it was.

    The defaults shown here are the paper's, where they do not depend on what is learnt. Presets take their place: paper
    for Atari, others for environments that are learnt in minutes. What you pass goes before both. See --preset.

    Example: bellsketch train sketch_dqn Breakout-MinAtar --seeds 5 --out runs/breakout
    """

    agent: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")]
    """dqn, c51, qr_dqn, iqn or sketch_dqn."""
    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """A game of Atari, such as breakout; or of Gymnax, such as Breakout-MinAtar, CartPole-v1 or Catch-bsuite; or of
    Gymnasium, such as gym:CartPole-v1."""
    frames: int = 200_000_000
    """Of each seed. On Atari a step has four."""
    seeds: int = 1
    """Runs side by side, from --seed on."""
    seed: int = 0
    """The first seed."""
    preset: str | None = None
    """paper, minatar or small; default: what suits the environment."""
    out: Path | None = None
    """Directory of the run; default runs/train/AGENT-ENV-SEED."""
    fresh: bool = False
    """Discard what the directory holds, instead of continuing it."""
    risk: str = "mean"
    """What to be greedy in: mean, cvar:LEVEL, exceeds:THRESHOLD or utility:AVERSION."""
    records: int = 100
    """Rows of records.csv for each seed, evenly spaced, after one for the steps at random; at least one for each
    evaluation."""
    running: Annotated[Running, Flat] = dataclasses.field(default_factory=Running)
    options: Annotated[AgentConfig, Flat] = dataclasses.field(default_factory=AgentConfig)
    learner: Annotated[LearnerConfig, Flat] = dataclasses.field(default_factory=LearnerConfig)
    loop: Annotated[LoopConfig, Flat] = dataclasses.field(default_factory=LoopConfig)
    host: Annotated[HostConfig, Flat] = dataclasses.field(default_factory=HostConfig)
    evaluation: Annotated[EvaluationConfig, Flat] = dataclasses.field(default_factory=EvaluationConfig)
    returns: Annotated[ReturnsConfig, Flat] = dataclasses.field(default_factory=ReturnsConfig)

    def with_preset(self) -> "Train":
        """Defaults that suit the environment."""
        preset = find_preset(self.preset, self.environment)
        return dataclasses.replace(
            self,
            frames=preset.frames,
            learner=preset.learner,
            loop=preset.loop,
            evaluation=preset.evaluation,
            options=preset.options(self.agent),
        )

    def __call__(self) -> None:
        shared = {field.name for field in dataclasses.fields(TrainingConfig)}
        config = TrainingConfig(**{name: value for name, value in vars(self).items() if name in shared})
        name = f"{self.agent}-{self.environment.replace('/', '-').replace(':', '-')}-{self.seed}"
        self.running(config, self.out or Path("runs") / "train" / name, fresh=self.fresh)
