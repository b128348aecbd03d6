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


@pytest.mark.parametrize("risk", ["cvar:0.25", "exceeds:0.5", "utility:1"])
def test_a_sketch_solves_catch_whatever_it_is_greedy_in(risk):
    """All criteria have the same best policy there."""
    run = train("sketch_dqn", "Catch-bsuite", frames=20_000, risk=risk, evaluations=0, progress=False)
    assert run.evaluate(20).returns.mean() >= 0.95


@pytest.mark.parametrize("agent", AGENTS)
def test_solves_cartpole(agent):
    """With the last network, of the first seed: others may fall back at the end."""
    played = train(agent, "CartPole-v1", evaluations=0, progress=False).evaluate(20)
    assert played.returns.mean() >= 450
