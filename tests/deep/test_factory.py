"""Agents by name, and readouts that agree with the distributions they are of."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import bellsketch as bs
from bellsketch.core.backups import RewardSet, RewardSetAndSpan, RewardSpan
from bellsketch.core.regression import Regression
from bellsketch.core.risk import MEAN, CVaR, Exceeds, ExponentialUtility
from bellsketch.deep.agents.building import INTERCEPTS, build_sketch_dqn
from bellsketch.deep.agents.factory import AGENTS, make_agent, sums_of
from bellsketch.deep.config import AgentConfig
from bellsketch.deep.environments.returns import Returns

RETURNS = Returns(-1.0, 1.0, (-1.0, 0.0, 1.0), (-1.0, 1.0))


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_acts(name):
    agent = make_agent(name, AgentConfig(num=None if name == "dqn" else 21, double=True), RETURNS, 0.9)
    network = agent.network(jax.random.key(0), (10, 5), 3)
    values = agent.action_values(jax.random.key(1), network, np.zeros((10, 5), np.float32))
    assert values.shape == (3,)
    assert agent.double


def test_the_threshold_of_dqn_follows_the_returns():
    def threshold(low, high, **options):
        return make_agent("dqn", AgentConfig(**options), Returns(low, high, None, (0.0, 1.0)), 0.9).huber

    assert threshold(-10.0, 10.0) == threshold(-1.0, 1.0) == 1.0  # as published
    assert threshold(0.0, 100.0) == 5.0
    assert threshold(0.0, 100.0, huber=1.0) == 1.0
    with pytest.raises(bs.InputError, match=r"huber=2\.0: c51 has no such option"):
        make_agent("c51", AgentConfig(huber=2.0), RETURNS, 0.9)


def test_rewards_are_looked_up_or_interpolated():
    assert isinstance(make_agent("sketch_dqn", AgentConfig(num=21), RETURNS, 0.9).backup, RewardSet)
    unlisted = Returns(-1.0, 1.0, None, (-0.5, 0.5))
    several, many = (make_agent("sketch_dqn", AgentConfig(21, num_steps=n), RETURNS, 0.9) for n in (3, 5))
    assert isinstance(several.backup, RewardSet)
    assert several.backup.discount == pytest.approx(0.9**3)
    for agent, discount, reach in (
        (make_agent("sketch_dqn", AgentConfig(21), unlisted, 0.9), 0.9, 0.5),
        (make_agent("sketch_dqn", AgentConfig(21, num_steps=3, interpolate=True), RETURNS, 0.9), 0.9**3, 3.0),
        (many, 0.9**5, 5.0),
    ):
        assert isinstance(agent.backup, RewardSpan)
        assert agent.backup.coefficients.discount == pytest.approx(discount)
        assert agent.backup.coefficients.high == pytest.approx(reach, rel=1e-5)


@pytest.mark.parametrize(
    ("criterion", "tolerance"), [(CVaR(0.25, -1.0, 1.0), 0.03), (Exceeds(0.33), 0.05)], ids=["CVaR", "exceeds"]
)
def test_risk_is_read_off_sketches(criterion, tolerance):
    """Of a normal distribution, whose sketch is known."""
    agent = make_agent("sketch_dqn", AgentConfig(num=51, slope_factor=2.0), RETURNS, 0.9, criterion)
    samples = np.clip(np.random.default_rng(0).normal(0.1, 0.3, 20_000), -1, 1)
    sketch = agent.backup.features(samples).mean(axis=0)
    logits = np.log(sketch / (1 - sketch)).astype(np.float32)
    found = agent.action_values(jax.random.key(0), lambda _: logits[None], None)
    expected = criterion(samples).mean(axis=0).max()
    assert abs(float(found[0]) - expected) < tolerance


@pytest.mark.parametrize(
    ("criterion", "decodes", "tolerance"),
    [
        (MEAN, False, 0.01),
        (ExponentialUtility(1.0), False, 0.02),
        (CVaR(0.1, -1.0, 1.0), True, 0.03),
        (Exceeds(0.33), True, 0.03),
    ],
    ids=["mean", "utility", "CVaR", "exceeds"],
)
def test_values_of_sketches_that_a_network_is_a_little_wrong_about(criterion, decodes, tolerance):
    """By 0.01 in each feature: what is read off them must not be off by much more than that."""
    agent, random = make_agent("sketch_dqn", AgentConfig(), RETURNS, 0.9, criterion), np.random.default_rng(0)
    assert agent.report.reading.decodes == decodes
    assert ("of decoded distributions" in agent.summary) == decodes
    samples = np.clip(random.normal(0.1, 0.3, 20_000), -1, 1)
    exact = agent.backup.features(samples).mean(axis=0)
    noisy = np.clip(exact + random.normal(scale=0.01, size=(40, exact.size)), 1e-6, 1 - 1e-6)
    outputs = jnp.asarray(scipy.special.logit(noisy), jnp.float32)
    values = jax.jit(lambda key: agent.action_values(key, lambda _: outputs, None))(jax.random.key(0))
    assert np.abs(np.asarray(values) - criterion(samples).mean(axis=0).max()).mean() < tolerance


@pytest.fixture(scope="module")
def forms():
    return {form: make_agent("sketch_dqn", AgentConfig(101, form=form), RETURNS, 0.9) for form in INTERCEPTS}


def test_forms_agree_within_their_regression_errors(forms):
    returns = np.linspace(-1, 1, 7)
    for agent in forms.values():
        features, error = agent.backup.features, agent.report.coefficient_error + 2e-5  # of float32
        assert error < 1e-3
        g, reward, discount = (x.ravel() for x in np.meshgrid(returns, RETURNS.rewards, [0.9, 0.0]))
        sketches = jnp.asarray(features(g), jnp.float32)
        targets = jax.jit(jax.vmap(agent.backup))(*map(jnp.asarray, (reward, discount)), sketches)
        np.testing.assert_allclose(targets, features(reward + discount * g), atol=error)
        logits = scipy.special.logit(np.clip(features(returns), 1e-7, 1 - 1e-7))
        values = agent.action_values(jax.random.key(0), lambda _, x=logits: jnp.asarray(x, jnp.float32), None)
        np.testing.assert_allclose(values, returns, atol=1e-3)


def test_only_the_free_form_is_exact_at_discount_0(forms):
    off = jnp.linspace(0.9, 0.1, 101)  # a sketch of nothing, as networks predict them at first
    phi = forms["free"].backup.features(1.0)
    np.testing.assert_allclose(forms["free"].backup(1.0, 0.0, off), phi, atol=1e-6)
    grid = bs.ReturnRange(-1.0, 1.0).grid()
    for form in ("constant", "none"):
        regressed, features = forms[form].backup, forms[form].backup.features
        one = Regression(features, grid, intercept=INTERCEPTS[form])
        (fit,) = one.fit(lambda g, f=features: f(np.full_like(g, 1.0)))
        np.testing.assert_allclose(regressed(1.0, 0.0, off), fit.matrix @ np.asarray(off) + fit.offset, atol=1e-5)
        assert np.abs(regressed(1.0, 0.0, off) - phi).max() > 0.05  # and moves with what should not matter


def test_the_authors_agent_has_the_authors_errors():
    """What their code reports for its Atari setting: 1.76e-4, at discount 0 1.8e-5, and 2.2e-4 for the readout."""
    features, span = bs.Sigmoid(np.linspace(-12, 12, 401), 10.0), bs.ReturnRange(-10.0, 10.0)
    agent = build_sketch_dqn(features, span, 0.99, rewards=[-1.0, 0.0, 1.0], form="constant")
    assert agent.report.coefficient_error == pytest.approx(1.76e-4, rel=0.02)
    assert agent.backup.mass.report.max_error == pytest.approx(1.8e-5, rel=0.02)
    assert agent.report.reading.largest_error == pytest.approx(2.2e-4, rel=0.02)
    assert np.abs(agent.backup.matrices).max() == pytest.approx(0.57, abs=0.005)
    assert agent.num_features == 401


def test_listed_and_interpolated():
    agent = make_agent("sketch_dqn", AgentConfig(21, interpolate=True), RETURNS, 0.9)
    assert isinstance(agent.backup, RewardSetAndSpan)
    np.testing.assert_array_equal(
        agent.unknown_rewards(np.array([1.0, 0.3, 1.1]), np.array([0.9, 0.0, 0.9])), [False, False, True]
    )
    assert "3 rewards and rewards in [-1, 1]" in agent.summary


def test_several_steps_are_one_step_after_another():
    """Within what the norms of errors and operators allow."""
    returns, discount, count = Returns(-1.0, 1.0, (-0.3, 0.0, 0.5), (-0.3, 0.5)), 0.9, 31
    one = make_agent("sketch_dqn", AgentConfig(count, slope_factor=0.5), returns, discount)
    three = make_agent("sketch_dqn", AgentConfig(count, slope_factor=0.5, num_steps=3), returns, discount)
    rewards = (0.5, -0.3, 0.5)
    total = sum(discount**k * r for k, r in enumerate(rewards))
    norm = max(np.linalg.norm(a, 2) for a in one.backup.matrices)
    error = np.sqrt(count) * (one.report.coefficient_error * (1 + norm + norm**2) + three.report.coefficient_error)
    assert error < 0.02
    g = np.array([-0.6, 0.0, 0.4])
    start = jnp.asarray(one.backup.features(g), jnp.float32)

    @jax.jit
    @jax.vmap
    def both_ways(sketch):
        step_by_step = sketch
        for reward in reversed(rewards):
            step_by_step = one.backup(reward, discount, step_by_step)
        return three.backup(total, discount**3, sketch), step_by_step

    at_once, step_by_step = both_ways(start)
    assert np.linalg.norm(at_once - step_by_step, axis=1).max() < error
    exact = one.backup.features(total + discount**3 * g)
    np.testing.assert_allclose(at_once, exact, atol=three.report.coefficient_error + 2e-5)


def test_whatever_three_steps_pay_has_its_own_coefficients():
    """Or fewer, before an episode ends. Summed up in single precision, as the replay does, or rounded otherwise."""
    returns, discount = Returns(-1.0, 1.0, (-0.3, 0.1, 0.5), (-0.3, 0.5)), 0.97
    agent = make_agent("sketch_dqn", AgentConfig(31, slope_factor=0.5, num_steps=3), returns, discount)
    sequences = [steps for num in (1, 2, 3) for steps in itertools.product(returns.rewards, repeat=num)]
    paid = np.array([(*steps, *[0.0] * (3 - len(steps))) for steps in sequences])
    exact = paid @ discount ** np.arange(3)
    rounded = jax.jit(lambda paid: jnp.sum(discount ** jnp.arange(3) * paid, axis=1))(jnp.asarray(paid, jnp.float32))
    back_up = jax.jit(jax.vmap(agent.backup, (0, None, None)))
    sketch = jnp.asarray(agent.backup.features(0.4), jnp.float32)
    expected = agent.backup.features(exact + discount**3 * 0.4)
    for sums in (rounded, np.nextafter(np.float32(exact), np.float32(np.inf)), np.float32(exact - 2e-6)):
        found = back_up(sums, discount**3, sketch)
        np.testing.assert_allclose(found, expected, atol=agent.report.coefficient_error + 2e-5)
    assert np.isnan(back_up(rounded + 1e-4, discount**3, sketch)).all()  # what nobody pays
    assert agent.unknown_rewards(np.asarray(rounded) + 1e-4, np.full(len(paid), discount**3)).all()


def test_sums_that_are_the_same_are_listed_once():
    assert sums_of((-1.0, 0.0, 1.0), 1.0, 3, 1e-6) == (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
    assert sums_of((1.0,), 0.5, 3, 1e-6) == (1.0, 1.5, 1.75)
    assert len(sums_of((-1.0, 0.0, 1.0), 0.99, 4, 1e-6)) == 81
    assert sums_of((-1.0, 0.0, 1.0), 0.99, 5, 1e-6) is None
    assert sums_of((0.0, 1.0), 1 - 1e-9, 2, 1e-6) == (0.0, 1 - 1e-9, 2 - 1e-9)
    assert sums_of((-0.1, 0.0, 0.1), 1.0, 40, 1e-6) == pytest.approx(np.arange(-40, 41) / 10)  # 3⁴⁰ sequences
    assert sums_of((0.0, 0.005, 1_000.0), 0.9, 3, 0.009) is None  # 0.005 is not 0


def test_summaries():
    summaries = {name: make_agent(name, AgentConfig(21), RETURNS, 0.9).summary for name in AGENTS if name != "dqn"}
    assert summaries["c51"] == "probabilities of 21 atoms on [-1, 1]"
    assert summaries["qr_dqn"] == "21 quantiles"
    assert summaries["sketch_dqn"].startswith(
        "21 sigmoid features with anchors in [-1.8, 1.8], slope 10, regressed on [-1.4, 1.4], 3 rewards, free form"
    )
    assert "largest regression error 3.4e-03, largest norm" in summaries["sketch_dqn"]


def test_an_interval_that_is_given_is_meant():
    """Beside rewards that are listed: others in it have coefficients too."""
    listed = Returns(-1.0, 1.0, (0.0, 1.0), (-1.0, 1.0))
    alone, both = (
        make_agent("sketch_dqn", AgentConfig(21), r, 0.9) for r in (listed, dataclasses.replace(listed, between=True))
    )
    reward, discount = np.float32([-1.0, 0.5]), np.float32([0.9, 0.9])
    assert alone.unknown_rewards(reward, discount).all()
    assert not both.unknown_rewards(reward, discount).any()


def test_the_norm_is_that_of_the_coefficients():
    agent = make_agent("sketch_dqn", AgentConfig(21), RETURNS, 0.9)
    assert agent.report.norm == pytest.approx(max(np.linalg.norm(a, 2) for a in agent.backup.matrices), rel=1e-5)


def test_poor_regressions_are_refused_unless_forced():
    poor = r"21 gaussian features .* largest regression error 1\.4e-01"
    with pytest.raises(bs.InputError, match=rf"{poor}.*pass force=True \(--force\)"):
        make_agent("sketch_dqn", AgentConfig(21, features="gaussian"), RETURNS, 0.9)
    with pytest.warns(bs.BellsketchWarning, match=poor):
        make_agent("sketch_dqn", AgentConfig(21, features="gaussian", force=True), RETURNS, 0.9)
    with pytest.warns(bs.BellsketchWarning, match="mean readout error 5.9e-02, of decoded distributions"):
        make_agent("sketch_dqn", AgentConfig(21, slope_factor=0.3), RETURNS, 0.9, Exceeds(0.33))


@pytest.mark.parametrize(("features", "signed"), [("sigmoid", False), ("tanh", True), ("fourier", True)])
def test_outputs_can_be_what_features_are(features, signed):
    assert make_agent("sketch_dqn", AgentConfig(61, features=features), RETURNS, 0.9).signed == signed


def test_bad_input():
    with pytest.raises(bs.UnknownNameError, match="Did you mean 'c51'"):
        make_agent("c52", AgentConfig(), RETURNS, 0.9)
    with pytest.raises(bs.InputError, match="means only"):
        make_agent("dqn", AgentConfig(), RETURNS, 0.9, Exceeds(0.0))
    for bad in ({"num": 0}, {"num_steps": 0}, {"huber": 0.0}, {"slope_factor": 0.0}, {"slope_factor": np.inf}):
        ((option, _),) = bad.items()
        with pytest.raises(bs.InputError, match=f"^{option}="):
            AgentConfig(**bad)
    with pytest.raises(bs.InputError, match="form='none': c51 has no such option; leave it at 'free'"):
        make_agent("c51", AgentConfig(form="none"), RETURNS, 0.9)
    with pytest.raises(bs.InputError, match="1 atoms on"):
        make_agent("c51", AgentConfig(1), RETURNS, 0.9)
    with pytest.raises(bs.InputError, match="num=21: dqn has no such option; leave it at None"):
        make_agent("dqn", AgentConfig(21), RETURNS, 0.9)


def test_a_utility_that_cannot_be_read_off():
    """Rather than NaN, of which the greedy action is always the first."""
    wide = Returns(0.0, 100.0, (1.0,), (1.0, 1.0))
    for name in set(AGENTS) - {"dqn"}:
        with pytest.raises(bs.InputError, match="overflows at a return of 100"):
            make_agent(name, AgentConfig(), wide, 0.99, ExponentialUtility(-5.0))
    with pytest.raises(bs.InputError, match="too large for single precision where returns reach"):
        make_agent("sketch_dqn", AgentConfig(), wide, 0.99, ExponentialUtility(-0.85))
    with pytest.raises(bs.InputError, match=r"discount=1\.5"):
        make_agent("dqn", AgentConfig(), RETURNS, 1.5)
    span = bs.ReturnRange(-2.0, 2.0)
    with pytest.raises(bs.InputError, match="list the rewards"):
        build_sketch_dqn(bs.Sigmoid.from_range(span, 5), span, 0.9)
    with pytest.raises(bs.InputError, match="form='affine': choose one of free, constant, none"):
        build_sketch_dqn(bs.Sigmoid.from_range(span, 5), span, 0.9, rewards=[0.0], form="affine")
    with pytest.raises(bs.InputError, match="polynomial features reach 4"):
        build_sketch_dqn(bs.Polynomial(3), span, 0.9, rewards=[0.0])
    with pytest.raises(bs.InputError, match="finite range"):
        Returns(0.0, np.inf, None, (0.0, 1.0))
