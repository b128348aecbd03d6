"""Each baseline against something that is not this library."""

import jax
import numpy as np
import pytest
from scipy import stats

import bellsketch as bs
from bellsketch.core.expectiles import expectiles, first_order_conditions, impute_particles, spread_out
from bellsketch.core.projections import midpoint_levels
from bellsketch.tabular.backup import distributional_backup
from bellsketch.tabular.categorical import categorical_dp, categorical_fixed_point, categorical_td, cumulative_operator
from bellsketch.tabular.dirac import dirac_dp, dirac_td
from bellsketch.tabular.expectile import expectile_dp
from bellsketch.tabular.moments import central_moments, kurtosis, moments_dp, skewness
from bellsketch.tabular.particles import GaussianMixture, Unrectified, mmd_loss, particle_dp
from bellsketch.tabular.quantile import quantile_dp, quantile_td
from cases import by_hand_moments, model, return_range, truth

KEY = jax.random.key(0)
EIGHT = ("random_chain", "directed_chain", "tree", "loopy_tree", "cycle", "loopy_fork", "rowland23", "sutton_barto18")


class TestCategorical:
    @pytest.mark.parametrize("name", ["random_chain", "loopy_fork", "sutton_barto18", "tree_gaussian"])
    def test_the_direct_fixed_point_is_the_limit_of_iteration(self, name):
        mrp = model(name)
        least, greatest = mrp.return_bounds
        support = np.linspace(least.min(), greatest.max(), 31)
        iterated = bs.run(KEY, categorical_dp(mrp, support), 1000).state
        np.testing.assert_allclose(categorical_fixed_point(mrp, support).probabilities, iterated, atol=1e-10)

    def test_any_sorted_support(self):
        support = np.array([-4.0, -2.0, -1.5, 0.0, 0.1, 1.0, 2.5, 3.0, 3.6, 4.0])
        mrp = model("loopy_fork")
        p = categorical_fixed_point(mrp, support)
        pushed = distributional_backup(mrp)(p)
        again = bs.categorical_projection(bs.AtomicDistribution(*map(np.asarray, vars(pushed).values())), support)
        np.testing.assert_allclose(again.probabilities, p.probabilities, atol=1e-6)

    @pytest.mark.parametrize("name", EIGHT)
    def test_means_are_preserved(self, name):
        mrp = model(name)
        rewards = np.array([0.0, *(atom for r in mrp.rewards for atom in r.atoms)])
        support = np.linspace(rewards.min() / 0.1, rewards.max() / 0.1, 15)  # nothing is ever clipped
        np.testing.assert_allclose(categorical_fixed_point(mrp, support).mean, mrp.value, atol=1e-10)

    def test_backups_contract_the_cramer_distance_by_the_root_of_the_discount(self):
        """In ℓ₂, so by γ in the squared distance; the rate is nearly attained by moving two points together."""
        mrp = model("cycle")
        support = np.linspace(0, 10, 101)
        dp = categorical_dp(mrp, support)
        rng = np.random.default_rng(0)
        ratios = []
        for _ in range(50):
            p, q = rng.dirichlet(np.full(101, 0.05), (2, 5))
            before = bs.cramer(dp.decode(p), dp.decode(q)).max()
            with jax.enable_x64(True):
                after = bs.cramer(*(dp.decode(np.asarray(dp.step(KEY, u)[0])) for u in (p, q))).max()
            ratios.append(np.sqrt(after / before))
        assert max(ratios) <= np.sqrt(0.9) + 1e-9
        norms = [np.linalg.norm(a, ord=2) for a in cumulative_operator(mrp, support).matrices]
        assert all(0.94 < norm <= np.sqrt(0.9) + 1e-9 for norm in norms), norms

    def test_td_finds_the_dp_fixed_point(self):
        mrp, support = model("random_chain"), np.linspace(0, 5.3, 20)
        td = categorical_td(mrp, support, bs.schedules.Decay(1.0, 0.9, 10.0))
        learned = td.decode(bs.run(KEY, td, 20_000).state)
        exact = categorical_fixed_point(mrp, support)
        assert bs.cramer(learned, exact).max() < 1e-3
        assert bs.cramer(exact, truth("random_chain").distribution).max() > 1e-2

    def test_a_support_that_misses_returns_warns_with_the_mass(self):
        with pytest.warns(bs.BellsketchWarning, match=r"support \[0, 1\] misses.*state 9 clips 0\.\d+ of its mass"):
            categorical_dp(model("random_chain"), np.linspace(0, 1, 10))
        with pytest.warns(bs.BellsketchWarning, match="misses part"):
            categorical_fixed_point(model("tree"), [-1.0, 0.0, 1.0])
        with pytest.warns(bs.BellsketchWarning, match="misses part"):
            categorical_td(model("tree_gaussian"), np.linspace(-5, 5, 10), 0.1)

    @pytest.mark.parametrize("support", [np.array([0.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0]), np.zeros(0)])
    def test_bad_supports(self, support):
        for make in (categorical_dp, categorical_fixed_point, lambda m, s: categorical_td(m, s, 0.1)):
            with pytest.raises(bs.InputError, match="support"):
                make(model("tree"), support)


class TestQuantile:
    def test_rowland_with_two_particles(self):
        state = bs.run(KEY, quantile_dp(model("rowland23"), 2), 1000).state
        np.testing.assert_allclose(state, [[17.3, 20.0], [14.57, 17.0]], atol=1e-9)

    def test_deterministic_returns_are_found_exactly(self):
        for name in ("cycle", "directed_chain"):
            state = bs.run(KEY, quantile_dp(model(name), 7), 500).state
            np.testing.assert_allclose(state, np.tile(model(name).value[:, None], 7), atol=1e-12)

    @pytest.mark.parametrize("name", ["random_chain", "loopy_fork"])
    def test_one_step_is_its_definition(self, name):
        """Quantiles of the mixture written out with rv_discrete-like sums."""
        mrp, m = model(name), 6
        theta = np.sort(np.random.default_rng(1).normal(size=(mrp.num_states, m)), axis=1)
        with jax.enable_x64(True):
            updated = np.asarray(quantile_dp(mrp, m).step(KEY, theta)[0])
        o, values = mrp.outcomes, np.array([r.mean for r in mrp.rewards])
        for x in range(mrp.num_states):
            mine = o.state == x
            outcomes = zip(o.successor[mine], o.reward[mine], strict=True)
            z = np.concatenate([values[r] + 0.9 * theta[y] * (y >= 0) for y, r in outcomes])
            w = np.repeat(o.probability[mine] / m, m)
            order = np.argsort(z)
            cumulative = np.cumsum(w[order])
            expected = [z[order][np.argmax(cumulative >= level - 1e-12)] for level in midpoint_levels(m)]
            np.testing.assert_allclose(updated[x], expected, atol=1e-12)

    def test_td_finds_the_dp_fixed_point(self):
        mrp = model("loopy_fork_gaussian")
        dp = bs.run(KEY, quantile_dp(mrp, 10), 500).state
        td = quantile_td(mrp, 10, bs.schedules.Decay(2.0, 0.7, 100.0))
        learned = bs.run(KEY, td, 30_000).state.values
        np.testing.assert_allclose(learned, dp, atol=0.25)

    def test_bad_number(self):
        with pytest.raises(bs.InputError, match="num=0"):
            quantile_dp(model("tree"), 0)
        with pytest.raises(bs.InputError, match="num=0"):
            quantile_td(model("tree"), 0, 0.1)


class TestExpectile:
    @pytest.mark.parametrize("seed", range(5))
    def test_expectiles_against_scipy(self, seed):
        rng = np.random.default_rng(seed)
        z, w = rng.normal(size=17), rng.dirichlet(np.ones(17))
        levels = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
        expected = [stats.expectile(z, level, weights=w) for level in levels]
        np.testing.assert_allclose(expectiles(bs.AtomicDistribution(z, w), levels), expected, atol=1e-10)
        with jax.enable_x64(True):
            z, w = jax.numpy.asarray(z), jax.numpy.asarray(w)
            on_device = jax.jit(expectiles)(bs.AtomicDistribution(z, w), jax.numpy.asarray(levels))
        np.testing.assert_allclose(np.asarray(on_device), expected, atol=1e-10)

    def test_expectiles_of_a_point_and_of_batches(self):
        points = bs.dirac(np.array([2.0, -1.0]))
        np.testing.assert_allclose(expectiles(points, np.array([0.1, 0.9])), [[2, 2], [-1, -1]])

    @pytest.mark.parametrize("m", [1, 4, 15])
    def test_imputation_reproduces_expectiles_of_particles(self, m):
        levels = midpoint_levels(m)
        particles = np.sort(np.random.default_rng(m).normal(size=m))
        values = expectiles(bs.AtomicDistribution(particles, np.full(m, 1 / m)), levels)
        with jax.enable_x64(True):
            start = spread_out(jax.numpy.asarray(values))
            found = np.asarray(impute_particles(jax.numpy.asarray(values), levels, start))
            residual, _ = first_order_conditions(jax.numpy.asarray(found), jax.numpy.asarray(values), levels)
        assert np.abs(np.asarray(residual)).max() < 1e-9
        imputed = bs.AtomicDistribution(np.sort(found), np.full(m, 1 / m))
        np.testing.assert_allclose(expectiles(imputed, levels), values, atol=1e-7)

    def test_the_two_imputations_agree_where_the_answer_is_easy(self):
        mrp = model("loopy_fork")
        ours, papers = (
            bs.run(KEY, expectile_dp(mrp, 3, imputation=how), 60).state.expectiles for how in ("ours", "scipy")
        )
        np.testing.assert_allclose(ours, papers, atol=1e-2)

    def test_the_papers_imputation_is_in_double_precision_in_any_thread(self):
        """With numbers that are not there yet, SciPy is called from a thread of XLA's."""
        algorithm, value = expectile_dp(model("loopy_fork"), 3, imputation="scipy"), 1 / 3
        with jax.enable_x64(True):
            large = jax.numpy.ones((2_500, 2_500))
            for _ in range(2):  # the first compiles
                late = value + 0 * (large @ large).sum() + 0 * algorithm.init(KEY).expectiles
                found = algorithm._impute(late, late)
        np.testing.assert_allclose(found, value, atol=1e-12)

    def test_bad_levels_and_names(self):
        for levels in ([0.0, 0.5], [0.5, 1.0], [-0.1], [np.nan]):
            with pytest.raises(bs.InputError, match="strictly between 0 and 1"):
                expectiles(bs.dirac(np.zeros(1)), np.array(levels))
        with pytest.raises(bs.InputError, match="num=0"):
            expectile_dp(model("tree"), 0)
        with pytest.raises(bs.InputError, match="imputation='guess'"):
            expectile_dp(model("tree"), 3, imputation="guess")


class TestMoments:
    @pytest.mark.parametrize("name", ["random_chain", "loopy_fork", "tree", "rowland23"])
    def test_central_moments(self, name):
        dp = moments_dp(model(name), 8, return_range(name))
        sketch = bs.run(KEY, dp, 400).state
        raw = by_hand_moments(model(name), 4)
        variance = raw[:, 2] - raw[:, 1] ** 2
        third = raw[:, 3] - 3 * raw[:, 1] * raw[:, 2] + 2 * raw[:, 1] ** 3
        central = central_moments(dp.features, sketch)
        expected = [np.ones(len(raw)), 0 * variance, variance, third]
        np.testing.assert_allclose(central[:, :4].T, expected, atol=1e-8 * dp.features.scale**3)
        exact = truth(name).distribution
        skew, kurt = skewness(dp.features, sketch), kurtosis(dp.features, sketch)
        for x in range(len(raw)):
            if variance[x] <= 1e-6:
                assert np.isnan(skew[x])
                assert np.isnan(kurt[x])
                continue
            z, p = exact.locations[x], exact.probabilities[x]
            deviation = (z - p @ z) / np.sqrt(variance[x])
            np.testing.assert_allclose(skew[x], p @ deviation**3, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(kurt[x], p @ deviation**4, rtol=1e-4)

    def test_gaussian_returns_have_gaussian_moments(self):
        dp = moments_dp(model("cycle_gaussian"), 6, return_range("cycle_gaussian"))
        sketch = bs.run(KEY, dp, 400).state
        np.testing.assert_allclose(kurtosis(dp.features, sketch), 3.0, atol=1e-8)
        np.testing.assert_allclose(skewness(dp.features, sketch), 0.0, atol=1e-8)

    @pytest.mark.filterwarnings("ignore:the linear system of the fixed point is nearly singular")
    def test_scaled_powers_keep_what_raw_powers_lose(self):
        name, num = "rowland23", 30
        span, exact = return_range(name), truth(name).distribution
        errors = []
        for features in (bs.Polynomial.from_range(span, num), bs.Polynomial(num)):
            solution = bs.solve(model(name), features=features, return_range=span)
            errors.append(bs.cramer(solution.distributions, exact).max())
        assert errors[0] < 1e-3 < 0.1 < errors[1]

    def test_too_few_moments(self):
        dp = moments_dp(model("tree"), 3, return_range("tree"))
        with pytest.raises(bs.InputError, match="order 3 needs 4"):
            skewness(dp.features, np.zeros((1, 3)))


class TestParticles:
    @pytest.mark.parametrize("kernel", [Unrectified(1.0), Unrectified(1.5), GaussianMixture(np.array([0.5, 2.0]))])
    def test_the_loss_is_the_squared_mmd_up_to_a_constant(self, kernel):
        rng = np.random.default_rng(0)
        x, y, w = rng.normal(size=5), rng.normal(size=4), rng.dirichlet(np.ones(4))

        def k(a, b):
            d = np.abs(a[:, None] - b)
            if isinstance(kernel, Unrectified):
                return -(d**kernel.power)
            return sum(np.exp(-(d**2) / h) for h in kernel.bandwidths)

        expected = k(x, x).mean() - 2 * (k(x, y) @ w).mean()
        with jax.enable_x64(True):
            assert abs(float(mmd_loss(kernel, *map(jax.numpy.asarray, (x, y, w)))) - expected) < 1e-12

    def test_the_energy_kernel_is_twice_the_cramer_distance(self):
        rng = np.random.default_rng(0)
        x, y, w = rng.normal(size=5), rng.normal(size=4), rng.dirichlet(np.ones(4))
        with jax.enable_x64(True):
            loss = float(mmd_loss(Unrectified(1.0), *map(jax.numpy.asarray, (x, y, w))))
        constant = w @ -np.abs(y[:, None] - y) @ w
        particles = bs.AtomicDistribution(x, np.full(5, 0.2))
        np.testing.assert_allclose(loss + constant, 2 * bs.cramer(particles, bs.AtomicDistribution(y, w)))

    def test_particles_find_the_distribution(self):
        mrp, span = model("loopy_fork"), return_range("loopy_fork")
        step_size = bs.schedules.Decay(0.05 * span.width, 1.0, 50.0)
        dp = particle_dp(mrp, 20, span, step_size)
        found = dp.decode(bs.run(KEY, dp, 3000).state)
        best = bs.cramer(bs.quantile_projection(truth("loopy_fork").distribution, 20), truth("loopy_fork").distribution)
        assert bs.cramer(found, truth("loopy_fork").distribution).max() < 3 * best.max()

    def test_bad_kernels(self):
        with pytest.raises(bs.InputError, match="power=2"):
            Unrectified(2.0)
        with pytest.raises(bs.InputError, match="bandwidths"):
            GaussianMixture(np.array([1.0, 0.0]))


def test_dirac_is_the_value_function():
    for name in bs.environments.NAMES:
        dp = dirac_dp(model(name))
        np.testing.assert_allclose(dp.decode(bs.run(KEY, dp, 400).state).mean, model(name).value, atol=1e-10)
    td = dirac_td(model("random_chain"), bs.schedules.Decay(1.0, 1.0, 10.0), mode="trajectory")
    learned = td.decode(bs.run(KEY, td, 100_000).state).mean
    np.testing.assert_allclose(learned, model("random_chain").value, atol=0.1)


@pytest.mark.filterwarnings("ignore:support .* misses part of the returns")
@pytest.mark.parametrize(
    "num", [pytest.param(10, marks=pytest.mark.slow), 20, pytest.param(50, marks=pytest.mark.slow), 100]
)
@pytest.mark.parametrize("name", EIGHT)
def test_fine_decoding_beats_categorical_dp_at_equal_numbers(name, num):
    span = return_range(name)
    solution = bs.solve(model(name), num_features=num, return_range=span)
    diverges = solution.operator.spectral_radius() >= 1
    assert diverges == ((name, num) == ("cycle", 10))  # no other cell may excuse itself
    if diverges:
        pytest.skip("the spectral radius is not below 1")
    categorical = categorical_fixed_point(model(name), span.expand(0.05).points(num))
    exact = truth(name).distribution
    assert bs.cramer(solution.distributions, exact).max() < bs.cramer(categorical, exact).max()
