"""One-step targets in sketch space, for single transitions under jit: A_r u + c_r, or φ(r) where nothing follows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bellsketch.core.arrays import Array
from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.interpolation import InterpolatedCoefficients
from bellsketch.core.pytree import pytree


@pytree
class RewardSet:
    """Backups for finitely many rewards, found by exact equality. Any other reward gives NaN, never another's."""

    features: FeatureMap
    rewards: Float[Array, " r"]
    matrices: Float[Array, "r m m"]
    offsets: Float[Array, "r m"]

    def __call__(
        self, reward: Float[Array, ""] | float, goes_on: Any, following: Float[Array, " m"]
    ) -> Float[jax.Array, " m"]:
        """The target of one transition with the sketch ``following`` of its successor."""
        same = jnp.asarray(self.rewards) == reward
        chosen = jnp.argmax(same)
        backed_up = jnp.asarray(self.matrices)[chosen] @ following + jnp.asarray(self.offsets)[chosen]
        target = jnp.where(goes_on, backed_up, self.features.evaluate(jnp.asarray(reward)))
        return jnp.where(same.any(), target, jnp.nan)


@pytree
class RewardSpan:
    """Backups for every reward in an interval, interpolated; NaN outside."""

    coefficients: InterpolatedCoefficients

    def __call__(
        self, reward: Float[Array, ""] | float, goes_on: Any, following: Float[Array, " m"]
    ) -> Float[jax.Array, " m"]:
        """The target of one transition with the sketch ``following`` of its successor."""
        reward = jnp.asarray(reward)
        low, high = self.coefficients.low, self.coefficients.high
        inside = (reward >= low) & (reward <= high)
        backed_up = self.coefficients.back_up(jnp.clip(reward, low, high)[None], following[None])[0]
        target = jnp.where(goes_on, backed_up, self.coefficients.features.evaluate(reward))
        return jnp.where(inside, target, jnp.nan)


def reward_set(coefficients: BellmanCoefficients, discount: float) -> RewardSet:
    """From fitted coefficients, in single precision, which is what networks compute in."""
    if not all(reward.is_deterministic for reward in coefficients.rewards):
        raise InputError("coefficients: rewards of transitions are numbers; fit coefficients for numbers")
    index = [coefficients.index(reward, discount) for reward in coefficients.rewards]
    return RewardSet(
        coefficients.features,
        np.array([reward.atoms[0] for reward in coefficients.rewards], dtype=np.float32),
        np.stack([coefficients.matrices[i] for i in index]).astype(np.float32),
        np.stack([coefficients.offsets[i] for i in index]).astype(np.float32),
    )
