"""One row per feature family: what every feature map must do, and its values against formulas written by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.core.families import FAMILIES, make_features
from bellsketch.core.features import Bins, Fourier, Indicator, Polynomial, Sigmoid, TranslationFamily, WithConstant
from bellsketch.core.ranges import ReturnRange

RANGE = ReturnRange(-1, 3)
M = 7
CONTRACT = {name: make_features(name, RANGE, M) for name in FAMILIES} | {
    "with_constant": WithConstant(Sigmoid.from_range(RANGE, M - 1)),
    "bins_overlap_3": Bins.from_range(RANGE, M, overlap=3),
}
RETURNS = np.random.default_rng(0).uniform(-4, 6, (4, 3))

contract = pytest.mark.parametrize("features", CONTRACT.values(), ids=CONTRACT.keys())


@contract
@pytest.mark.parametrize("shape", [(), (5,), (4, 3)], ids=str)
def test_features_go_along_a_new_last_axis(features, shape):
    assert features.num_features == M
    assert features(np.zeros(shape)).shape == (*shape, M)
    assert features(jnp.zeros(shape)).shape == (*shape, M)


@contract
@pytest.mark.parametrize("returns", [RETURNS, RETURNS.astype(np.float32), RETURNS.tolist(), 1, 0.5], ids=type)
def test_host_values_are_float64_whatever_jax_is_set_to(features, returns):
    assert not jax.config.jax_enable_x64
    values = features(returns)
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64


@contract
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32])
def test_jax_in_jax_out(features, dtype):
    returns = jnp.asarray(RETURNS, dtype)
    values = features(returns)
    assert isinstance(values, jax.Array)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, features(np.asarray(returns)), rtol=2e-4, atol=1e-5)


@contract
def test_jit_equals_eager_with_the_features_as_constant_or_argument(features):
    returns = jnp.asarray(RETURNS, jnp.float32)
    eager = features(returns)
    np.testing.assert_allclose(jax.jit(features)(returns), eager, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda f, x: f(x))(features, returns), eager, rtol=1e-5, atol=1e-6)


@contract
def test_host_values_are_constants_inside_jit(features):
    inside = jax.jit(lambda x: x + features(0.5))(jnp.zeros(M))
    np.testing.assert_allclose(inside, features(0.5), rtol=1e-6, atol=1e-30)


@contract
def test_vmap_equals_a_loop(features):
    returns = jnp.asarray(RETURNS, jnp.float32)
    loop = jnp.stack([features(x) for x in returns])
    np.testing.assert_allclose(jax.vmap(features)(returns), loop, rtol=1e-5, atol=1e-6)


@contract
def test_pytree_round_trip(features):
    leaves, structure = jax.tree.flatten(features)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(features)
    assert again.num_features == M
    np.testing.assert_array_equal(again(RETURNS), features(RETURNS))


@contract
def test_one_anchor_per_feature_or_none(features):
    if features.anchors is not None:
        assert features.anchors.shape == (M,)
        assert np.all(np.diff(features.anchors) > 0)


# ---------------------------------------------------------------------------------------------------------------------
# Values
# ---------------------------------------------------------------------------------------------------------------------

BASE = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gaussian": lambda x: np.exp(-(x**2) / 2),
    "tanh": lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1),
    "erf": special.erf,
    "parabolic": lambda x: np.where(abs(x) <= 1, 1 - x**2, 0),
    "quartic": lambda x: np.where(abs(x) <= 1, (1 - x**2) ** 2, 0),
    "morlet": lambda x: np.exp(-(x**2) / 2) * np.cos(2 * x),
}
TRANSLATIONS = [name for name in FAMILIES if isinstance(CONTRACT[name], TranslationFamily)]


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translation_families_are_the_base_feature_moved_and_scaled(name):
    anchors, slope = np.array([-1.0, 0.5, 2.0]), 1.7
    features = type(CONTRACT[name])(anchors, slope)
    expected = np.stack([BASE[name](slope * (RETURNS - z)) for z in anchors], axis=-1)
    np.testing.assert_allclose(features(RETURNS), expected, rtol=1e-12, atol=1e-15)


def test_indicator_is_zeros_then_ones_and_closed_at_the_last_edge():
    """Prop. 4, with its picture the right way round: on bin i there are i−1 zeros, then ones."""
    features = Indicator([0.0, 1.0, 2.0, 3.0])
    expected = {
        -0.1: [0, 0, 0],
        0.0: [1, 1, 1],
        0.9: [1, 1, 1],
        1.0: [0, 1, 1],
        2.5: [0, 0, 1],
        3.0: [0, 0, 1],
        3.1: [0, 0, 0],
    }
    np.testing.assert_array_equal(features(list(expected)), list(expected.values()))


@pytest.mark.parametrize("overlap", [1, 2, 3])
def test_bins_cover_as_many_cells_as_they_overlap(overlap):
    edges = np.array([0.0, 1.0, 1.5, 3.0, 4.0])
    features = Bins(edges, overlap)
    points = np.array([-1, 0, 0.5, 1, 1.2, 1.5, 2, 3, 3.5, 4, 4.5])
    cell = np.searchsorted(edges, points, side="right") - 1
    cell[points == 4] = 3  # the last edge belongs to the last cell
    for i in range(edges.size - overlap):
        np.testing.assert_array_equal(features(points)[:, i], (i <= cell) & (cell < i + overlap))


def test_fourier_is_a_constant_then_pairs_of_harmonics():
    """The paper's walk-through: m=13 over [−4.5, 4.5], a constant, six cosines and six sines of period 9."""
    z = np.linspace(-4.5, 4.5, 50)
    pairs = [f(2 * np.pi * k * z / 9) for k in range(1, 7) for f in (np.cos, np.sin)]
    np.testing.assert_allclose(Fourier(-4.5, 4.5, 13)(z), np.stack([np.ones(50), *pairs], axis=-1), atol=1e-13)


def test_fourier_counts_from_the_middle_of_its_range():
    np.testing.assert_allclose(Fourier(1, 3, 3)(2.5), [1, 0, 1], atol=1e-15)


def test_polynomial_is_powers_of_the_scaled_return():
    expected = np.stack([((RETURNS - 0.5) / 2) ** i for i in range(5)], axis=-1)
    np.testing.assert_allclose(Polynomial(5, centre=0.5, scale=2)(RETURNS), expected, rtol=1e-13)
    np.testing.assert_array_equal(Polynomial(3)(0.0), [1, 0, 0])


def test_with_constant_appends_a_one():
    inner = Sigmoid([0.0, 1.0])
    np.testing.assert_array_equal(WithConstant(inner)(RETURNS), np.append(inner(RETURNS), np.ones((4, 3, 1)), axis=-1))


# ---------------------------------------------------------------------------------------------------------------------
# The paper's heuristics
# ---------------------------------------------------------------------------------------------------------------------

WIDTHS = {"sigmoid": 4, "gaussian": 4, "tanh": 4, "erf": 4, "parabolic": 2, "quartic": 2, "morlet": 4}


@pytest.mark.parametrize("name", TRANSLATIONS)
@pytest.mark.parametrize("slope_factor", [1.0, 0.5, 3])
def test_default_slope_and_anchors(name, slope_factor):
    features = make_features(name, ReturnRange(0, 10), 5, slope_factor=slope_factor)
    assert features.slope == pytest.approx(slope_factor * 5 * WIDTHS[name] / 10)
    np.testing.assert_allclose(features.anchors, [-4, 0.5, 5, 9.5, 14])  # 0.4 of the width beyond either end


def test_other_families_span_the_same_range():
    wide = [-4.0, 14.0]
    assert make_features("indicator", ReturnRange(0, 10), 5).edges[[0, -1]] == pytest.approx(wide)
    assert make_features("bins", ReturnRange(0, 10), 5).edges[[0, -1]] == pytest.approx(wide)
    assert make_features("overlapping_bins", ReturnRange(0, 10), 5).overlap == 2
    fourier = make_features("fourier", ReturnRange(0, 10), 5)
    assert [fourier.low, fourier.high] == pytest.approx(wide)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sigmoid([0.0, 2.0, 1.0]), r"anchors must be sorted.*entry 1 is 2.0 and entry 2 is 1.0"),
        (lambda: Sigmoid([0.0, 1.0, 1.0]), r"anchors must be sorted without duplicates.*np.unique"),
        (lambda: Sigmoid([]), r"anchors: .* at least 1 numbers, got shape \(0,\)"),
        (lambda: Sigmoid([[0.0, 1.0]]), r"anchors: expected a vector"),
        (lambda: Sigmoid([0.0, np.nan]), r"anchors: .*entry 1"),
        (lambda: Sigmoid([0.0], slope=0), r"slope=0"),
        (lambda: Sigmoid([0.0], slope=-2.0), r"slope=-2"),
        (lambda: Sigmoid([0.0], slope=np.inf), r"slope=inf"),
        (lambda: Indicator([0.0]), r"edges: .*at least 2"),
        (lambda: Indicator([1.0, 0.0]), r"edges must be sorted"),
        (lambda: Bins([0.0, 1.0], overlap=2), r"edges: .*at least 3"),
        (lambda: Bins([0.0, 1.0], overlap=0), r"overlap=0"),
        (lambda: Fourier(1, 1), r"low < high"),
        (lambda: Polynomial(2, scale=0), r"scale=0"),
        (lambda: make_features("sigmoid", RANGE, 5, slope_factor=-1), r"slope=-5.0"),
        (lambda: make_features("fourier", RANGE, 5, slope_factor=2.0), r"slope_factor=2.0: fourier .* no slope"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("num_features", [0, -3])
def test_a_family_needs_at_least_one_feature(name, num_features):
    with pytest.raises(InputError, match=f"num_features={num_features}"):
        make_features(name, RANGE, num_features)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_feature_is_enough(name):
    assert make_features(name, RANGE, 1)(RETURNS).shape == (4, 3, 1)


def test_unknown_family_suggests_the_nearest_and_lists_all():
    with pytest.raises(UnknownNameError) as error:
        make_features("sigmod", RANGE, 5)
    assert "Did you mean 'sigmoid'?" in str(error.value)
    assert all(name in str(error.value) for name in FAMILIES)
