"""Moments of the return: the one sketch that is Bellman closed, so that its backups are exact (Sobel, 1982).

The sketch is E[((G − centre)/scale)^i] for i = 0 … m−1, with centre and scale that map the return range to about
[−1, 1]. Raw powers (centre 0, scale 1) are exact too, but lose their digits to cancellation between 20 and 30 moments;
scaled ones between 40 and 60. From there on further moments add nothing to what is decoded, but do no harm either.
"""

from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float

from bellsketch.core.coefficients import BellmanCoefficients, fit_coefficients
from bellsketch.core.errors import InputError
from bellsketch.core.features import Polynomial
from bellsketch.core.imputation import Decoder, fine_decoder
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.sketch import SketchDP, SketchTD, sketch_dp, sketch_td


def moments_dp(mrp: MRP, num: int, return_range: ReturnRange) -> SketchDP:
    """Exact DP of ``num`` moments (counting the zeroth) in a stable basis."""
    return sketch_dp(mrp, *_parts(mrp, num, return_range))


def moments_td(mrp: MRP, num: int, return_range: ReturnRange, step_size: Any, *, mode: str = "synchronous") -> SketchTD:
    """TD of ``num`` moments (counting the zeroth) in a stable basis."""
    coefficients, decoder = _parts(mrp.split_rewards("quadrature"), num, return_range)
    return sketch_td(mrp, coefficients, decoder, step_size, mode=mode)


def _parts(mrp: MRP, num: int, return_range: ReturnRange) -> tuple[BellmanCoefficients, Decoder]:
    features = Polynomial.from_range(return_range, num)
    coefficients = fit_coefficients(features, return_range.grid(), mrp.rewards, (mrp.discount, 0.0))
    return coefficients, fine_decoder(coefficients, return_range)


def central_moments(features: Polynomial, sketch: Float[np.ndarray, "*b m"]) -> Float[np.ndarray, "*b m"]:
    """E[(G − E G)^i] for i = 0 … m−1 (the second is the variance), from a moment sketch in any basis."""
    if features.num_features < 2:
        raise InputError(f"num_features={features.num_features}: central moments need at least the mean (m ≥ 2)")
    mean = sketch[..., 1]
    result = np.zeros_like(sketch)
    for i in range(features.num_features):
        terms = [comb(i, j) * sketch[..., j] * (-mean) ** (i - j) for j in range(i + 1)]
        result[..., i] = np.sum(terms, axis=0) * features.scale**i
    return result


def skewness(features: Polynomial, sketch: Float[np.ndarray, "*b m"]) -> Float[np.ndarray, "*b"]:
    """E[(G − E G)³] / σ³; NaN where the return is certain."""
    return _standardised(features, sketch, 3)


def kurtosis(features: Polynomial, sketch: Float[np.ndarray, "*b m"]) -> Float[np.ndarray, "*b"]:
    """E[(G − E G)⁴] / σ⁴ (3 for a Gaussian); NaN where the return is certain."""
    return _standardised(features, sketch, 4)


def _standardised(features: Polynomial, sketch: np.ndarray, order: int) -> np.ndarray:
    if features.num_features <= order:
        raise InputError(f"num_features={features.num_features}: the moment of order {order} needs {order + 1}")
    central = central_moments(features, sketch)
    certain = central[..., 2] <= 1e-12 * features.scale**2
    return np.where(certain, np.nan, central[..., order] / np.where(certain, 1.0, central[..., 2]) ** (order / 2))
