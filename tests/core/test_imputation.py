"""Decoding sketches: closed forms, SciPy on the same program, and the supports that decoders choose."""

import jax
import jax.numpy as jnp
import numpy as np
import piqp
import pytest
from scipy import optimize

from bellsketch.core import imputation
from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.errors import InputError
from bellsketch.core.families import FAMILIES, make_features
from bellsketch.core.features import Bins, Fourier, Polynomial, Sigmoid
from bellsketch.core.imputation import Decoder, anchor_decoder, fine_decoder
from bellsketch.core.metrics import cramer
from bellsketch.core.ranges import ReturnRange

RANGE = ReturnRange(-2, 3)
SUPPORT = np.linspace(-2, 3, 10)
rng = np.random.default_rng(0)
MASSES = rng.dirichlet(np.full(10, 0.5), size=4)


def objective(decoder, p, sketch):
    """‖Σ p_i φ(z_i) − u‖² + μ‖p‖² with features scaled to at most 1, and its gradient."""
    design = decoder.features(decoder.support)
    scale = abs(design).max()
    residual = (p @ design - sketch) / scale
    value = residual @ residual + decoder.tie_break * p @ p
    return value, 2 * design @ residual / scale + 2 * decoder.tie_break * p


def solve_with_scipy(decoder, sketch):
    n = decoder.support.size
    return optimize.minimize(
        lambda p: objective(decoder, p, sketch),
        np.full(n, 1 / n),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 2_000},
    ).x


def project_onto_simplex(v):
    """Euclidean projection by sorting (Held, Wolfe & Crowder 1974)."""
    u = np.sort(v)[::-1]
    thresholds = (np.cumsum(u) - 1) / np.arange(1, v.size + 1)
    return np.maximum(v - thresholds[u > thresholds][-1], 0)


# ---------------------------------------------------------------------------------------------------------------------
# What is solved
# ---------------------------------------------------------------------------------------------------------------------


def test_masses_on_the_support_are_recovered():
    """Sharp features, more of them than atoms: the problem is well posed, so not only the sketch must come back."""
    features = Sigmoid.from_range(RANGE, 30, slope_factor=3)
    decoded = Decoder(features, SUPPORT, tie_break=1e-12)(MASSES @ features(SUPPORT))
    np.testing.assert_allclose(decoded.probabilities, MASSES, atol=1e-7)
    np.testing.assert_array_equal(decoded.locations, np.broadcast_to(SUPPORT, (4, 10)))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gets_its_sketch_back(name):
    features = make_features(name, RANGE, 5 if name == "polynomial" else 12)
    sketches = MASSES @ features(SUPPORT)
    decoded = Decoder(features, SUPPORT, tie_break=1e-10)(sketches)
    scale = abs(features(SUPPORT)).max()
    np.testing.assert_allclose(decoded.probabilities @ features(SUPPORT) / scale, sketches / scale, atol=1e-5)


def test_of_equally_good_answers_the_most_spread_is_returned():
    """Only the mean is known, and it is 0: all of (a, 1−2a, a) fit, and ‖p‖² is smallest at 1/3 each."""
    decoded = Decoder(Polynomial(2), np.array([-1.0, 0.0, 1.0]))(np.array([1.0, 0.0]))
    np.testing.assert_allclose(decoded.probabilities, 1 / 3, atol=1e-6)


@pytest.mark.parametrize("tie_break", [0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_one_hot_features_give_the_projection_onto_the_simplex(seed, tie_break):
    features = Bins(np.arange(7) / 1.0)
    sketch = np.random.default_rng(seed).normal(scale=0.5, size=6)
    decoded = Decoder(features, np.arange(6) + 0.5, tie_break)(sketch)
    # (1 + μ)‖p − u/(1 + μ)‖² up to a constant
    np.testing.assert_allclose(decoded.probabilities, project_onto_simplex(sketch / (1 + tie_break)), atol=1e-7)


@pytest.mark.parametrize("tie_break", [1e-3, 1e-6])
@pytest.mark.parametrize("num_atoms", [6, 10, 25], ids=["few atoms", "equal", "many atoms"])
@pytest.mark.parametrize("name", ["sigmoid", "gaussian", "fourier"])
def test_objective_is_no_larger_than_scipys(name, num_atoms, tie_break):
    features = make_features(name, RANGE, 10)
    decoder = Decoder(features, np.linspace(-2, 3, num_atoms), tie_break)
    inside = MASSES[0] @ features(SUPPORT)
    for sketch in (inside, inside + rng.normal(scale=0.05, size=10)):  # the second comes from no distribution
        ours, theirs = decoder(sketch).probabilities, solve_with_scipy(decoder, sketch)
        assert objective(decoder, ours, sketch)[0] <= objective(decoder, theirs, sketch)[0] + 1e-12


@pytest.mark.parametrize(
    ("name", "m", "n", "tie_break"),
    [
        ("sigmoid", 50, 50, 1e-6),
        ("sigmoid", 20, 30, 1e-8),
        ("sigmoid", 50, 400, 1e-6),
        ("sigmoid", 50, 400, 1e-10),
        ("tanh", 12, 10, 1e-10),
        ("gaussian", 50, 50, 1e-6),
        ("indicator", 30, 60, 1e-9),
        ("polynomial", 4, 12, 1e-6),  # features up to 27: μ is relative to the largest
    ],
)
def test_optimal_by_duality(name, m, n, tie_break):
    """A convex function exceeds its minimum over the simplex by at most ⟨∇, p⟩ − min_i ∇_i: far less than μ."""
    features = make_features(name, RANGE, m)
    decoder = Decoder(features, RANGE.points(n), tie_break)
    for sketch in MASSES @ features(SUPPORT):
        p = decoder(sketch).probabilities
        _, gradient = objective(decoder, p, sketch)
        assert gradient @ p - gradient.min() <= 1e-3 * tie_break


@pytest.mark.parametrize("tie_break", [1e-4, 1e-6])
@pytest.mark.parametrize(("n", "m"), [(8, 20), (30, 20), (60, 10)])
def test_dense_and_sparse_programs_agree(n, m, tie_break):
    features = Sigmoid.from_range(RANGE, m)
    design = features(RANGE.points(n))
    targets = MASSES @ features(SUPPORT)
    for dense, sparse in zip(
        imputation._dense_program(design, targets, tie_break),
        imputation._sparse_program(design, targets, tie_break),
        strict=True,
    ):
        assert dense[0] == sparse[0] == piqp.PIQP_SOLVED
        np.testing.assert_allclose(dense[1], sparse[1][:n], atol=1e-5)
        np.testing.assert_allclose(dense[1] @ design, sparse[1][:n] @ design, atol=1e-8)


@pytest.mark.parametrize("num_atoms", [8, 80])
def test_answers_are_distributions_also_of_impossible_sketches(num_atoms):
    features = Sigmoid.from_range(RANGE, 10)
    decoded = Decoder(features, RANGE.points(num_atoms))(rng.normal(scale=3, size=(3, 10)))
    assert np.all(decoded.probabilities >= 0)
    np.testing.assert_allclose(decoded.probabilities.sum(axis=-1), 1, rtol=1e-12)


@pytest.mark.parametrize("num_atoms", [8, 80], ids=["dense", "sparse"])
def test_batch_equals_loop(num_atoms):
    features = Sigmoid.from_range(RANGE, 10)
    decoder = Decoder(features, RANGE.points(num_atoms))
    sketches = MASSES @ features(SUPPORT)
    loop = np.stack([decoder(u).probabilities for u in sketches]).reshape(2, 2, num_atoms)
    np.testing.assert_allclose(decoder(sketches.reshape(2, 2, 10)).probabilities, loop, atol=1e-8)
    on_device = decoder(jnp.asarray(sketches.reshape(2, 2, 10))).probabilities
    assert on_device.dtype == np.float64
    np.testing.assert_allclose(on_device @ features(decoder.support), loop @ features(decoder.support), atol=1e-4)


# ---------------------------------------------------------------------------------------------------------------------
# Which support
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_features", "num_atoms"), [(1, 8), (20, 160), (150, 800), (900, 900)])
def test_fine_decoder_has_several_atoms_per_feature(num_features, num_atoms):
    coefficients = fit_coefficients(Sigmoid.from_range(RANGE, num_features), RANGE.grid(50), [0], [0])
    decoder = fine_decoder(coefficients, RANGE)
    np.testing.assert_allclose(decoder.support, np.linspace(-3, 4, num_atoms), atol=1e-12)  # 0.2 beyond either end


def test_fine_decoder_breaks_ties_by_as_much_as_the_sketch_is_uncertain():
    def coefficients(num_features, discount):
        return fit_coefficients(Sigmoid.from_range(RANGE, num_features), RANGE.grid(500), [1], [discount])

    fair = coefficients(20, 0.9)
    assert fine_decoder(fair, RANGE).tie_break == pytest.approx(0.1 * fair.max_norm_error**2)
    assert fine_decoder(coefficients(3, 0.9), RANGE).tie_break == 1e-5
    assert fine_decoder(coefficients(20, 0), RANGE).tie_break == 1e-10  # exact coefficients
    assert fine_decoder(fair, RANGE, tie_break=0.5).tie_break == 0.5


def test_a_fine_support_shows_more_of_the_sketch_than_the_anchors():
    """A sketch of 20 numbers knows more than 20 atoms can show (notes on the paper, Sec. 4)."""
    features = Sigmoid.from_range(RANGE, 20)
    truth = RANGE.grid(400, margin=0)
    sketch = truth.probabilities @ features(truth.locations)
    coefficients = fit_coefficients(features, RANGE.grid(500), [1], [0.9])
    coarse, fine = anchor_decoder(features, RANGE)(sketch), fine_decoder(coefficients, RANGE)(sketch)
    assert cramer(fine, truth) <= 0.05 * cramer(coarse, truth)


def test_anchor_decoder_decodes_onto_anchors():
    features = Sigmoid.from_range(RANGE, 9)
    np.testing.assert_array_equal(anchor_decoder(features, RANGE).support, features.anchors)
    np.testing.assert_allclose(anchor_decoder(Fourier(-2, 3, 8), RANGE).support, np.linspace(-4, 5, 8))


@pytest.mark.parametrize("name", ["sigmoid", "indicator", "fourier"])
def test_jitter_stays_within_half_a_step_and_follows_the_key(name):
    features = make_features(name, RANGE, 15)
    plain = anchor_decoder(features, RANGE).support
    step = plain[1] - plain[0]
    jittered, again, other = (anchor_decoder(features, RANGE, jax.random.key(k)).support for k in (0, 0, 1))
    moves = jittered - plain
    assert np.all(abs(moves) <= step / 2)
    assert np.ptp(moves) > step / 4  # each point moves by itself
    np.testing.assert_array_equal(jittered, again)
    assert not np.array_equal(jittered, other)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: Decoder(f, [0.0, 1.0])(np.where(np.eye(3, 10) * [[0], [0], [1]], np.nan, 0.5)), "sketch 2 of 3 is"),
        (lambda f: Decoder(f, [0.0, 1.0])(np.full(10, np.inf)), "sketch 0 of 1 is not finite"),
        (lambda f: Decoder(f, [0.0, 1.0])(np.ones(9)), "sketch has 9 entries, but the feature map has 10"),
        (lambda f: Decoder(f, [1.0, 0.0]), "support must be sorted"),
        (lambda f: Decoder(f, []), "support: expected a vector"),
        (lambda f: Decoder(f, [0.0, 1.0], tie_break=-1e-9), "tie_break=-1e-09"),
        (lambda f: Decoder(f, [0.0, 1.0], tie_break=np.nan), "tie_break=nan"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make(Sigmoid.from_range(RANGE, 10))
