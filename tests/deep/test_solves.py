"""Every agent solves small tasks, all with the same settings: those of the preset."""

import numpy as np
import pytest

from bellsketch.deep.agents.factory import AGENTS
from bellsketch.deep.run import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("environment", "least"), [("Catch-bsuite", 0.95), ("CartPole-v1", 450.0)])
def test_solves(agent, environment, least):
    run = train(agent, environment, evaluations=0, progress=False)
    played = run.evaluate(20)
    assert np.all(played.finished)
    assert played.returns.mean() >= least
