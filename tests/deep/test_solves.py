"""Every agent solves small tasks, all with the same settings: those of the preset."""

import numpy as np
import pytest

from bellsketch.deep.agents.factory import AGENTS
from bellsketch.deep.run import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("agent", AGENTS)
def test_solves_catch(agent):
    run = train(agent, "Catch-bsuite", evaluations=0, progress=False)
    played = run.evaluate(20)
    assert np.all(played.finished)
    assert played.returns.mean() >= 0.95


@pytest.mark.parametrize("agent", AGENTS)
def test_solves_cartpole(agent):
    """At one of ten evaluations of 20 episodes: any agent may fall back for a while, or at the end."""
    assert train(agent, "CartPole-v1", progress=False).evaluations["mean_return"].max() >= 450
