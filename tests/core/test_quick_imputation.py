"""Decoding inside programs, against the quadratic program that it approximates and distributions that are known."""

import jax
import numpy as np
import pytest
import scipy.stats

import bellsketch as bs
from bellsketch.core import quick_imputation
from bellsketch.core.imputation import Decoder
from bellsketch.core.quick_imputation import quick_decoder
from bellsketch.core.risk import make_criterion

SPAN = bs.ReturnRange(-1.0, 1.0)
WIDE = SPAN.expand(0.2)
FAMILIES = ["sigmoid", "gaussian", "tanh"]


def features(family):
    return bs.make_features(family, SPAN, 101)


def samples():
    """Returns of three kinds: spread out, either of two, and certain."""
    normal = scipy.stats.norm(0.05, 0.3).ppf((np.arange(4_000) + 0.5) / 4_000)
    two = np.where(np.arange(4_000) < 600, -0.9, 0.9)
    return np.stack([np.clip(normal, -1, 1), two, np.full(4_000, 0.3)])


@pytest.mark.parametrize("family", FAMILIES)
def test_goes_to_the_solution_of_the_program(family, monkeypatch):
    monkeypatch.setattr(quick_imputation, "STEPS", 3_000)
    phi = features(family)
    quick = quick_decoder(phi, WIDE)
    sketches = phi(samples().ravel()).reshape(3, 4_000, -1).mean(axis=1)
    scale = np.abs(phi(quick.support)).max()  # by which the other one divides
    exact = Decoder(phi, quick.support, quick_imputation.TIE_BREAK / scale**2)(sketches)
    found = jax.jit(quick)(sketches.astype(np.float32))
    np.testing.assert_allclose(found.probabilities, exact.probabilities, atol=5e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("risk", "tolerance"), [("cvar:0.1", 0.1), ("cvar:0.5", 0.06), ("exceeds:0.5", 0.03)])
def test_criteria_of_sketches_that_are_a_little_off(family, risk, tolerance):
    """A sketch resolves no more than the slope of its features: returns that are certain look a little spread out."""
    phi, criterion, random = features(family), make_criterion(risk, SPAN), np.random.default_rng(0)
    quick = jax.jit(quick_decoder(phi, WIDE))
    for returns in samples():
        noisy = phi(returns).mean(axis=0) + random.normal(scale=0.01, size=(50, phi.num_features))
        decoded = quick(noisy.astype(np.float32))
        assert decoded.probabilities.shape == (50, quick_imputation.NUM_ATOMS)
        assert np.all(decoded.probabilities >= 0)
        np.testing.assert_allclose(decoded.probabilities.sum(axis=-1), 1.0, atol=1e-5)
        exact = criterion(returns).mean(axis=0).max()
        assert np.abs(criterion.of(decoded) - exact).mean() < tolerance
