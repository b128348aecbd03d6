"""Agents by name, and readouts that agree with the distributions they are of."""

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.core.backups import RewardSet, RewardSpan
from bellsketch.core.risk import CVaR, Exceeds
from bellsketch.deep.agents.factory import AGENTS, AgentConfig, Returns, known_returns, make_agent

RETURNS = Returns(-1.0, 1.0, (-1.0, 0.0, 1.0), (-1.0, 1.0))


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_acts(name):
    agent = make_agent(AgentConfig(name, num=21, double=True), RETURNS, 0.9)
    network = agent.network(jax.random.key(0), (10, 5), 3)
    values = agent.action_values(jax.random.key(1), network, np.zeros((10, 5), np.float32))
    assert values.shape == (3,)
    assert agent.double


def test_rewards_are_looked_up_or_interpolated():
    assert isinstance(make_agent(AgentConfig("sketch_dqn", num=21), RETURNS, 0.9).backup, RewardSet)
    unlisted = Returns(-1.0, 1.0, None, (-0.5, 0.5))
    several = make_agent(AgentConfig("sketch_dqn", num=21, num_steps=3), RETURNS, 0.9)
    for agent, discount, reach in (
        (make_agent(AgentConfig("sketch_dqn", 21), unlisted, 0.9), 0.9, 0.5),
        (several, 0.9**3, 3.0),
    ):
        assert isinstance(agent.backup, RewardSpan)
        assert agent.backup.coefficients.discount == pytest.approx(discount)
        assert agent.backup.coefficients.high == pytest.approx(reach)


@pytest.mark.parametrize(
    ("criterion", "tolerance"), [(CVaR(0.25, -1.0, 1.0), 0.03), (Exceeds(0.33), 0.05)], ids=["CVaR", "exceeds"]
)
def test_risk_is_read_off_sketches(criterion, tolerance):
    """Of a normal distribution, whose sketch is known."""
    agent = make_agent(AgentConfig("sketch_dqn", num=51, slope_factor=2.0), RETURNS, 0.9, criterion)
    samples = np.clip(np.random.default_rng(0).normal(0.1, 0.3, 20_000), -1, 1)
    sketch = agent.backup.features(samples).mean(axis=0)
    logits = np.log(sketch / (1 - sketch)).astype(np.float32)
    found = agent.action_values(jax.random.key(0), lambda _: logits[None], None)
    expected = criterion(samples).mean(axis=0).max()
    assert abs(float(found[0]) - expected) < tolerance


def test_returns_follow_from_rewards():
    cart_pole = known_returns([1.0], 0.99, 500)
    assert (cart_pole.low, cart_pole.rewards) == (0.0, (1.0,))
    assert cart_pole.high == pytest.approx(sum(0.99**t for t in range(500)))
    assert known_returns([-1.0, 2.0], 0.9).low == pytest.approx(-10.0)


def test_bad_input():
    with pytest.raises(bs.UnknownNameError, match="Did you mean 'c51'"):
        make_agent(AgentConfig("c52"), RETURNS, 0.9)
    with pytest.raises(bs.InputError, match="means only"):
        make_agent(AgentConfig("dqn"), RETURNS, 0.9, Exceeds(0.0))
    with pytest.raises(bs.InputError, match="finite range"):
        Returns(0.0, np.inf, None, (0.0, 1.0))
