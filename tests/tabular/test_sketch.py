import dataclasses

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.tabular.fixed_point import fixed_point
from cases import model, solution, truth


def setup(mrp, num_features=20, **kwargs):
    """Coefficients and a decoder for the model and for its rewards split into atoms."""
    span = bs.estimate_return_range(jax.random.key(0), mrp, 1000)
    features = bs.Sigmoid.from_range(span, num_features)
    rewards = [*mrp.rewards, *mrp.split_rewards("quadrature").rewards]
    coefficients = bs.fit_coefficients(features, span.grid(), rewards, (mrp.discount, 0.0), **kwargs)
    return coefficients, bs.fine_decoder(coefficients, span)


@pytest.mark.parametrize("name", ["sutton_barto18", "random_chain_gaussian", "loopy_fork_gaussian", "tree_gaussian"])
def test_joint_and_conditional_independence_forms_agree(name):
    mrp = model(name)
    assert mrp.rewards_by_state is not None
    coefficients, _ = setup(mrp)
    independent = bs.sketch_operator(mrp, coefficients)
    split = mrp.split_rewards("quadrature")
    assert split.outcomes.state.size > mrp.outcomes.state.size
    joint = bs.sketch_operator(split, coefficients)
    sketch = np.random.default_rng(0).normal(size=independent.offset.shape)
    np.testing.assert_allclose(joint(sketch), independent(sketch), atol=1e-10)


def test_the_operator_is_its_definition():
    """Written out as the sum over outcomes, on a model where reward and successor depend on each other."""
    mrp = bs.MRP.from_outcomes(
        [
            (0, 0.3, 1.0, 0),
            (0, 0.3, -1.0, 1),
            (0, 0.2, 1.0, 1),
            (0, 0.2, 2.0, None),
            (1, 0.5, 2.0, 0),
            (1, 0.5, 0.0, None),
        ],
        0.8,
    )
    assert mrp.rewards_by_state is None
    coefficients, _ = setup(mrp)
    sketch = np.random.default_rng(0).normal(size=(2, 20))
    expected = np.zeros((2, 20))
    for x, p, r, y in [(0, 0.3, 1.0, 0), (0, 0.3, -1.0, 1), (0, 0.2, 1.0, 1), (1, 0.5, 2.0, 0)]:
        matrix, offset = coefficients.at(r, 0.8)
        expected[x] += p * (matrix @ sketch[y] + offset)
    expected[0] += 0.2 * coefficients.features(2.0)
    expected[1] += 0.5 * coefficients.features(0.0)
    operator = bs.sketch_operator(mrp, coefficients)
    np.testing.assert_allclose(operator(sketch), expected, atol=1e-12)
    np.testing.assert_allclose(operator.dense() @ sketch.ravel(), operator.linear(sketch).ravel(), atol=1e-12)
    with jax.enable_x64(True):
        device = jax.jit(operator.on_device())(sketch)
    np.testing.assert_allclose(np.asarray(device), expected, atol=1e-12)


def random_walk(num_states):
    chances = np.full(num_states - 1, 0.5)
    transitions = np.diag(chances, 1) + np.diag(chances, -1)
    rewards = np.where(np.arange(num_states) % 7 == 0, 1.0, 0.0)
    return bs.MRP(transitions, rewards, 0.9, 1 - transitions.sum(axis=1))


def test_large_models_use_sparse_products_and_krylov_methods(monkeypatch):
    mrp = random_walk(60)
    coefficients, decoder = setup(mrp)
    small = bs.sketch_operator(mrp, coefficients)
    exact, radius = fixed_point(small).sketch, small.spectral_radius()
    monkeypatch.setattr("bellsketch.tabular.fixed_point.DENSE_UNKNOWNS", 10)
    monkeypatch.setattr("bellsketch.tabular.operator.DENSE_EIGENVALUES", 10)
    monkeypatch.setattr("bellsketch.tabular.operator.DENSE_MIXING", 10)
    np.testing.assert_allclose(fixed_point(small).sketch, exact, atol=1e-9)
    assert abs(small.spectral_radius() - radius) < 1e-4
    iterated = bs.run(jax.random.key(0), bs.sketch_dp(mrp, coefficients, decoder), 500).state
    np.testing.assert_allclose(iterated, exact, atol=1e-9)


def test_a_reward_without_coefficients_raises():
    coefficients, _ = setup(model("tree"))
    with pytest.raises(bs.MissingRewardError, match="reward 1 has no Bellman coefficients"):
        bs.sketch_operator(model("directed_chain"), coefficients)


def test_td_updates_are_their_definition():
    """One synchronous step on a model whose transitions are certain."""
    mrp = model("directed_chain")
    coefficients, decoder = setup(mrp)
    td = bs.sketch_td(mrp, coefficients, decoder, 0.25)
    state = bs.run(jax.random.key(0), td, 1).state
    start = coefficients.features(0.0)
    matrix, offset = coefficients.at(0.0, 0.9)
    expected = np.tile(0.75 * start + 0.25 * (matrix @ start + offset), (5, 1))
    expected[4] = 0.75 * start + 0.25 * coefficients.features(1.0)
    np.testing.assert_allclose(state.values, expected, atol=1e-12)
    assert state.count.tolist() == [1] * 5


def test_td_mean_update_is_the_dp_operator():
    mrp = model("sutton_barto18")
    coefficients, decoder = setup(mrp)
    td = bs.sketch_td(mrp, coefficients, decoder, 1.0)
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = bs.run(keys, td, 1).state.values
    start = np.tile(coefficients.features(0.0), (2, 1))
    expected = bs.sketch_operator(mrp, coefficients)(start)
    error = np.abs(drawn.mean(axis=0) - expected)
    assert np.all(error <= 5 * drawn.std(axis=0) / np.sqrt(4000) + 1e-12)


@pytest.mark.parametrize("mode", ["synchronous", "trajectory"])
@pytest.mark.parametrize("name", ["random_chain", "loopy_fork_gaussian"])
def test_td_converges_to_dp(name, mode):
    mrp = model(name)
    coefficients, decoder = setup(mrp)
    td = bs.sketch_td(mrp, coefficients, decoder, bs.schedules.Decay(1.0, 0.9, 10.0), mode=mode)
    state = bs.run(jax.random.key(0), td, 20_000 if mode == "synchronous" else 100_000).state
    exact = fixed_point(bs.sketch_operator(mrp, coefficients)).sketch
    assert bs.squared_embedding_error(state.values, exact).max() < 5e-3
    if mode == "trajectory":
        assert state.count.sum() == 100_000


class TestRun:
    mrp = model("loopy_fork")

    def td(self, step_size=0.1):
        return bs.sketch_td(self.mrp, *setup(self.mrp), step_size)

    def test_seeds_side_by_side_equal_seeds_one_by_one_and_differ(self):
        keys = jax.random.split(jax.random.key(3), 3)
        together = bs.run(keys, self.td(), 40).state.values
        alone = np.stack([bs.run(k, self.td(), 40).state.values for k in keys])
        np.testing.assert_allclose(together, alone, atol=1e-12)
        assert np.abs(together[0] - together[1]).max() > 1e-3

    def test_step_sizes_side_by_side_equal_one_by_one(self):
        keys = jax.random.split(jax.random.key(3), 2)
        rates = np.array([0.05, 0.2, 0.8])
        sweep = dataclasses.replace(self.td(), step_size=bs.schedules.Constant(rates))
        together = bs.run(keys, sweep, 30, vary=("step_size",)).state.values
        assert together.shape == (3, 2, 4, 20)
        for rate, result in zip(rates, together, strict=True):
            np.testing.assert_allclose(result, bs.run(keys, self.td(rate), 30).state.values, atol=1e-12)

    @pytest.mark.slow
    def test_jit_equals_eager_and_continues_where_it_stopped(self):
        key = jax.random.key(1)
        jitted = bs.run(key, self.td(), 6)
        with jax.disable_jit():
            eager = bs.run(key, self.td(), 6)
        np.testing.assert_allclose(jitted.state.values, eager.state.values, atol=1e-12)
        half = bs.run(key, self.td(), 3)
        rest = bs.run(key, self.td(), 3, state=half.state, start=3)
        np.testing.assert_array_equal(rest.state.values, jitted.state.values)

    def test_history_and_changes(self):
        dp = bs.sketch_dp(self.mrp, *setup(self.mrp))
        result = bs.run(jax.random.key(0), dp, 10, record_every=4)
        assert result.steps.tolist() == [4, 8, 10]
        assert result.history.shape == (3, 4, 20)
        np.testing.assert_array_equal(result.history[-1], result.state)
        assert result.change.shape == (10,)
        assert np.all(np.diff(result.change[3:]) < 0)
        shown = bs.run(jax.random.key(0), dp, 10, progress=True)
        np.testing.assert_array_equal(shown.state, result.state)

    def test_any_function_is_a_schedule(self):
        by_function = bs.run(jax.random.key(0), self.td(lambda k: 0.5 / (1 + k)), 20).state.values
        by_class = bs.run(jax.random.key(0), self.td(bs.schedules.Decay(0.5, 1.0, 1.0)), 20).state.values
        np.testing.assert_allclose(by_function, by_class, atol=1e-12)

    def test_precision_is_the_librarys_business(self):
        assert not jax.config.jax_enable_x64
        assert bs.run(jax.random.key(0), self.td(), 2).state.values.dtype == np.float64

    def test_divergence_is_reported_with_its_step(self):
        td = self.td()
        grow = dataclasses.replace(td, backups=dataclasses.replace(td.backups, matrices=1e30 * np.ones((3, 20, 20))))
        with pytest.raises(bs.DivergenceError, match=r"diverged: at step \d+ .*larger ridge"):
            bs.run(jax.random.key(0), grow, 1000)

    def test_a_diverging_sketch_is_stopped_long_before_it_overflows(self):
        with pytest.raises(bs.DivergenceError, match=r"iterating diverges: after \d+ backups .* intercept='free'"):
            bs.solve(model("cycle"), num_features=10, method="iterate", iterations=200)

    @pytest.mark.parametrize("mode", ["synchronous", "trajectory"])
    def test_large_rewards_are_no_divergence(self, mode):
        mrp = bs.MRP([[0.0, 1.0], [0.0, 0.0]], [0.0, 1e9], 0.9, [0.0, 1.0])
        for algorithm in (bs.dirac_dp(mrp), bs.quantile_dp(mrp, 3), bs.dirac_td(mrp, 1.0, mode=mode)):
            found = algorithm.decode(bs.run(jax.random.key(0), algorithm, 50).state)
            np.testing.assert_allclose(found.mean, [9e8, 1e9])

    def test_arrays_that_jax_has_seen_in_single_precision(self):
        """JAX remembers by identity what it once rounded; a run must not be affected."""
        dp = bs.sketch_dp(self.mrp, *setup(self.mrp))
        jax.jit(lambda u: u @ dp.operator.matrices[0] + dp.operator.offset[0])(jax.numpy.ones(20))
        fresh = bs.sketch_dp(self.mrp, *setup(self.mrp))
        key = jax.random.key(0)
        np.testing.assert_array_equal(bs.run(key, dp, 5).state, bs.run(key, fresh, 5).state)

    def test_bad_arguments(self):
        with pytest.raises(bs.InputError, match="num_steps=-1"):
            bs.run(jax.random.key(0), self.td(), -1)
        with pytest.raises(bs.InputError, match=r"no field 'learning_rate'; it has .*step_size"):
            bs.run(jax.random.key(0), self.td(), 1, vary=("learning_rate",))
        with pytest.raises(bs.InputError, match="record_every=0"):
            bs.run(jax.random.key(0), self.td(), 1, record_every=0)
        with pytest.raises(bs.InputError, match="step_size=0"):
            self.td(0)
        with pytest.raises(bs.InputError, match="mode='online'"):
            bs.sketch_td(self.mrp, *setup(self.mrp), 0.1, mode="online")


def test_the_classical_td_of_sutton_and_barto_is_a_special_case():
    """With φ = (1, g), Sketch-TD's second entry is TD(0)."""
    mrp = model("random_chain")
    features = bs.Polynomial(2)
    span = bs.ReturnRange(0.0, 5.0)
    coefficients = bs.fit_coefficients(features, span.grid(), mrp.rewards, (0.9, 0.0), ridge=0.0)
    td = bs.sketch_td(mrp, coefficients, bs.anchor_decoder(features, span), bs.schedules.Decay(1.0, 1.0, 10.0))
    learned = bs.run(jax.random.key(0), td, 50_000).state.values[:, 1]
    np.testing.assert_allclose(learned, mrp.value, atol=0.05)
    assert truth("random_chain").method == "grid"
    np.testing.assert_allclose(solution("random_chain").mean, mrp.value, atol=1e-5)
