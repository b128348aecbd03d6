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
    """With the last network, of the first seed: others may fall back at the end."""
    played = train(agent, "CartPole-v1", evaluations=0, progress=False).evaluate(20)
    assert played.returns.mean() >= 450
