"""One-step targets in sketch space, for single transitions under jit: A_r u + c_r, or φ(r) where nothing follows.

What a transition has no coefficients for becomes NaN: another reward's matrix would be wrong without anyone noticing,
and nothing can be raised under jit. :meth:`Backup.covers` tells beforehand, on the host.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.errors import InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.interpolation import InterpolatedCoefficients
from bellsketch.core.pytree import pytree, static
from bellsketch.core.readout import Readout

PRECISE = "highest"
"""GPUs multiply float32 with 10-bit mantissas by default: errors of 1e-3, far above those of a good regression."""
DISCOUNT_TOLERANCE = 1e-5
"""Relative, of discounts that are the same: γⁿ may have been computed in float32."""


class Backup(ABC):
    """Targets for transitions with one discount γ, or with discount 0, where the episode has ended.

    There, the target is φ(r), unless ``mass`` is given: the regressed ⟨w, u⟩ + w₀ ≈ 1. Regression is linear in what is
    regressed, so that φ(r)·(⟨w, u⟩ + w₀) is the regression of φ(r + 0·g) on φ(g), which is the paper's target.
    """

    if TYPE_CHECKING:  # a field in some, a property in others

        @property
        def features(self) -> FeatureMap:
            """φ."""

        @property
        def discount(self) -> float:
            """γ, of transitions that go on."""

        @property
        def mass(self) -> Readout | None:
            """A readout of the constant 1, or None for 1 itself."""

    @abstractmethod
    def covers(self, reward: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
        """Whether there are coefficients for each reward."""

    @abstractmethod
    def back_up(self, reward: Float[jax.Array, ""], following: Float[Array, " m"]) -> Float[jax.Array, " m"]:
        """A_r u + c_r; anything for a reward without coefficients."""

    @final
    def __call__(
        self, reward: Float[Array, ""] | float, discount: Float[Array, ""] | float, following: Float[Array, " m"]
    ) -> Float[jax.Array, " m"]:
        """The target of one transition with the sketch ``following`` of its successor; NaN if it has none."""
        reward = jnp.asarray(reward, jnp.float32)
        target = jnp.where(jnp.asarray(discount) > 0, self.back_up(reward, following), self._end(reward, following))
        return jnp.where(self.covers(reward) & self.knows_discount(discount), target, jnp.nan)

    @final
    def knows_discount(self, discount: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
        """Whether each discount is γ or 0."""
        xp = namespace(discount)
        off = xp.abs(xp.asarray(discount) - self.discount)
        return xp.asarray((off <= DISCOUNT_TOLERANCE * self.discount) | (xp.asarray(discount) == 0))

    def _end(self, reward: Float[jax.Array, ""], following: Float[Array, " m"]) -> Float[jax.Array, " m"]:
        exact = self.features.evaluate(reward)
        if self.mass is None:
            return exact
        return exact * (jnp.dot(jnp.asarray(self.mass.weights), following, precision=PRECISE) + self.mass.offset)


@pytree
class RewardSet(Backup):
    """For finitely many rewards, in single precision, which is what transitions come in."""

    features: FeatureMap
    rewards: Float[Array, " r"]
    matrices: Float[Array, "r m m"]
    offsets: Float[Array, "r m"]
    discount: float = static()
    mass: Readout | None = None
    tolerance: float = static(default=0.0)
    """How far from one of them a reward may be that is taken for it: sums of several rewards are rounded."""

    def covers(self, reward: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
        xp = namespace(reward, self.rewards)
        off = xp.abs(xp.asarray(reward, np.float32)[..., None] - xp.asarray(self.rewards))
        return xp.asarray((off <= self.tolerance).any(axis=-1))

    def back_up(self, reward: Float[jax.Array, ""], following: Float[Array, " m"]) -> Float[jax.Array, " m"]:
        # For a batch, all matrices in one product cost less than gathering the matrix of each transition.
        all_matrices = jnp.asarray(self.matrices)
        products = jnp.matmul(all_matrices.reshape(-1, following.shape[-1]), following, precision=PRECISE)
        backed_up = products.reshape(all_matrices.shape[:2]) + jnp.asarray(self.offsets)
        return backed_up[jnp.argmin(jnp.abs(jnp.asarray(self.rewards) - reward))]


@pytree
class RewardSpan(Backup):
    """For every reward in an interval, interpolated."""

    coefficients: InterpolatedCoefficients
    mass: Readout | None = None

    @property
    def features(self) -> FeatureMap:
        return self.coefficients.features

    @property
    def discount(self) -> float:
        return self.coefficients.discount

    def covers(self, reward: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
        xp = namespace(reward)
        given, ends = xp.asarray(reward, np.float32), (self.coefficients.low, self.coefficients.high)
        return xp.asarray((given >= np.float32(ends[0])) & (given <= np.float32(ends[1])))

    def back_up(self, reward: Float[jax.Array, ""], following: Float[Array, " m"]) -> Float[jax.Array, " m"]:
        inside = jnp.clip(reward, self.coefficients.low, self.coefficients.high)
        with jax.default_matmul_precision(PRECISE):
            return self.coefficients.back_up(inside[None], following[None])[0]


@pytree
class RewardSetAndSpan(Backup):
    """Listed rewards exactly, all others of an interval interpolated."""

    listed: RewardSet
    span: RewardSpan

    def __post_init__(self) -> None:
        if self.listed.discount != self.span.discount:
            raise InputError(
                f"span is for discount {self.span.discount}, listed for {self.listed.discount}: fit both for one"
            )

    @property
    def features(self) -> FeatureMap:
        return self.listed.features

    @property
    def discount(self) -> float:
        return self.listed.discount

    @property
    def mass(self) -> Readout | None:
        return self.listed.mass

    def covers(self, reward: Float[Array, "*b"] | float) -> Bool[Array, "*b"]:
        return self.listed.covers(reward) | self.span.covers(reward)

    def back_up(self, reward: Float[jax.Array, ""], following: Float[Array, " m"]) -> Float[jax.Array, " m"]:
        exact, interpolated = self.listed.back_up(reward, following), self.span.back_up(reward, following)
        return jnp.where(self.listed.covers(reward), exact, interpolated)


def reward_set(
    coefficients: BellmanCoefficients, discount: float, mass: Readout | None = None, tolerance: float = 0.0
) -> RewardSet:
    """From fitted coefficients, in single precision, which is what networks compute in."""
    if not all(reward.is_deterministic for reward in coefficients.rewards):
        raise InputError("coefficients: rewards of transitions are numbers; fit coefficients for numbers")
    rewards = np.array([reward.atoms[0] for reward in coefficients.rewards], dtype=np.float32)
    if np.unique(rewards).size < rewards.size:
        raise InputError(
            f"coefficients: of {rewards.size} rewards only {np.unique(rewards).size} differ in single precision, which"
            " transitions come in; shift or scale them, or use an interval (RewardSpan)"
        )
    index = [coefficients.index(reward, discount) for reward in coefficients.rewards]
    return RewardSet(
        coefficients.features,
        rewards,
        np.stack([coefficients.matrices[i] for i in index]).astype(np.float32),
        np.stack([coefficients.offsets[i] for i in index]).astype(np.float32),
        discount,
        mass,
        tolerance,
    )
