"""What suits each kind of environment: options that take the place of the defaults."""

import dataclasses

from bellsketch.core.errors import UnknownNameError
from bellsketch.deep.config import AgentConfig, EvaluationConfig, LearnerConfig, LoopConfig
from bellsketch.deep.environments.games import GAMES


@dataclasses.dataclass(frozen=True)
class Preset:
    """What suits a kind of environment."""

    frames: int
    learner: LearnerConfig
    loop: LoopConfig
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    sketch: AgentConfig = dataclasses.field(default_factory=AgentConfig)
    """Of Sketch-DQN."""

    def options(self, agent: str) -> AgentConfig:
        """Of an agent."""
        return self.sketch if agent == "sketch_dqn" else AgentConfig()


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        200_000_000,
        LearnerConfig(),
        LoopConfig(num_environments=256, frame_skip=4, reward_clip=1.0),
        EvaluationConfig(evaluation_frames=500_000),
        # Anchors in [−12, 12], with slope 10, and regressions in [−10, 10].
        AgentConfig(num=401, slope_factor=10.0, anchor_margin=0.1, grid_margin=0.0),
    ),
    "minatar": Preset(
        2_000_000,
        LearnerConfig(learning_rate=5e-4, target_period=250),
        LoopConfig(
            num_environments=128,
            update_period=16,
            batch_size=128,
            replay_capacity=100_000,
            learning_starts=5_000,
            exploration_steps=100_000,
        ),
    ),
    "small": Preset(
        100_000,
        LearnerConfig(learning_rate=1e-3, learning_rate_final=0.0, target_period=75),
        LoopConfig(
            num_environments=4,
            batch_size=128,
            replay_capacity=100_000,
            learning_starts=1_000,
            exploration_steps=10_000,
        ),
    ),
}
"""``paper``: Atari's. The others are for environments that are learnt in minutes."""


def preset_for(environment: str) -> str:
    """The preset that suits an environment: the paper's for Atari."""
    if "MinAtar" in environment:
        return "minatar"
    return "paper" if environment in GAMES or "ALE/" in environment else "small"


def find_preset(name: str | None, environment: str) -> Preset:
    """A preset by name; by default the one that suits the environment."""
    name = preset_for(environment) if name is None else name
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name]
