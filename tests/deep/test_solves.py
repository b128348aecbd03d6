"""Every agent solves Catch with the preset for small tasks, all with the same settings."""

import numpy as np
import pytest

from bellsketch.deep.agents.factory import AGENTS
from bellsketch.deep.run import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("agent", AGENTS)
def test_solves_catch(agent):
    run = train(agent, "Catch-bsuite", preset="small", evaluations=0, progress=False)
    played = run.evaluate(20)
    assert np.all(played.finished)
    assert played.returns.mean() >= 0.95
