"""Promises on the paper's environments: sigmoid features, default heuristics, ridge 1e-9, free intercept."""

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.experiments.evaluation import evaluate, jittered_decoders
from cases import SIX, by_hand_moments, environments, model, return_range, solution, truth


@pytest.mark.parametrize("name", [*SIX, "directed_chain_gaussian"])
def test_embedding_is_accurate(name):
    errors = bs.squared_embedding_error(solution(name).sketch, truth(name).embedding(solution(name).features))
    assert errors.max() <= 1e-8


def test_the_papers_form_fails_on_the_cycle_and_says_why():
    with pytest.warns(bs.BellsketchWarning, match=r"never terminates.*homogeneous.*intercept='free'"):
        result = bs.solve(model("cycle"), intercept="none", method="iterate", iterations=200)
    assert bs.squared_embedding_error(result.sketch, truth("cycle").embedding(result.features)).max() > 1


@pytest.mark.parametrize("name", [*SIX, "rowland23", "sutton_barto18", "directed_chain_gaussian", "cycle_gaussian"])
def test_direct_solve_agrees_with_iteration(name):
    direct = solution(name)
    assert direct.operator.spectral_radius() < 1
    iterated = bs.solve(model(name), method="iterate", iterations=2000, return_range=return_range(name))
    np.testing.assert_allclose(iterated.sketch, direct.sketch, atol=1e-8)


@pytest.mark.parametrize("num_features", [20, 50, 100])
@pytest.mark.parametrize(("name", "limit"), list(zip(SIX, [1.3, 1.05, 1.05, 1.05, 1.05, 1.7], strict=True)))
def test_anchors_decode_nearly_as_well_as_the_projected_truth(name, num_features, limit):
    result = solution(name, num_features)
    decoders = jittered_decoders(jax.random.key(0), result.features, result.return_range, 20)
    errors = evaluate(result.sketch, truth(name), decoders).averaged()
    assert errors.cramer.max() <= limit * errors.cramer_projection.max()


def categorical_dp(mrp, support):
    """Categorical DP written out: project every pushed-forward mixture, 400 times."""
    o, values = mrp.outcomes, np.array([r.mean for r in mrp.rewards])
    p = np.full((mrp.num_states, support.size), 1 / support.size)
    for _ in range(400):
        new = np.zeros_like(p)
        for x, y, q, r in zip(o.state, o.successor, o.probability, values[o.reward], strict=True):
            locations = r + mrp.discount * support * (y >= 0)
            mass = q * p[max(y, 0)]
            low = np.clip(np.searchsorted(support, locations, side="right") - 1, 0, support.size - 2)
            share = np.clip((locations - support[low]) / (support[low + 1] - support[low]), 0, 1)
            np.add.at(new[x], low, mass * (1 - share))
            np.add.at(new[x], low + 1, mass * share)
        p = new
    return bs.AtomicDistribution(np.broadcast_to(support, p.shape), p)


@pytest.mark.parametrize(("name", "limit"), list(zip(SIX, [0.35] * 5 + [0.05], strict=True)))
def test_fine_decoding_beats_categorical_dp_at_equal_numbers(name, limit):
    result = solution(name, 20)
    span = result.decoder.support
    categorical = categorical_dp(model(name), np.linspace(span[0], span[-1], 20))
    ours = bs.cramer(result.distributions, truth(name).distribution).max()
    assert ours <= limit * bs.cramer(categorical, truth(name).distribution).max()


@pytest.mark.parametrize("name", bs.environments.NAMES)
def test_two_polynomial_features_are_the_classical_value_function(name):
    result = bs.solve(model(name), features=bs.Polynomial(2), ridge=0.0, return_range=return_range(name))
    np.testing.assert_allclose(result.sketch[:, 1], model(name).value, atol=1e-10 * np.abs(model(name).value).max())
    np.testing.assert_allclose(result.sketch[:, 0], 1.0, atol=1e-10)


@pytest.mark.parametrize("name", [*SIX, "rowland23"])
def test_polynomial_features_are_the_moments(name):
    result = bs.solve(model(name), features=bs.Polynomial(6), ridge=0.0, return_range=return_range(name))
    exact = by_hand_moments(model(name), 5)
    scale = np.abs(exact).max(axis=0)
    np.testing.assert_allclose(result.sketch / scale, exact / scale, atol=1e-8)


FAMILIES = sorted(set(bs.FAMILIES) - {"polynomial"})


@pytest.mark.parametrize("family", FAMILIES)
@environments("random_chain", "loopy_fork", "loopy_tree_gaussian")
def test_one_step_error_is_bounded_by_the_regression_error(name, family):
    """Prop. 1, for return distributions made of random atoms in the range of returns."""
    from bellsketch.core.coefficients import expected_features
    from bellsketch.tabular.one_step import one_step_errors

    mrp = model(name)
    least, greatest = mrp.return_bounds
    features = bs.make_features(family, return_range(name), 20)
    coefficients = bs.fit_coefficients(features, return_range(name).grid(), mrp.rewards, (mrp.discount, 0.0))
    rng = np.random.default_rng(0)
    atoms = rng.uniform(least[:, None], greatest[:, None], (mrp.num_states, 7))
    weights = rng.dirichlet(np.ones(7), mrp.num_states)
    sketch = np.einsum("sn,snm->sm", weights, features(atoms))
    backed_up = np.zeros_like(sketch)  # Φ(𝒯η), by pushing every atom forward
    o = mrp.outcomes
    for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True):
        reward = mrp.rewards[r]
        if y < 0:
            backed_up[x] += p * expected_features(features, reward, 0.0)(np.zeros(1))[0]
        else:
            backed_up[x] += p * weights[y] @ expected_features(features, reward, mrp.discount)(atoms[y])
    error = np.linalg.norm(backed_up - bs.sketch_operator(mrp, coefficients)(sketch), axis=1)
    (bound,), proven = one_step_errors(mrp, coefficients)
    go_on = {mrp.rewards[r] for r in o.reward[~o.terminal]}
    assert proven == (features.breaks is None or all(reward.is_finite for reward in go_on))
    # What is not proven may have jumps between the points that were looked at.
    assert np.all(error <= bound * (1 if proven else 1.001) + 1e-12)


def test_sketch_td_reaches_sketch_dp():
    name = "random_chain"
    dp = solution(name)
    td = bs.sketch_td(model(name), dp.coefficients, dp.decoder, bs.schedules.Decay(1.0, 1.0, 10.0))
    learned = td.decode(bs.run(jax.random.key(0), td, 100_000).state)
    ratio = (
        bs.cramer(learned, truth(name).distribution).max() / bs.cramer(dp.distributions, truth(name).distribution).max()
    )
    assert ratio <= 1.2
