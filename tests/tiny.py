"""One small training run for many tests: programs that were compiled for one of them are there for the others."""

from bellsketch.deep.run import make_config
from bellsketch.deep.setup import set_up

OPTIONS = {
    "frames": 1_000,
    "records": 5,
    "num_environments": 4,
    "batch_size": 64,
    "replay_capacity": 2_000,
    "learning_starts": 100,
    "exploration_steps": 500,
    "evaluations": 2,
    "evaluation_episodes": 4,
}
"""A record after 100 frames, and then every 180; evaluations at 640 and 1000."""


def config(agent="dqn", environment="Catch-bsuite", **options):
    return make_config(agent, environment, **(OPTIONS | options))


def setup(agent="dqn", environment="Catch-bsuite", **options):
    return set_up(config(agent, environment, **options))


def arguments(**options):
    """The same for the command line."""
    return [str(word) for name, value in (OPTIONS | options).items() for word in (f"--{name.replace('_', '-')}", value)]
