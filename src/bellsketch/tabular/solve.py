"""``solve``: from a model to the return distributions of all its states, in one call."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.csgraph import breadth_first_order

from bellsketch.core.coefficients import BellmanCoefficients, fit_coefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.core.families import make_features
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder, anchor_decoder, fine_decoder
from bellsketch.core.memory import available_bytes, check_fits
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.readout import Readout, fit_readout
from bellsketch.tabular.certificate import Certificate, CertifiedExpectation, certify, certify_readout
from bellsketch.tabular.fixed_point import (
    DENSE_UNKNOWNS,
    ITERATION_COPIES,
    KRYLOV_COPIES,
    TOLERANCE,
    FixedPoint,
    fixed_point,
)
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.one_step import whereabouts, without_cancelling
from bellsketch.tabular.operator import AffineOperator
from bellsketch.tabular.sampling import estimate_return_range
from bellsketch.tabular.sketch import sketch_operator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bellsketch.tabular.ground_truth import GroundTruth

Method = Literal["solve", "dense", "krylov", "iterate"]
Precision = Literal["float64", "float32"]
Decoding = Literal["fine", "anchors"]

READOUT_TOLERANCE = 1e-2
"""A readout that fits f to this share of its spread is trusted; otherwise E[f] is taken from decoded distributions."""


@dataclasses.dataclass(frozen=True)
class Solution:
    """The sketch of every state, and what can be read off it."""

    mrp: MRP
    features: FeatureMap
    return_range: ReturnRange
    coefficients: BellmanCoefficients
    operator: AffineOperator
    decoder: Decoder
    fixed_point: FixedPoint
    """The sketch, and what it took to find it: solver, iterations, residual, seconds."""
    ridge: float
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What else :func:`solve` was told, to solve another model in the same way."""

    @property
    def sketch(self) -> Float[np.ndarray, "s m"]:
        """U."""
        return self.fixed_point.sketch

    @functools.cached_property
    def mean(self) -> Float[np.ndarray, " s"]:
        """E[G] of each state, by the value readout."""
        return np.asarray(self.readout(lambda g: g)(self.sketch))

    @functools.cached_property
    def distributions(self) -> AtomicDistribution:
        """The imputed return distributions of all states, as a batch."""
        return self.decoder(self.sketch)

    def distribution(self, state: int) -> AtomicDistribution:
        """The imputed return distribution of one state."""
        if not 0 <= state < self.mrp.num_states:
            raise InputError(f"state={state}: the model has states 0 to {self.mrp.num_states - 1}")
        if "distributions" in self.__dict__:  # all have been decoded
            return self.distributions[state]
        return self.decoder(self.sketch[state])

    def readout(self, f: Callable[[np.ndarray], Any]) -> Readout:
        """Linear coefficients that estimate E[f(G)] from the sketch, with their error report."""
        return fit_readout(self.features, f, self.return_range.grid(), ridge=self.ridge)

    def expectation(self, f: Callable[[np.ndarray], Any], via: str = "auto") -> Float[np.ndarray, " s"]:
        """E[f(G)] of each state, for a function f of arrays.

        A smooth f is read off the sketch directly (``readout``); a jump, such as ``lambda g: g < 0``, is not in the
        span of smooth features and is taken from the imputed distributions (``decode``). ``auto`` uses the readout if
        its largest error is within a hundredth of f's spread.
        """
        if via not in ("auto", "readout", "decode"):
            raise InputError(f"via={via!r}: choose 'auto', 'readout' or 'decode'")
        if via != "decode":
            readout = self.readout(f)
            values = np.asarray(f(self.return_range.grid().locations), dtype=np.float64)
            if via == "readout" or readout.report.max_error <= READOUT_TOLERANCE * np.ptp(values):
                return np.asarray(readout(self.sketch))
        return np.asarray(self.distributions.expectation(f))

    @functools.cached_property
    def certificate(self) -> Certificate:
        """A bound on sup_x ‖U(x) − U^π(x)‖₂, or infinity and why."""
        return certify(self.mrp, self.coefficients, self.operator, self.sketch)

    def certified_expectation(
        self, f: Callable[[np.ndarray], Any], lipschitz: float | None = None
    ) -> CertifiedExpectation:
        """E[f(G)] of each state by the readout, with a bound on its error.

        The bound is proven if ``lipschitz``, a Lipschitz constant of f over the possible returns, is given (and the
        certificate is). Otherwise how well f is fitted is the largest of many values, between which f may do anything.
        """
        returns = without_cancelling(whereabouts(self.mrp, self.features))
        return certify_readout(self.certificate, self.sketch, self.features, self.readout(f), returns, f, lipschitz)

    @functools.cached_property
    def certified_mean(self) -> CertifiedExpectation:
        """E[G] of each state by the value readout, with a bound on its error."""
        returns = without_cancelling(whereabouts(self.mrp, self.features))
        return certify_readout(self.certificate, self.sketch, self.features, self.readout(lambda g: g), returns)

    def plot(self, truth: "GroundTruth | None" = None, states: "list[int] | None" = None) -> "Figure":
        """The cumulative distribution of each state's return, next to the truth if it is given."""
        from bellsketch.tabular.plotting import plot_distributions

        return plot_distributions(self.distributions, None if truth is None else truth.distribution, states)


def solve(
    mrp: MRP,
    *,
    features: str | FeatureMap = "sigmoid",
    num_features: int | None = None,
    slope_factor: float | None = None,
    return_range: ReturnRange | tuple[float, float] | None = None,
    intercept: str = "free",
    ridge: float = 1e-9,
    tolerance: float | None = None,
    method: str = "solve",
    iterations: int | None = None,
    residual: float = TOLERANCE,
    precision: str = "float64",
    decode: str = "fine",
    seed: int = 0,
    progress: bool = False,
) -> Solution:
    """Sketch-DP on a model, with the paper's heuristics for everything that is not said.

    Args:
      mrp: the model.
      features: a feature map, or the name of a family to spread over the return range.
      num_features: m, if ``features`` is a name; default 50.
      slope_factor: multiplies the family's default slope, if ``features`` is a name; default 1.
      return_range: the interval of returns, default: the extremes of Monte Carlo returns drawn with ``seed``.
      intercept: ``free``, or the paper's forms ``penalised`` and ``none``.
      ridge: the regression's penalty.
      tolerance: raise if the regression's largest error exceeds this.
      method: ``solve`` finds the fixed point as a linear system, by ``dense`` LU if it is small and by a ``krylov``
        method otherwise; ``iterate`` repeats the backup from φ(0).
      iterations: at most so many; the default for ``iterate`` is as many as the residual asks for at this discount.
      residual: stop when U and 𝒯U differ by no more than this in any state.
      precision: ``float32`` halves the memory that sketches take. Coefficients are fitted in float64 all the same.
      decode: ``fine``, or the paper's jittered ``anchors``.
      seed: for the return range and the jitter.
      progress: show a line while a long solve is at work.
    """
    settings = {
        "features": features,
        "num_features": num_features,
        "slope_factor": slope_factor,
        "intercept": intercept,
        "ridge": ridge,
        "method": method,
        "iterations": iterations,
        "residual": residual,
        "precision": precision,
        "decode": decode,
        "seed": seed,
    }
    if method not in get_args(Method):
        raise InputError(f"method={method!r}: choose one of {', '.join(get_args(Method))}")
    if precision not in get_args(Precision):
        raise InputError(f"precision={precision!r}: choose one of {', '.join(get_args(Precision))}")
    if iterations is not None and iterations < 0:
        raise InputError(f"iterations={iterations}: must not be negative")
    if not residual > 0:
        raise InputError(f"residual={residual}: must be positive; 1e-12 is about what float64 can reach")
    if decode not in get_args(Decoding):
        raise InputError(f"decode={decode!r}: choose one of {', '.join(get_args(Decoding))}")
    spread = _spread(features, num_features, slope_factor)
    key_range, key_jitter, _ = jax.random.split(jax.random.key(seed), 3)
    if return_range is None:
        return_range = estimate_return_range(key_range, mrp)
    elif not isinstance(return_range, ReturnRange):
        return_range = ReturnRange(*return_range)
    feature_map = spread(return_range)
    coefficients = fit_coefficients(
        feature_map,
        return_range.grid(),
        mrp.rewards,
        (mrp.discount, 0.0),
        ridge=ridge,
        intercept=intercept,
        tolerance=tolerance,
    )
    _warn_if_homogeneous(mrp, intercept)
    method = _method_that_fits(mrp, feature_map, method, precision)
    operator = sketch_operator(mrp, coefficients)
    if decode == "fine":
        decoder = fine_decoder(coefficients, return_range)
    else:
        decoder = anchor_decoder(feature_map, return_range, key_jitter)
    found = fixed_point(
        operator if precision == "float64" else operator.astype(precision),
        solver=method,
        tolerance=residual,
        start=np.broadcast_to(feature_map(0.0), operator.offset.shape) if method == "iterate" else None,
        max_iterations=_enough_iterations(mrp, residual) if iterations is None and method == "iterate" else iterations,
        progress=progress,
    )
    if method == "iterate" and iterations is None and not found.residual <= residual and precision == "float64":
        warnings.warn(
            f"iterating left a residual of {found.residual:.2g}, not {residual:.2g}, after {found.iterations} backups:"
            " pass more iterations, or solve for the fixed point",
            BellsketchWarning,
            stacklevel=2,
        )
    return Solution(mrp, feature_map, return_range, coefficients, operator, decoder, found, ridge, settings)


def _spread(
    features: str | FeatureMap, num_features: int | None, slope_factor: float | None
) -> Callable[[ReturnRange], FeatureMap]:
    """The feature map, given a range of returns; what is wrong with it is said before one is estimated."""
    if not isinstance(features, str):
        if num_features is not None or slope_factor is not None:
            raise InputError(
                "num_features and slope_factor: leave them out where features is a feature map, not a name"
            )
        return lambda _: features
    spread = functools.partial(
        make_features,
        features,
        num_features=50 if num_features is None else num_features,
        slope_factor=1.0 if slope_factor is None else slope_factor,
    )
    spread(ReturnRange(0.0, 1.0))
    return spread


def _method_that_fits(mrp: MRP, features: FeatureMap, method: str, precision: str) -> str:
    """The solver to use, given what memory there is; raises if there is too little for any."""
    num_states, m = mrp.num_states, features.num_features
    unknowns = num_states * m
    if method == "solve":
        method = "dense" if unknowns <= DENSE_UNKNOWNS else "krylov"
    size = unknowns * np.dtype(precision).itemsize
    exact = 8.0 * unknowns * (precision != "float64")  # the constant part that certificates need
    outcomes = mrp.outcomes.state.size * 48.0  # indices and probabilities of the model and of its operator
    needed = {
        "dense": 2.0 * 8 * unknowns**2,
        "krylov": KRYLOV_COPIES * size + exact + outcomes,
        "iterate": ITERATION_COPIES * size + exact + outcomes,
    }
    if method == "krylov" and needed[method] > available_bytes():
        method = "iterate"
        warnings.warn(
            f"a Krylov method would take {needed['krylov'] / 1e9:.3g} GB, more than there is: iterating instead, which"
            f" takes about {_enough_iterations(mrp, TOLERANCE):,} backups at discount {mrp.discount}",
            BellsketchWarning,
            stacklevel=3,
        )
    check_fits(
        f"solving for {num_states:,} states × {m} features",
        needed[method],
        "use fewer features, precision='float32' or method='iterate'",
    )
    return method


def _enough_iterations(mrp: MRP, residual: float) -> int:
    """Twice what a contraction by γ needs to bring a change of 1 down to the residual."""
    return int(np.ceil(2 * np.log(min(residual, 0.1)) / np.log(mrp.discount))) if mrp.discount > 0 else 2


def _warn_if_homogeneous(mrp: MRP, intercept: str) -> None:
    if intercept == "free":
        return
    # Search backwards from the end, as if it were one more state.
    backwards = sp.block_array([[mrp.transitions.T, None], [(mrp.terminations > 0)[None].astype(float), [[0.0]]]])
    reached = breadth_first_order(backwards.tocsr(), mrp.num_states, return_predecessors=False)
    if (stuck := np.setdiff1d(np.arange(mrp.num_states), reached)).size:
        warnings.warn(
            f"intercept={intercept!r} on a model that never terminates from state {stuck[0]}: without a free intercept"
            " the fixed-point equation is (nearly) homogeneous: sketch mass that a backup loses never returns, and the"
            " answer is wrong at any number of iterations. Use intercept='free'",
            BellsketchWarning,
            stacklevel=3,
        )
