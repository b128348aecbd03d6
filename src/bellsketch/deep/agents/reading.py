"""What a Sketch-DQN acts by: a criterion max_j E[f_j(G)], read off sketches that a network predicts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellsketch.core.backups import PRECISE
from bellsketch.core.errors import InputError
from bellsketch.core.quick_imputation import QuickDecoder, quick_decoder
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.regression import Regression
from bellsketch.core.risk import Criterion

NETWORK_ERROR = 0.01
"""Of each feature of a sketch, which readouts have to bear: a guess, to tell those of the mean from those of jumps."""
READOUT_TOLERANCE = 0.05
"""Of the range of the criterion: readouts that are further off, for sketches that networks predict, are not used."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """Linear in sketches, or in the probabilities that they are decoded to."""

    weights: Float[np.ndarray, "j k"]
    """β of each f_j; or f_j at each atom."""
    offsets: Float[np.ndarray, " j"]
    decoder: QuickDecoder | None = None

    def __call__(self, sketches: Float[Array, "*b m"]) -> Float[Array, "*b"]:
        """The value of each sketch."""
        read = sketches if self.decoder is None else self.decoder(sketches).probabilities
        values = jnp.matmul(read, jnp.asarray(self.weights).T, precision=PRECISE) + self.offsets
        return jnp.max(values, axis=-1)


@dataclasses.dataclass(frozen=True)
class ReadingReport:
    """How good a reading is for returns that are certain."""

    error: float
    """The mean |f(g) − ⟨β, φ(g)⟩ − b|, for the worst f; or of what is read off decoded distributions."""
    largest_error: float
    """Likewise the largest, of readouts, which is 1/2 for any f that jumps by 1."""
    decodes: bool
    """Whether values are read off decoded distributions."""
    is_good: bool


def fit_reading(
    regression: Regression, span: ReturnRange, criterion: Criterion, returns: ReturnRange
) -> tuple[Reading, ReadingReport]:
    """By readouts, if these can be trusted, or else by decoding.

    The readout of a kink or a jump has weights of both signs, so large that what a network does not know of a sketch
    outweighs what it does. A distribution that is decoded has no negative probabilities, which keeps its values where
    f's are.

    Args:
      regression: of functions of returns on features.
      span: where it was made, and where atoms are.
      criterion: what to read off.
      returns: where it has to be right.
    """
    (fit,) = regression.fit(criterion)
    grid = regression.mu.locations
    inside = grid[(grid >= returns.low) & (grid <= returns.high)]
    phi, wanted = regression.features(inside), criterion(inside)
    with np.errstate(over="ignore", invalid="ignore"):  # an error below
        weights, offsets = fit.matrix.astype(np.float32), fit.offset.astype(np.float32)
        error = float(np.abs(wanted - phi @ weights.T - offsets).mean(axis=0).max())
    if not np.isfinite(error):
        raise InputError(
            f"criterion={criterion}: too large for single precision where returns reach [{span.low:.4g},"
            f" {span.high:.4g}]; choose a milder one, or a narrower range"
        )
    tolerance = READOUT_TOLERANCE * float(np.ptp(wanted.max(axis=1)))
    noise = NETWORK_ERROR * float(np.linalg.norm(weights, axis=1).max())
    if error + noise <= tolerance:
        return Reading(weights, offsets), ReadingReport(error, fit.report.max_error, False, True)
    decoder = quick_decoder(regression.features, span)
    values = criterion(decoder.support.astype(np.float64)).T.astype(np.float32)
    reading = Reading(values, np.zeros(len(values), np.float32), decoder)
    found = np.asarray(jax.jit(lambda sketches: reading(sketches))(phi.astype(np.float32)))
    error = float(np.abs(wanted.max(axis=1) - found).mean())
    return reading, ReadingReport(error, fit.report.max_error, True, error <= tolerance)
