"""Targets of transitions against hand calculations and against regressions written out."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.core.backups import RewardSet, RewardSetAndSpan, RewardSpan, reward_set
from bellsketch.core.features import WithConstant

SPAN = bs.ReturnRange(-2.0, 2.0)
FEATURES = bs.Sigmoid.from_range(SPAN, 12)
GRID = SPAN.grid(2_000)
U = jnp.asarray(FEATURES(0.3) * 0.4 + FEATURES(-1.0) * 0.6, jnp.float32)


def by_hand(mass=None):
    """Two features and two rewards."""
    matrices = np.array([[[0.5, 0.1], [0.0, 0.2]], [[0.0, 1.0], [1.0, 0.0]]], np.float32)
    offsets = np.array([[0.1, 0.3], [0.0, 0.0]], np.float32)
    return RewardSet(bs.Sigmoid([0.0, 1.0]), np.array([-1.0, 1.0], np.float32), matrices, offsets, 0.9, mass)


def test_two_features_by_hand():
    u = jnp.array([0.4, 0.6])
    np.testing.assert_allclose(by_hand()(-1.0, 0.9, u), [0.2 + 0.06 + 0.1, 0.12 + 0.3], rtol=1e-6)
    np.testing.assert_allclose(by_hand()(1.0, 0.9, u), [0.6, 0.4], rtol=1e-6)
    ending = 1 / (1 + np.exp([-1.0, 0.0]))  # φ(1)
    np.testing.assert_allclose(by_hand()(1.0, 0.0, u), ending, rtol=1e-6)
    fitted = bs.fit_readout(bs.Sigmoid([0.0, 1.0]), np.ones_like, GRID)
    mass = dataclasses.replace(fitted, weights=np.array([0.5, 0.5]), offset=0.1)
    np.testing.assert_allclose(by_hand(mass)(1.0, 0.0, u), 0.6 * ending, rtol=1e-6)
    np.testing.assert_allclose(by_hand(mass)(-1.0, 0.9, u), by_hand()(-1.0, 0.9, u))


def test_what_is_not_covered_is_nan():
    backup, u = by_hand(), jnp.array([0.4, 0.6])
    for reward, discount in ((0.0, 0.9), (0.0, 0.0), (np.nan, 0.9), (1.0, 0.99), (1.0, 0.81)):
        assert np.isnan(backup(reward, discount, u)).all()
    assert not np.isnan(backup(1.0, np.float32(0.9), u)).any()


def test_the_nearest_reward_within_the_tolerance():
    backup, u = dataclasses.replace(by_hand(), tolerance=0.25), jnp.array([0.4, 0.6])
    for reward, listed in ((-1.25, -1.0), (-0.75, -1.0), (0.75, 1.0), (1.25, 1.0)):
        np.testing.assert_array_equal(backup(reward, 0.9, u), by_hand()(listed, 0.9, u))
    rewards = np.array([-1.26, -0.74, 0.0, 0.74, 1.26, np.nan, np.inf])
    assert not np.asarray(backup.covers(rewards)).any()
    assert np.isnan(jax.vmap(backup, (0, None, None))(rewards, 0.9, u)).all()


def test_one_feature_by_hand_at_discount_0():
    """Returns 0 and 1, equally likely; φ is 0 at 0 and 1 at 1; ridge 1/2."""
    phi, mu = bs.Indicator([0.5, 1.5]), bs.AtomicDistribution([0.0, 1.0], [0.5, 0.5])
    # (E[xxᵀ] + 1/2) w = E[x] with x = (φ, 1): [[1, 1/2], [1/2, 3/2]] w = (1/2, 1), so w = (0.2, 0.6).
    constant = bs.fit_readout(phi, np.ones_like, mu, ridge=0.5, intercept="penalised")
    np.testing.assert_allclose([*constant.weights, constant.offset], [0.2, 0.6])
    # (E[φ²] + 1/2) w = E[φ]: (1/2 + 1/2) w = 1/2.
    none = bs.fit_readout(phi, np.ones_like, mu, ridge=0.5, intercept="none")
    np.testing.assert_allclose([*none.weights, none.offset], [0.5, 0.0])
    fit = bs.fit_coefficients(phi, mu, [1.0], [0.9], ridge=0.5)
    for mass, expected in ((constant, 0.2 * 0.7 + 0.6), (none, 0.35), (None, 1.0)):
        target = reward_set(fit, 0.9, mass)(1.0, 0.0, jnp.array([0.7]))
        np.testing.assert_allclose(target, [expected], rtol=1e-6)


@pytest.mark.parametrize("discount", [0.9, 0.0])
@pytest.mark.parametrize("intercept", ["penalised", "none"])
def test_the_papers_targets_are_regressions_at_every_discount(intercept, discount):
    """B of the paper by its normal equations, on (φ, 1) or φ, applied to (u, 1) or u."""
    inputs = WithConstant(FEATURES) if intercept == "penalised" else FEATURES
    x = inputs(GRID.locations)
    goals = FEATURES(1.0 + discount * GRID.locations)
    count = len(GRID.locations)
    matrix = np.linalg.solve(x.T @ x / count + 1e-6 * np.eye(x.shape[1]), x.T @ goals / count).T
    following = np.append(U, 1.0) if intercept == "penalised" else np.asarray(U)
    options = {"ridge": 1e-6, "intercept": intercept}
    mass = bs.fit_readout(FEATURES, np.ones_like, GRID, **options)
    backup = reward_set(bs.fit_coefficients(FEATURES, GRID, [-1.0, 1.0], [0.9], **options), 0.9, mass)
    np.testing.assert_allclose(backup(1.0, discount, U), matrix @ following, atol=2e-5)


def test_a_batch_is_its_transitions():
    backup = reward_set(bs.fit_coefficients(FEATURES, GRID, [-1.0, 0.0, 1.0], [0.9]), 0.9)
    rewards, discounts = jnp.array([-1.0, 0.5, 0.0, 1.0, 1.0]), jnp.array([0.9, 0.9, 0.9, 0.0, 0.9])
    together = jax.jit(jax.vmap(backup))(rewards, discounts, jnp.tile(U, (5, 1)))
    alone = [backup(r, d, U) for r, d in zip(rewards, discounts, strict=True)]
    np.testing.assert_allclose(together, np.stack(alone), atol=2e-5)
    np.testing.assert_array_equal(np.isnan(together).any(axis=1), [False, True, False, False, False])


def test_listed_rewards_exactly_and_others_interpolated():
    listed = reward_set(bs.fit_coefficients(FEATURES, GRID, [-1.0, 0.1, 5.0], [0.9]), 0.9)
    span = RewardSpan(bs.interpolate_coefficients(FEATURES, bs.measures.Uniform(-2.8, 2.8), (-1.0, 1.0), 0.9))
    both = RewardSetAndSpan(listed, span)
    for discount in (0.9, 0.0):
        for reward in (-1.0, 0.1, 5.0):
            np.testing.assert_array_equal(both(reward, discount, U), listed(reward, discount, U))
        np.testing.assert_array_equal(both(0.5, discount, U), span(0.5, discount, U))
        assert np.isnan(both(4.9, discount, U)).all()
    np.testing.assert_array_equal(both.covers(np.array([-1.0, 0.1, 5.0, 0.5, 4.9])), [True] * 4 + [False])
    np.testing.assert_array_equal(jax.jit(both.covers)(jnp.array([0.1, 4.9])), [True, False])
    other = RewardSpan(bs.interpolate_coefficients(FEATURES, GRID, (-1.0, 1.0), 0.8, interpolation_tolerance=1e-2))
    with pytest.raises(bs.InputError, match=r"discount 0\.8"):
        RewardSetAndSpan(listed, other)


def test_products_are_precise_on_every_device():
    """Not in the 10-bit mantissas that GPUs would use otherwise."""
    mass = bs.fit_readout(FEATURES, np.ones_like, GRID, intercept="none")
    listed = reward_set(bs.fit_coefficients(FEATURES, GRID, [0.0], [0.9]), 0.9, mass)
    span = bs.interpolate_coefficients(FEATURES, GRID, (-1.0, 1.0), 0.9, interpolation_tolerance=1e-2)
    text = str(jax.make_jaxpr(RewardSetAndSpan(listed, RewardSpan(span, mass)))(0.0, 0.9, U))
    assert text.count("dot_general") >= 5
    assert text.count("dot_general") == text.count("precision=(Precision.HIGHEST, Precision.HIGHEST)")


def test_rewards_that_single_precision_cannot_tell_apart():
    fit = bs.fit_coefficients(FEATURES, GRID, [1.0, 1.0 + 1e-9], [0.9])
    with pytest.raises(bs.InputError, match="only 1 differ in single precision"):
        reward_set(fit, 0.9)
