"""Agents that learn from transitions with neural networks. Needs ``pip install bellsketch[deep]``."""

from bellsketch.deep.config import (
    AgentConfig,
    EvaluationConfig,
    HostConfig,
    LearnerConfig,
    LoopConfig,
    ReturnsConfig,
    TrainingConfig,
)
from bellsketch.deep.run import Run, load_run, train

__all__ = [
    "AgentConfig",
    "EvaluationConfig",
    "HostConfig",
    "LearnerConfig",
    "LoopConfig",
    "ReturnsConfig",
    "Run",
    "TrainingConfig",
    "load_run",
    "train",
]
