"""Every agent solves small tasks with the preset for them, all with the same settings."""

import numpy as np
import pytest

from bellsketch.deep.agents.factory import AGENTS
from bellsketch.deep.run import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("environment", "mean_return"),
    [
        ("Catch-bsuite", 0.95),
        pytest.param("CartPole-v1", 450.0, marks=pytest.mark.xfail(reason="DQN and C51 reach about 200", strict=False)),
    ],
)
def test_solves(agent, environment, mean_return):
    run = train(agent, environment, preset="small", evaluations=0, progress=False)
    played = run.evaluate(20)
    assert np.all(played.finished)
    assert played.returns.mean() >= mean_return
