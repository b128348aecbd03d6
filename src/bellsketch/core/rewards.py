"""Reward distributions: a number, finitely many numbers, or any frozen ``scipy.stats`` distribution.

All of them come down to atoms: exact ones for finite rewards, quadrature nodes for continuous ones.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special, stats

from bellsketch.core.distributions import MASS_TOLERANCE, AtomicDistribution
from bellsketch.core.errors import InputError

TAIL = 1e-15  # mass beyond which a distribution's tail is invisible in float64
_NORMAL_SCORES = np.linspace(-8.0, 8.0, 4097)  # Φ(±8) is TAIL away from 0 and 1
QUADRATURE_SCORES = _NORMAL_SCORES[::32]
"""Nodes z of a rule for E[f(Z)], Z standard normal, with weights ∝ exp(−z²/2).

Equal steps converge exponentially for smooth f, and for sharp ones far faster than Gauss–Hermite: a sigmoid feature
with slope × standard deviation = 6 is integrated to 2e-12 (64 Gauss–Hermite nodes: 2e-4).
"""


@dataclasses.dataclass(frozen=True)
class Reward:
    """A reward distribution as a value: equal rewards compare equal and hash alike.

    ``atoms`` and ``weights`` are the distribution itself if ``is_finite``, otherwise a quadrature rule for it.
    """

    name: str
    atoms: tuple[float, ...]
    weights: tuple[float, ...]
    frozen: Any = dataclasses.field(default=None, compare=False, repr=False)
    """The ``scipy.stats`` distribution of a continuous reward."""

    @property
    def is_finite(self) -> bool:
        """Whether it takes finitely many values."""
        return self.frozen is None

    @property
    def is_deterministic(self) -> bool:
        """Whether it is one number."""
        return self.is_finite and len(self.atoms) == 1

    @property
    def is_gaussian(self) -> bool:
        """Whether it is normal."""
        return self.frozen is not None and self.frozen.dist.name == "norm"

    @functools.cached_property
    def distribution(self) -> AtomicDistribution:
        """The atoms as a distribution."""
        return AtomicDistribution(np.array(self.atoms), np.array(self.weights))

    @property
    def mean(self) -> float:
        """E[R]."""
        return float(self.distribution.mean) if self.is_finite else float(self.frozen.mean())

    @property
    def variance(self) -> float:
        """Var[R]."""
        return float(self.distribution.variance) if self.is_finite else float(self.frozen.var())

    @property
    def support(self) -> tuple[float, float]:
        """The interval outside which there is at most ``TAIL`` mass on either side."""
        if self.is_finite:
            return min(self.atoms), max(self.atoms)
        return float(self.frozen.ppf(TAIL)), float(self.frozen.isf(TAIL))

    @property
    def sampled_range(self) -> tuple[float, float]:
        """The least and greatest value that is ever drawn."""
        values = self.atoms if self.is_finite else self.sampling_table()[1]
        return float(np.min(values)), float(np.max(values))

    def cdf(self, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """P(R ≤ x)."""
        return np.asarray(self.distribution.cdf(x) if self.is_finite else self.frozen.cdf(x))

    def equally_likely(self, num: int = 100) -> AtomicDistribution:
        """A continuous reward as ``num`` atoms of equal mass: the means of its equally likely slices."""
        x, w = np.polynomial.legendre.leggauss(16)
        levels = (np.arange(num)[:, None] + (x + 1) / 2) / num
        return AtomicDistribution(self.frozen.ppf(levels) @ (w / 2), np.full(num, 1 / num))

    def sampling_table(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) such that interpolating y at a standard normal draw gives a draw of a continuous reward.

        Tabulating against normal scores is exact for Gaussian rewards and resolves the tails of all others.
        """
        return _NORMAL_SCORES, _at_scores(self.frozen, _NORMAL_SCORES)


def as_reward(value: Any) -> Reward:
    """A number, an ``AtomicDistribution`` or a frozen ``scipy.stats`` distribution as a ``Reward``."""
    if isinstance(value, Reward):
        return value
    if isinstance(value, AtomicDistribution):
        if value.locations.ndim != 1:
            raise InputError(f"reward of shape {value.locations.shape[:-1]}: expected one distribution, not a batch")
        return _finite(value.locations, value.probabilities)
    if isinstance(value, stats.distributions.rv_frozen):
        middle = value.ppf(0.5)
        if np.ndim(middle) > 0 or not np.isfinite(middle):
            raise InputError(f"reward {value.dist.name}(…): its median is {middle}, check the parameters")
        if not (np.isfinite(value.mean()) and np.isfinite(value.var())):
            raise InputError(
                f"reward {value.dist.name}(…): its mean is {value.mean():g} and its variance {value.var():g}; both must"
                " be finite: cut its tails off, as scipy.stats.truncnorm does"
            )
        return _discrete(value) if hasattr(value, "pmf") else _continuous(value)
    try:
        number = float(value if not np.iscomplexobj(value) else "complex")  # float would drop the imaginary part
    except (TypeError, ValueError):
        raise InputError(
            f"reward {value!r}: expected a number, an AtomicDistribution or a frozen scipy.stats distribution"
        ) from None
    if not np.isfinite(number):
        raise InputError(f"reward {number}: rewards must be finite")
    number += 0.0  # turns −0.0 into 0.0
    return Reward(repr(number).removesuffix(".0"), (number,), (1.0,))  # in full: what differs must look different


def _finite(atoms: Any, weights: Any) -> Reward:
    values, index = np.unique(np.asarray(atoms, dtype=np.float64) + 0.0, return_inverse=True)
    mass = np.bincount(index, weights=np.asarray(weights, dtype=np.float64))
    values, mass = values[mass > 0], mass[mass > 0]
    if values.size == 1:
        return as_reward(values[0])
    name = "{" + ", ".join(f"{v:g}: {p:g}" for v, p in zip(values[:4], mass[:4], strict=True))
    return Reward(name + (", …}" if values.size > 4 else "}"), tuple(values.tolist()), tuple(mass.tolist()))


def _discrete(frozen: Any) -> Reward:
    low, high = frozen.support()
    low = low if np.isfinite(low) else frozen.ppf(TAIL)
    high = high if np.isfinite(high) else frozen.isf(TAIL)
    atoms = np.arange(low, high + 1)
    mass = frozen.pmf(atoms)
    if not abs(mass.sum() - 1) <= MASS_TOLERANCE:
        raise InputError(
            f"reward {frozen.dist.name}: only {mass.sum():.3g} of its mass lies on {low:g}, {low + 1:g}, … {high:g};"
            " pass an AtomicDistribution with its values and probabilities"
        )
    return _finite(atoms, mass / mass.sum())


def _continuous(frozen: Any) -> Reward:
    parameters = [f"{v:g}" for v in frozen.args] + [f"{k}={v:g}" for k, v in sorted(frozen.kwds.items())]
    if frozen.dist.name == "norm":
        nodes = frozen.mean() + frozen.std() * QUADRATURE_SCORES
        parameters = [f"{frozen.mean():.17g}", f"{frozen.std():.17g}"]
    else:
        nodes = _at_scores(frozen, QUADRATURE_SCORES)  # reaches deep into the tails, and needs no density
    weights = np.exp(-(QUADRATURE_SCORES**2) / 2)
    weights /= weights.sum()
    return Reward(
        f"{frozen.dist.name}({', '.join(parameters)})", tuple(nodes.tolist()), tuple(weights.tolist()), frozen
    )


def _at_scores(frozen: Any, scores: np.ndarray) -> np.ndarray:
    """F⁻¹(Φ(z)), the quantiles at standard normal scores z: distributed like the reward for standard normal z."""
    return np.where(scores > 0, frozen.isf(special.ndtr(-scores)), frozen.ppf(special.ndtr(scores)))
