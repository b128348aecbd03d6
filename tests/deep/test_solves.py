"""Every agent solves small tasks, all with the same settings: those of the preset."""

import pytest

from bellsketch.deep.agents.factory import AGENTS
from bellsketch.deep.run import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("environment", "least"), [("Catch-bsuite", 0.95), ("CartPole-v1", 450.0)])
def test_solves(agent, environment, least):
    """At one of ten evaluations of 20 episodes: on CartPole any of them may fall back for a while, or at the end."""
    assert train(agent, environment, progress=False).evaluations["mean_return"].max() >= least
