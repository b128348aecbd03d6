"""𝒯^π, the distributional Bellman operator itself, on atoms."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bellsketch.core.arrays import Array
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.pytree import pytree
from bellsketch.tabular.mrp import MRP


@pytree
class DistributionalBackup:
    """(𝒯^π η)(x) = Dist(R + γG(X') | X = x) for atomic η: every atom of every successor, moved and reweighted.

    Row x of the tables lists x's outcomes, padded with outcomes of probability 0.
    """

    probability: Float[Array, "s k"]
    reward: Float[Array, "s k"]
    successor: Int[Array, "s k"]
    """Any state where the outcome terminates."""
    discount: Float[Array, "s k"]
    """0 where the outcome terminates."""

    def __call__(self, returns: AtomicDistribution) -> AtomicDistribution:
        """From n atoms per state to k·n."""
        z, p = jnp.asarray(returns.locations)[self.successor], jnp.asarray(returns.probabilities)[self.successor]
        locations = jnp.asarray(self.reward)[..., None] + jnp.asarray(self.discount)[..., None] * z
        probabilities = jnp.asarray(self.probability)[..., None] * p
        flat = (locations.shape[0], -1)
        return AtomicDistribution(locations.reshape(flat), probabilities.reshape(flat))

    def of_particles(self, particles: Float[jax.Array, "s m"]) -> AtomicDistribution:
        """The same from m equally weighted particles per state."""
        return self(AtomicDistribution(particles, jnp.full(particles.shape, 1 / particles.shape[-1])))


def distributional_backup(mrp: MRP) -> DistributionalBackup:
    """The operator of a model. Continuous rewards are replaced by equally likely atoms."""
    split = mrp.split_rewards("quantiles")
    o = split.outcomes
    place = (o.state, o.column)
    shape = (mrp.num_states, int(o.column.max()) + 1)
    probability, reward, discount = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    successor = np.zeros(shape, dtype=np.int32)
    probability[place] = o.probability
    reward[place] = np.array([r.mean for r in split.rewards])[o.reward]
    successor[place] = np.maximum(o.successor, 0)
    discount[place] = np.where(o.terminal, 0.0, mrp.discount)
    return DistributionalBackup(probability, reward, successor, discount)
