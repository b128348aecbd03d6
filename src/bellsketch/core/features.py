"""Feature maps φ: ℝ → ℝ^m. The mean embedding of a return distribution is U = E[φ(G)].

A new family is one small class: say what its fields are, evaluate it with ``jax.numpy``, and add a row to
``families.FAMILIES`` and to the contract test.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float

from bellsketch.core.arrays import Array, as_floats
from bellsketch.core.checks import increasing, positive_count
from bellsketch.core.errors import InputError
from bellsketch.core.pytree import freeze, pytree, static
from bellsketch.core.ranges import ANCHOR_MARGIN, GRID_MARGIN, ReturnRange

Family = TypeVar("Family", bound="TranslationFamily")  # beartype checks methods one by one and cannot resolve Self


@jax.jit
def _evaluate_jitted(features: "FeatureMap", returns: Any) -> jax.Array:
    return features.evaluate(jnp.asarray(returns))


class FeatureMap(ABC):
    """A map φ from returns to m features.

    Called with a JAX array it is an ordinary JAX function, to be jitted, vmapped and differentiated. Called with
    anything else (a number, a list, a NumPy array) it computes in float64, whatever JAX's precision is, and returns
    a NumPy array: this is how coefficients are fitted.
    """

    if TYPE_CHECKING:  # a field in some families, a property in others

        @property
        def num_features(self) -> int:
            """m."""

        @property
        def anchors(self) -> Array | None:
            """Where on the real line each feature sits, or None for features that sit nowhere in particular."""

    @property
    def breaks(self) -> Array | None:
        """Where piecewise polynomial features jump or bend, or None for features that are smooth everywhere."""
        return None

    @property
    def degree(self) -> int:
        """Of the polynomials between ``breaks``."""
        return 0

    @abstractmethod
    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        """φ in ``jax.numpy``, features along a new last axis."""

    def strip_bound(self, height: float) -> float:
        """A bound on |φ_i(x + iy)| for all x and |y| ≤ ``height``; infinite where φ is not analytic there.

        It says how fast polynomials in r approximate φ(r + γg).
        """
        return np.inf

    @final
    def __call__(self, returns: Any) -> Any:
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self))
        if traced or isinstance(returns, jax.Array):
            return self.evaluate(as_floats(jnp, returns))
        # A copy, because JAX remembers arrays that were constants of a jitted function by identity, and in float32.
        fresh = jax.tree.map(np.array, self)
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):  # a constant, also while something else is traced
            return np.asarray(_evaluate_jitted(fresh, np.asarray(returns, dtype=np.float64)))


# ---------------------------------------------------------------------------------------------------------------------
# The translation family: φ_i(z) = κ(s (z − z_i))
# ---------------------------------------------------------------------------------------------------------------------


@pytree
class TranslationFamily(FeatureMap):
    """φ_i(z) = κ(s(z − z_i)) with a base feature κ, anchors z_i and slope s. Subclasses say what κ is."""

    anchors: Float[Array, " m"]
    slope: Any = 1.0

    width: ClassVar[float]
    """w, the length of the interval on which κ does most of its varying."""

    @staticmethod
    @abstractmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        """κ."""

    def __post_init__(self) -> None:
        freeze(self, anchors=increasing("anchors", self.anchors, at_least=1), slope=float(self.slope))
        if not (self.slope > 0 and np.isfinite(self.slope)):
            raise InputError(f"slope={self.slope}: the slope of a translation family must be positive and finite")

    @property
    def num_features(self) -> int:
        """m."""
        return self.anchors.shape[-1]

    @final
    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        return self.base(self.slope * (returns[..., None] - self.anchors))

    @staticmethod
    def base_strip_bound(height: float) -> float:
        """:meth:`strip_bound` of κ."""
        return np.inf

    @final
    def strip_bound(self, height: float) -> float:
        return self.base_strip_bound(float(self.slope) * height)

    @classmethod
    def from_range(
        cls: type[Family],
        return_range: ReturnRange,
        num_features: int,
        *,
        slope_factor: float = 1.0,
        margin: float = ANCHOR_MARGIN,
    ) -> Family:
        """Anchors from end to end of the widened range, and ``slope_factor`` times the default slope 5w/L."""
        # Ten features that overlap by half are to cover the range: 0.5 × 10 w/s = L, so s = 5w/L.
        positive_count(num_features)
        slope = slope_factor * 5 * cls.width / return_range.width
        return cls(return_range.expand(margin).points(num_features), slope)


@pytree
class Sigmoid(TranslationFamily):
    """κ(x) = 1 / (1 + e^−x): a smoothed 1{x ≥ 0}, so the sketch is a smoothed survival function."""

    width = 4.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jax.nn.sigmoid(x)

    @staticmethod
    def base_strip_bound(height: float) -> float:
        if height >= np.pi:  # where the poles are
            return np.inf
        return 1.0 if height <= np.pi / 2 else 1 / np.sin(height)


@pytree
class Gaussian(TranslationFamily):
    """κ(x) = exp(−x²/2)."""

    width = 4.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.exp(-(x**2) / 2)

    @staticmethod
    def base_strip_bound(height: float) -> float:
        return float(np.exp(height**2 / 2))


@pytree
class Tanh(TranslationFamily):
    """κ(x) = tanh(x): the sigmoid of twice the slope, scaled to [−1, 1]."""

    width = 4.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.tanh(x)

    @staticmethod
    def base_strip_bound(height: float) -> float:
        return max(1.0, float(np.tan(height))) if height < np.pi / 2 else np.inf


@pytree
class Erf(TranslationFamily):
    """κ(x) = erf(x), the (Gaussian) error function."""

    width = 4.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jax.scipy.special.erf(x)

    @staticmethod
    def base_strip_bound(height: float) -> float:
        return 1 + float(scipy.special.erfi(height))  # by integrating its derivative along the imaginary axis


@pytree
class Parabolic(TranslationFamily):
    """κ(x) = 1 − x² on [−1, 1], zero elsewhere."""

    width = 2.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.maximum(1 - x**2, 0)

    @property
    def breaks(self) -> Array:
        return np.concatenate([np.asarray(self.anchors) - 1 / self.slope, np.asarray(self.anchors) + 1 / self.slope])

    @property
    def degree(self) -> int:
        return 2


@pytree
class Quartic(TranslationFamily):
    """κ(x) = (1 − x²)² on [−1, 1], zero elsewhere: once more differentiable than the parabola."""

    width = 2.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.maximum(1 - x**2, 0) ** 2

    @property
    def breaks(self) -> Array:
        return np.concatenate([np.asarray(self.anchors) - 1 / self.slope, np.asarray(self.anchors) + 1 / self.slope])

    @property
    def degree(self) -> int:
        return 4


@pytree
class Morlet(TranslationFamily):
    """κ(x) = exp(−x²/2) cos(2x)."""

    width = 4.0

    @staticmethod
    def base(x: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
        return jnp.exp(-(x**2) / 2) * jnp.cos(2 * x)

    @staticmethod
    def base_strip_bound(height: float) -> float:
        return float(np.exp(height**2 / 2) * np.cosh(2 * height))


# ---------------------------------------------------------------------------------------------------------------------
# Piecewise constant features
# ---------------------------------------------------------------------------------------------------------------------


@pytree
class Indicator(FeatureMap):
    """φ_i(z) = 1{z_1 ≤ z < z_{i+1}}, the last one closed on the right: Prop. 4, with m+1 edges for m features."""

    edges: Float[Array, " edges"]

    def __post_init__(self) -> None:
        freeze(self, edges=increasing("edges", self.edges, at_least=2))

    @property
    def num_features(self) -> int:
        """m."""
        return self.edges.shape[-1] - 1

    @property
    def anchors(self) -> Array:
        """The middle of each bin."""
        return (self.edges[..., 1:] + self.edges[..., :-1]) / 2

    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        z = returns[..., None]
        below = jnp.concatenate([z < self.edges[1:-1], z <= self.edges[-1:]], axis=-1)
        return (below & (z >= self.edges[0])).astype(returns.dtype)

    @classmethod
    def from_range(cls, return_range: ReturnRange, num_features: int, *, margin: float = ANCHOR_MARGIN) -> "Indicator":
        """Bins of equal width from one end of the widened range to the other."""
        positive_count(num_features)
        return cls(return_range.expand(margin).points(num_features + 1))

    @property
    def breaks(self) -> Array:
        return self.edges


@pytree
class Bins(FeatureMap):
    """φ_i(z) = 1{e_i ≤ z < e_{i+k}}: disjoint bins for overlap k=1, otherwise each point lies in up to k bins."""

    edges: Float[Array, " edges"]
    overlap: int = static(default=1)

    def __post_init__(self) -> None:
        if self.overlap < 1:
            raise InputError(f"overlap={self.overlap}: each bin must span at least one cell")
        freeze(self, edges=increasing("edges", self.edges, at_least=self.overlap + 1))

    @property
    def num_features(self) -> int:
        """m."""
        return self.edges.shape[-1] - self.overlap

    @property
    def anchors(self) -> Array:
        """The middle of each bin."""
        return (self.edges[..., self.overlap :] + self.edges[..., : -self.overlap]) / 2

    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        z = returns[..., None]
        ends_open = z < self.edges[self.overlap :]
        at_last = (z == self.edges[-1]) & (jnp.arange(self.num_features) == self.num_features - 1)
        return ((z >= self.edges[: -self.overlap]) & (ends_open | at_last)).astype(returns.dtype)

    @classmethod
    def from_range(
        cls, return_range: ReturnRange, num_features: int, *, margin: float = ANCHOR_MARGIN, overlap: int = 1
    ) -> "Bins":
        """Bins of equal width over the widened range."""
        positive_count(num_features)
        return cls(return_range.expand(margin).points(num_features + overlap), overlap)

    @property
    def breaks(self) -> Array:
        return self.edges


# ---------------------------------------------------------------------------------------------------------------------
# Global features
# ---------------------------------------------------------------------------------------------------------------------


@pytree
class Fourier(FeatureMap):
    """1, cos(ωz), sin(ωz), cos(2ωz), … cut after m, with ω = 2π/(high − low) and z counted from the middle."""

    low: Any
    high: Any
    num_features: int = static(default=13)

    def __post_init__(self) -> None:
        ReturnRange(float(self.low), float(self.high))
        positive_count(self.num_features)
        freeze(self, low=float(self.low), high=float(self.high))

    @property
    def anchors(self) -> None:
        """They sit nowhere in particular."""
        return None

    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        index = np.arange(self.num_features)
        middle, frequency = (self.low + self.high) / 2, 2 * np.pi / (self.high - self.low)
        # Even indices are sines of harmonic i/2 and odd ones cosines of (i+1)/2; index 0 is cos(0) = 1.
        angle = frequency * ((index + 1) // 2) * (returns[..., None] - middle)
        return jnp.where((index % 2 == 1) | (index == 0), jnp.cos(angle), jnp.sin(angle))

    def strip_bound(self, height: float) -> float:
        highest = 2 * np.pi * (self.num_features // 2) / (self.high - self.low)
        return float(np.cosh(highest * height))

    @classmethod
    def from_range(cls, return_range: ReturnRange, num_features: int, *, margin: float = ANCHOR_MARGIN) -> "Fourier":
        """Harmonics whose period is the widened range."""
        wide = return_range.expand(margin)
        return cls(wide.low, wide.high, num_features)


@pytree
class Polynomial(FeatureMap):
    """φ_i(z) = ((z − centre)/scale)^i for i = 0 … m−1: the moments.

    Up to a change of basis these are the only Bellman closed features: φ(r + γg) is a linear function of φ(g), exactly.
    """

    num_features: int = static(default=2)
    centre: Any = 0.0
    scale: Any = 1.0

    def __post_init__(self) -> None:
        positive_count(self.num_features)
        if not float(self.scale) > 0:
            raise InputError(f"scale={self.scale}: must be positive")
        freeze(self, centre=float(self.centre), scale=float(self.scale))

    @property
    def anchors(self) -> None:
        """They sit nowhere in particular."""
        return None

    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        x = (returns[..., None] - self.centre) / self.scale
        factors = jnp.broadcast_to(x, (*returns.shape, self.num_features)).at[..., 0].set(1)
        return jnp.cumprod(factors, axis=-1)

    @property
    def breaks(self) -> Array:
        return np.zeros(0)  # one polynomial from end to end

    @property
    def degree(self) -> int:
        return self.num_features - 1

    def composition(self, factor: float, shift: float) -> Float[np.ndarray, "m m"]:
        """The matrix M of φ(factor·x + shift) = M φ(x), for x in units of the scale, by the binomial theorem."""
        i, j = np.indices((self.num_features, self.num_features))
        return scipy.special.comb(i, j) * float(factor) ** j * float(shift) ** np.maximum(i - j, 0) * (j <= i)

    @classmethod
    def from_range(cls, return_range: ReturnRange, num_features: int, *, margin: float = GRID_MARGIN) -> "Polynomial":
        """Powers in units in which the regression range is [−1, 1]; ``Polynomial(m)`` are the paper's raw powers."""
        wide = return_range.expand(margin)
        return cls(num_features, (wide.low + wide.high) / 2, wide.width / 2)


@pytree
class WithConstant(FeatureMap):
    """(φ, 1): another feature map with the constant appended (the paper's Sec. 3 and its Atari agent)."""

    features: FeatureMap

    @property
    def num_features(self) -> int:
        """m."""
        return self.features.num_features + 1

    @property
    def anchors(self) -> None:
        """They sit nowhere in particular."""
        return None

    @property
    def breaks(self) -> Array | None:
        return self.features.breaks

    @property
    def degree(self) -> int:
        return self.features.degree

    def strip_bound(self, height: float) -> float:
        return max(1.0, self.features.strip_bound(height))

    def evaluate(self, returns: Float[jax.Array, "..."]) -> Float[jax.Array, "... m"]:
        values = self.features.evaluate(returns)
        return jnp.concatenate([values, jnp.ones_like(values[..., :1])], axis=-1)
