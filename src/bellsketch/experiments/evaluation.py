"""How far sketches are from the truth, in the paper's metrics."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Float

from bellsketch.core.errors import DivergenceError
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder, anchor_decoder
from bellsketch.core.metrics import squared_embedding_error
from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular.ground_truth import GroundTruth

PAPER_JITTERS = 100


@dataclasses.dataclass(frozen=True)
class Errors:
    """Errors by state, and for each of the supports that was decoded onto."""

    embedding_sq_error: Float[np.ndarray, " s"]
    """‖U − U^π‖²."""
    cramer: Float[np.ndarray, "j s"]
    """∫(F̂ − F)² of the imputed distribution; NaN if the sketch has diverged too far to be decoded."""
    cramer_projection: Float[np.ndarray, "j s"]
    """The same for the truth projected onto the imputation's support: the best that the support allows."""

    def averaged(self) -> "Errors":
        """The mean over supports, as if there were one."""
        averages = (distances.mean(axis=0, keepdims=True) for distances in (self.cramer, self.cramer_projection))
        return Errors(self.embedding_sq_error, *averages)


def evaluate(sketch: Float[np.ndarray, "s m"], truth: GroundTruth, decoders: list[Decoder]) -> Errors:
    """Compare a sketch with the truth, decoding it with each of ``decoders``."""
    true_sketch = truth.embedding(decoders[0].features)
    return Errors(
        np.asarray(squared_embedding_error(sketch, true_sketch)),
        np.stack([_cramer(decoder, sketch, truth) for decoder in decoders]),
        np.stack([truth.cramer_to.of_projection(np.asarray(decoder.support)) for decoder in decoders]),
    )


def _cramer(decoder: Decoder, sketch: np.ndarray, truth: GroundTruth) -> np.ndarray:
    if not np.isfinite(sketch).all():
        return np.full(len(sketch), np.nan)
    try:
        probabilities = decoder(sketch).probabilities
    except DivergenceError:
        return np.full(len(sketch), np.nan)
    return truth.cramer_to(np.asarray(decoder.support), np.asarray(probabilities))


def jittered_decoders(
    key: jax.Array, features: FeatureMap, return_range: ReturnRange, num: int = PAPER_JITTERS
) -> list[Decoder]:
    """The paper's decoders: onto the anchors, each time jittered anew."""
    return [anchor_decoder(features, return_range, k) for k in jax.random.split(key, num)]
