"""Reward distributions: a number, finitely many numbers, or any frozen ``scipy.stats`` distribution.

All of them come down to atoms: exact ones for finite rewards, quadrature nodes for continuous ones.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special, stats

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import InputError

TAIL = 1e-15  # mass beyond which a distribution's tail is invisible in float64
GAUSS_HERMITE_NODES = 64
_LEGENDRE_NODES = 16
_QUANTILE_BREAKS = np.array([TAIL, 1e-10, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5])
_NORMAL_SCORES = np.linspace(-8.0, 8.0, 4097)  # Φ(±8) is TAIL away from 0 and 1


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
        return self.frozen is None

    @property
    def is_deterministic(self) -> bool:
        return self.is_finite and len(self.atoms) == 1

    @property
    def is_gaussian(self) -> bool:
        return self.frozen is not None and self.frozen.dist.name == "norm"

    @functools.cached_property
    def distribution(self) -> AtomicDistribution:
        """The atoms as a distribution."""
        return AtomicDistribution(np.array(self.atoms), np.array(self.weights))

    @property
    def mean(self) -> float:
        return float(self.distribution.mean) if self.is_finite else float(self.frozen.mean())

    @property
    def variance(self) -> float:
        return float(self.distribution.variance) if self.is_finite else float(self.frozen.var())

    @property
    def support(self) -> tuple[float, float]:
        """The interval outside which there is at most ``TAIL`` mass on either side."""
        if self.is_finite:
            return min(self.atoms), max(self.atoms)
        return float(self.frozen.ppf(TAIL)), float(self.frozen.isf(TAIL))

    def cdf(self, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.asarray(self.distribution.cdf(x) if self.is_finite else self.frozen.cdf(x))

    def sampling_table(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) such that interpolating y at a standard normal draw gives a draw of a continuous reward.

        Tabulating against normal scores is exact for Gaussian rewards and resolves the tails of all others.
        """
        upper = _NORMAL_SCORES > 0
        quantiles = np.where(
            upper, self.frozen.isf(special.ndtr(-_NORMAL_SCORES)), self.frozen.ppf(special.ndtr(_NORMAL_SCORES))
        )
        return _NORMAL_SCORES, quantiles


def as_reward(value: Any) -> Reward:
    """A number, an ``AtomicDistribution`` or a frozen ``scipy.stats`` distribution as a ``Reward``."""
    if isinstance(value, Reward):
        return value
    if isinstance(value, AtomicDistribution):
        return _finite(value.locations, value.probabilities)
    if isinstance(value, stats.distributions.rv_frozen):
        return _discrete(value) if hasattr(value, "pmf") else _continuous(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"reward {value!r}: expected a number, an AtomicDistribution or a frozen scipy.stats distribution"
        ) from None
    if not np.isfinite(number):
        raise InputError(f"reward {number}: rewards must be finite")
    return Reward(f"{number + 0.0:g}", (number + 0.0,), (1.0,))  # + 0.0 turns −0.0 into 0.0


def _finite(atoms: Any, weights: Any) -> Reward:
    values, index = np.unique(np.asarray(atoms, dtype=np.float64) + 0.0, return_inverse=True)
    mass = np.bincount(index, weights=np.asarray(weights, dtype=np.float64))
    values, mass = values[mass > 0], mass[mass > 0]
    name = "{" + ", ".join(f"{v:g}: {p:g}" for v, p in zip(values[:4], mass[:4], strict=True))
    return Reward(name + (", …}" if values.size > 4 else "}"), tuple(values.tolist()), tuple(mass.tolist()))


def _discrete(frozen: Any) -> Reward:
    low, high = frozen.support()
    low = low if np.isfinite(low) else frozen.ppf(TAIL)
    high = high if np.isfinite(high) else frozen.isf(TAIL)
    atoms = np.arange(low, high + 1)
    mass = frozen.pmf(atoms)
    return _finite(atoms, mass / mass.sum())


def _continuous(frozen: Any) -> Reward:
    parameters = [f"{v:g}" for v in frozen.args] + [f"{k}={v:g}" for k, v in sorted(frozen.kwds.items())]
    if frozen.dist.name == "norm":
        nodes, weights = np.polynomial.hermite_e.hermegauss(GAUSS_HERMITE_NODES)
        nodes = frozen.mean() + frozen.std() * nodes
        parameters = [f"{frozen.mean():.17g}", f"{frozen.std():.17g}"]
    else:
        nodes, weights = _panel_rule(frozen)
    weights = weights / weights.sum()
    return Reward(
        f"{frozen.dist.name}({', '.join(parameters)})", tuple(nodes.tolist()), tuple(weights.tolist()), frozen
    )


def _panel_rule(frozen: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre panels between quantiles, dense where the mass is and reaching far into the tails."""
    breaks = np.concatenate([frozen.ppf(_QUANTILE_BREAKS), frozen.isf(_QUANTILE_BREAKS[-2::-1])])
    breaks = np.unique(breaks[np.isfinite(breaks)])
    x, w = np.polynomial.legendre.leggauss(_LEGENDRE_NODES)
    half = np.diff(breaks)[:, None] / 2
    nodes = (breaks[:-1, None] + half * (1 + x)).ravel()
    return nodes, (half * w).ravel() * frozen.pdf(nodes)
