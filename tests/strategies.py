"""What hypothesis draws from."""

import numpy as np
from hypothesis import strategies as st

from bellsketch.core.distributions import AtomicDistribution

QUANTA = 64


@st.composite
def distributions(draw: st.DrawFn, max_atoms: int = 6) -> AtomicDistribution:
    """Unsorted atoms, some in the same place, some without mass; masses in steps of 1/QUANTA, so sums are exact."""
    num = draw(st.integers(1, max_atoms))
    location = st.one_of(st.integers(-3, 3), st.floats(-10, 10, width=32))
    locations = draw(st.lists(location, min_size=num, max_size=num))
    cuts = sorted(draw(st.lists(st.integers(0, QUANTA), min_size=num - 1, max_size=num - 1)))
    return AtomicDistribution(np.array(locations, dtype=np.float64), np.diff([0, *cuts, QUANTA]) / QUANTA)


def samples(distribution: AtomicDistribution) -> np.ndarray:
    """The same distribution as QUANTA equally likely numbers, in order."""
    counts = np.rint(distribution.probabilities * QUANTA).astype(int)
    return np.sort(np.repeat(distribution.locations, counts))


@st.composite
def outcomes(draw: st.DrawFn, max_states: int = 6) -> tuple[list, float, int]:
    """What ``MRP.from_outcomes`` takes: few states, with any mixture of rewards, successors and the end."""
    num_states = draw(st.integers(1, max_states))
    successor = st.one_of(st.none(), st.integers(0, num_states - 1))
    rows = []
    for x in range(num_states):
        kinds = draw(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 2.5]), successor), min_size=1, max_size=4))
        weights = [draw(st.integers(1, 5)) for _ in kinds]
        rows += [(x, w / sum(weights), r, y) for w, (r, y) in zip(weights, kinds, strict=True)]
    return rows, draw(st.sampled_from([0.0, 0.5, 0.99])), num_states
