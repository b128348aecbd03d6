"""Distances against SciPy, an optimal-transport program and hand calculation; axioms by hypothesis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import InputError
from bellsketch.core.metrics import CramerTo, cramer, excess_cramer, kolmogorov, squared_embedding_error, wasserstein
from bellsketch.core.projections import categorical_projection
from strategies import distributions, samples

cheap = settings(max_examples=50, deadline=None)

METRICS = {
    "cramer": cramer,
    "wasserstein": wasserstein,
    "wasserstein_2": lambda p, q: wasserstein(p, q, 2),
    "kolmogorov": kolmogorov,
}
metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())


def random_pair(seed, n=5, k=7):
    rng = np.random.default_rng(seed)
    return [AtomicDistribution(rng.normal(size=s), rng.dirichlet(np.ones(s))) for s in (n, k)]


def scipy_arguments(p, q):
    return p.locations, q.locations, p.probabilities, q.probabilities


def transport_cost(p, q, order):
    """min Σ_ij π_ij |x_i − y_j|^order over couplings π, by linear programming."""
    cost = abs(p.locations[:, None] - q.locations) ** order
    n, k = cost.shape
    marginals = np.vstack([np.kron(np.eye(n), np.ones(k)), np.kron(np.ones(n), np.eye(k))])
    right = np.concatenate([p.probabilities, q.probabilities])
    return optimize.linprog(cost.ravel(), A_eq=marginals, b_eq=right).fun


@pytest.mark.parametrize("seed", range(5))
def test_against_scipy(seed):
    p, q = random_pair(seed)
    assert wasserstein(p, q) == pytest.approx(stats.wasserstein_distance(*scipy_arguments(p, q)), rel=1e-10)
    # SciPy's energy distance is √(2 ∫ (F − G)²); ours is ∫ (F − G)².
    assert 2 * cramer(p, q) == pytest.approx(stats.energy_distance(*scipy_arguments(p, q)) ** 2, rel=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3.5])
@pytest.mark.parametrize("seed", range(3))
def test_wasserstein_is_the_cost_of_optimal_transport(order, seed):
    p, q = random_pair(seed)
    assert wasserstein(p, q, order) ** order == pytest.approx(transport_cost(p, q, order), rel=1e-7)


@cheap
@given(distributions(), distributions())
def test_wasserstein_2_pairs_sorted_samples(p, q):
    assert wasserstein(p, q, 2) == pytest.approx(np.sqrt(np.mean((samples(p) - samples(q)) ** 2)), abs=1e-9)


@cheap
@given(distributions(), distributions())
def test_kolmogorov_is_the_two_sample_statistic(p, q):
    assert kolmogorov(p, q) == pytest.approx(stats.ks_2samp(samples(p), samples(q)).statistic, abs=1e-12)


def test_by_hand():
    p, q = AtomicDistribution([0.0, 1.0], [0.5, 0.5]), AtomicDistribution([0.0, 3.0], [0.25, 0.75])
    # F_p − F_q is 1/4 on [0, 1) and 3/4 on [1, 3).
    assert cramer(p, q) == pytest.approx(1 / 16 + 2 * 9 / 16)
    assert wasserstein(p, q) == pytest.approx(1 / 4 + 2 * 3 / 4)
    assert wasserstein(p, q, 2) == pytest.approx(np.sqrt(9 / 4 + 4 / 2))  # 0↔3 for a quarter, 1↔3 for a half
    assert kolmogorov(p, q) == pytest.approx(3 / 4)


def test_between_diracs():
    p, q = dirac(1.0), dirac(4.0)
    assert [metric(p, q) for metric in METRICS.values()] == pytest.approx([3, 3, 3, 1])
    assert [metric(p, p) for metric in METRICS.values()] == [0, 0, 0, 0]


# ∫ (F − G)² is the square of a metric; the triangle inequality holds for its root.
DISTANCES = METRICS | {"cramer": lambda p, q: cramer(p, q) ** 0.5}


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES.keys())
@cheap
@given(p=distributions(), q=distributions(), r=distributions())
def test_axioms_of_a_distance(distance, p, q, r):
    assert distance(p, p.sorted()) == pytest.approx(0, abs=1e-9)
    assert distance(p, q) == pytest.approx(distance(q, p), abs=1e-12)
    assert distance(p, r) <= distance(p, q) + distance(q, r) + 1e-9


@cheap
@given(p=distributions(), q=distributions())
def test_atoms_without_mass_change_nothing(p, q):
    padded = AtomicDistribution(np.append(p.locations, 20.0), np.append(p.probabilities, 0.0))
    for metric in METRICS.values():
        assert metric(padded, q) == pytest.approx(metric(p, q), abs=1e-9)


@metrics
def test_masses_need_not_sum_to_exactly_one(metric):
    p = AtomicDistribution([0.0, 100.0], [0.5, 0.5])
    q = AtomicDistribution([0.0, 100.0], [0.5 * (1 + 9e-7), 0.5 * (1 + 9e-7)])
    assert metric(p, q) <= 1e-4


@metrics
def test_batches_broadcast_and_numpy_agrees_with_jax(metric):
    rng = np.random.default_rng(0)
    many = AtomicDistribution(rng.normal(size=(3, 2, 5)), rng.dirichlet(np.ones(5), size=(3, 2)))
    one = AtomicDistribution(rng.normal(size=4), rng.dirichlet(np.ones(4)))
    loop = np.array([[metric(many[i, j], one) for j in range(2)] for i in range(3)])
    assert isinstance(metric(many, one), np.ndarray)
    np.testing.assert_allclose(metric(many, one), loop, rtol=1e-12)
    np.testing.assert_allclose(metric(one, many), loop, rtol=1e-7)
    on_device = [jax.tree.map(jnp.asarray, d) for d in (many, one)]
    assert isinstance(metric(*on_device), jax.Array)
    np.testing.assert_allclose(metric(*on_device), loop, rtol=1e-3)
    np.testing.assert_allclose(jax.jit(metric)(*on_device), metric(*on_device), rtol=1e-5)


def test_squared_embedding_error_sums_over_features():
    np.testing.assert_array_equal(squared_embedding_error(np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones((2, 2))), [1, 2])


def test_excess_cramer_counts_from_the_best_the_support_allows():
    truth, projected, estimate = dirac(0.5), AtomicDistribution([0.0, 1.0], [0.5, 0.5]), dirac(0.0)
    assert excess_cramer(estimate, truth, projected) == pytest.approx(0.5 - 0.25)


@pytest.mark.parametrize("order", [0, 0.5, np.inf, np.nan])
def test_bad_orders_raise(order):
    with pytest.raises(InputError, match=f"order={order}"):
        wasserstein(dirac(0.0), dirac(1.0), order)


# Whole numbers are atoms of ``distributions`` too, so that targets have atoms exactly on support points.
points = st.one_of(st.integers(-12, 12), st.floats(-12, 12, width=32)).map(lambda z: round(float(z), 3))
supports = st.lists(points, min_size=1, max_size=8, unique=True).map(lambda zs: np.sort(np.array(zs)))
TARGETS = {
    "a single atom": ([0.5], [1.0]),
    "a single atom on a support point": ([1.0], [1.0]),
    "atoms on support points": ([-1.0, 0.0, 2.0], [0.25, 0.25, 0.5]),
    "below the support": ([-9.0, -7.0], [0.5, 0.5]),
    "above the support": ([7.0, 9.0], [0.5, 0.5]),
    "on both sides of it": ([-9.0, 0.5, 9.0], [0.25, 0.25, 0.5]),
    "atoms in one place": ([0.5, 0.5, 1.0, 1.0], [0.25, 0.25, 0.25, 0.25]),
    "unsorted": ([3.0, -2.0, 0.25], [0.125, 0.375, 0.5]),
    "atoms without mass at the ends": ([-8.0, 0.5, 8.0], [0.0, 1.0, 0.0]),
}


class TestCramerTo:
    """The table of integrals against ``cramer``, which merges the atoms of both distributions."""

    support = np.array([-1.0, 0.0, 1.0, 2.0])

    @staticmethod
    def check(target, support, probabilities):
        to_target = CramerTo(AtomicDistribution(target.locations[None], target.probabilities[None]))
        expected = cramer(AtomicDistribution(support, probabilities), target)
        np.testing.assert_allclose(to_target(support, probabilities[None]), [expected], rtol=1e-12, atol=1e-12)
        best = cramer(categorical_projection(target, support), target)
        np.testing.assert_allclose(to_target.of_projection(support), [best], rtol=1e-12, atol=1e-12)

    @cheap
    @given(distributions(), supports, st.data())
    def test_equals_cramer(self, target, support, data):
        counts = st.lists(st.integers(0, 9), min_size=support.size, max_size=support.size).filter(any)
        weights = np.array(data.draw(counts), dtype=np.float64)
        self.check(target, support, weights / weights.sum())

    @pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
    def test_awkward_targets(self, target):
        target = AtomicDistribution(*map(np.array, target))
        for probabilities in np.vstack([np.eye(4), np.full(4, 0.25)]):
            self.check(target, self.support, probabilities)
        self.check(target, np.array([0.5]), np.ones(1))

    def test_by_hand(self):
        """δ_½ against ¾δ_0 + ¼δ_1: (¾)² on [0, ½) and (¼)² on [½, 1). The projection has ½ and ½."""
        to_target = CramerTo(dirac([0.5]))
        assert to_target(np.array([0.0, 1.0]), np.array([[0.75, 0.25]])) == pytest.approx([9 / 32 + 1 / 32])
        assert to_target.of_projection(np.array([0.0, 1.0])) == pytest.approx([0.25])
        assert to_target(np.array([0.5, 1.0]), np.array([[1.0, 0.0]])) == [0]

    def test_leading_axes_are_a_batch_of_estimates(self):
        rng = np.random.default_rng(0)
        target = AtomicDistribution(rng.normal(size=(3, 5)), rng.dirichlet(np.ones(5), size=3))
        estimates = rng.dirichlet(np.ones(4), size=(2, 6, 3))
        found = CramerTo(target)(self.support, estimates)
        assert found.shape == (2, 6, 3)
        np.testing.assert_allclose(found, cramer(AtomicDistribution(self.support, estimates), target), atol=1e-12)
        assert CramerTo(target).of_projection(self.support).shape == (3,)
