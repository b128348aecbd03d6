"""The paper's environments with what every experiment needs of them, computed once in each process."""

import dataclasses
import functools

import jax

from bellsketch.core.ranges import ReturnRange
from bellsketch.tabular import environments
from bellsketch.tabular.ground_truth import GroundTruth, ground_truth
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.sampling import estimate_return_range

DETERMINISTIC = tuple(name for name in environments.NAMES if not name.endswith("_gaussian"))
GAUSSIAN = tuple(name for name in environments.NAMES if name.endswith("_gaussian"))
NEVER_ENDING = ("cycle", "loopy_fork", "rowland23")

TITLES = {
    "random_chain": "Random chain",
    "directed_chain": "Directed chain",
    "directed_chain_gaussian": "DC + Gaussian R",
    "rowland23": "Rowland '23",
    "sutton_barto18": "S&B '18",
}


def title(name: str) -> str:
    """An environment's name as it stands over a panel."""
    if name in TITLES:
        return TITLES[name]
    base = name.removesuffix("_gaussian")
    words = TITLES.get(base, base.replace("_", " ").capitalize())
    return words + (" + Gaussian" if base != name else "")


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model, its true return distributions, and the range of returns estimated as in the paper."""

    name: str
    mrp: MRP
    truth: GroundTruth
    return_range: ReturnRange


@functools.cache
def problem(name: str, seed: int = 0) -> Problem:
    """The environment of that name; ``seed`` is for the Monte Carlo estimate of the return range."""
    mrp = environments.make(name)
    return Problem(name, mrp, ground_truth(mrp), estimate_return_range(jax.random.key(seed), mrp))
