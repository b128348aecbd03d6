"""How far a solution is from the truth, in the paper's metrics."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Float

from bellsketch.core.imputation import Decoder, anchor_decoder
from bellsketch.core.metrics import cramer, squared_embedding_error
from bellsketch.core.projections import categorical_projection
from bellsketch.tabular.ground_truth import GroundTruth
from bellsketch.tabular.solve import Solution

PAPER_JITTERS = 100


@dataclasses.dataclass(frozen=True)
class Errors:
    """Errors by state. For a jittered support they are averages over jitters."""

    embedding_sq_error: Float[np.ndarray, " s"]
    """‖U − U^π‖²."""
    cramer: Float[np.ndarray, " s"]
    """∫(F̂ − F)² of the imputed distribution."""
    cramer_projection: Float[np.ndarray, " s"]
    """The same for the truth projected onto the imputation's support: the best that the support allows."""


def evaluate(solution: Solution, truth: GroundTruth, decoders: list[Decoder] | None = None) -> Errors:
    """Compare a solution with the truth, decoding with each of ``decoders`` (default: the solution's own)."""
    decoders = [solution.decoder] if decoders is None else decoders
    imputed, projected = [], []
    for decoder in decoders:
        imputed.append(cramer(decoder(solution.sketch), truth.distribution))
        projection = categorical_projection(truth.distribution, np.asarray(decoder.support))
        projected.append(cramer(projection, truth.distribution))
    return Errors(
        np.asarray(squared_embedding_error(solution.sketch, truth.embedding(solution.features))),
        np.mean(imputed, axis=0),
        np.mean(projected, axis=0),
    )


def jittered_decoders(key: jax.Array, solution: Solution, num: int = PAPER_JITTERS) -> list[Decoder]:
    """The paper's decoders: onto the anchors, each time jittered anew."""
    return [anchor_decoder(solution.features, solution.return_range, k) for k in jax.random.split(key, num)]
