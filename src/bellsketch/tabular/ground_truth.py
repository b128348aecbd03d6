"""True return distributions, to compare with: exact where that is possible, otherwise on a very fine grid.

``ground_truth`` chooses: atoms or Gaussian mixtures, enumerated exactly, if there are not too many; else a fine grid on
which every Bellman backup preserves the mean. ``monte_carlo`` is the paper's way.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy import signal, special

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.features import FeatureMap
from bellsketch.core.metrics import CramerTo
from bellsketch.core.projections import categorical_projection, project_cdf
from bellsketch.core.rewards import QUADRATURE_SCORES, Reward
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.sampling import PAPER_ROLLOUTS, sample_returns

MAX_COMPONENTS = 3_000
GRID_POINTS = 20_001
GAUSSIAN_GRID_POINTS = 4_001
NEGLIGIBLE = 1e-18
STANDARD_DEVIATIONS = 8.5  # a Gaussian has no mass visible in float64 further out


@dataclasses.dataclass(frozen=True)
class GroundTruth:
    """The return distribution of every state."""

    distribution: AtomicDistribution
    """Atoms, of shape [s, n], to take distances to."""
    nodes: AtomicDistribution
    """Atoms that integrate smooth functions (features): quadrature nodes where the truth is Gaussian."""
    method: str
    """``atoms``, ``gaussian mixture``, ``grid`` or ``monte carlo``."""

    @functools.cached_property
    def cramer_to(self) -> CramerTo:
        """Cramér distances of many estimates from this truth."""
        return CramerTo(self.distribution)

    def embedding(self, features: FeatureMap) -> Float[np.ndarray, "s m"]:
        """U^π = E[φ(G)]."""
        first = self.nodes.locations[0]
        if (self.nodes.locations == first).all():
            return np.asarray(self.nodes.probabilities) @ features(first)
        sketch = np.zeros((self.nodes.locations.shape[0], features.num_features))
        for x, (z, p) in enumerate(zip(self.nodes.locations, self.nodes.probabilities, strict=True)):
            sketch[x] = p @ features(z)
        return sketch


def ground_truth(mrp: MRP) -> GroundTruth:
    """The true return distributions of a model, as exactly as its structure allows."""
    if all(r.is_finite or r.is_gaussian for r in mrp.rewards):
        components = _enumerate(mrp)
        if components is not None:
            return _from_components(components)
    grid = _on_grid(mrp)
    return GroundTruth(grid, grid, "grid")


def monte_carlo(
    key: jax.Array, mrp: MRP, num_rollouts: int = PAPER_ROLLOUTS, horizon: int | None = None
) -> GroundTruth:
    """The paper's ground truth: the empirical distribution of first-visit Monte Carlo returns."""
    returns = sample_returns(key, mrp, num_rollouts, horizon)
    empirical = AtomicDistribution(np.sort(returns, axis=1), np.full(returns.shape, 1 / num_rollouts))
    return GroundTruth(empirical, empirical, "monte carlo")


# ---------------------------------------------------------------------------------------------------------------------
# Exact enumeration: each state's return is a mixture of Gaussians, of which atoms are those without variance
# ---------------------------------------------------------------------------------------------------------------------

_Mixture = tuple[np.ndarray, np.ndarray, np.ndarray]  # weights, means, variances


def _enumerate(mrp: MRP) -> list[_Mixture] | None:
    """The components of every state's return after enough steps, or None if there are too many."""
    split = mrp.split_rewards()
    o, rewards = split.outcomes, split.rewards
    nothing: _Mixture = (np.ones(1), np.zeros(1), np.zeros(1))
    current = [nothing] * mrp.num_states
    for _ in range(mrp.horizon(1e-15)):
        parts: list[list[_Mixture]] = [[] for _ in range(mrp.num_states)]
        for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True):
            weight, mean, variance = nothing if y < 0 else current[y]
            mean = rewards[r].mean + mrp.discount * mean
            parts[x].append((p * weight, mean, rewards[r].variance + mrp.discount**2 * variance))
        updated = [_merge(part) for part in parts]
        if max(len(weights) for weights, _, _ in updated) > MAX_COMPONENTS:
            return None
        if all(_same(a, b) for a, b in zip(current, updated, strict=True)):
            return updated
        current = updated
    return current


def _merge(parts: list[_Mixture]) -> _Mixture:
    """All parts as one mixture, equal components added up and negligible ones dropped."""
    weights, means, variances = (np.concatenate(column) for column in zip(*parts, strict=True))
    scale = max(float(np.abs(means).max()), 1.0)
    keys = np.round(np.stack([means / scale, variances / scale**2]), 12)
    _, first, index = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    total = np.bincount(index.ravel(), weights=weights)
    keep = total > NEGLIGIBLE
    first, total = first[keep], total[keep]
    return total / total.sum(), means[first], variances[first]


def _same(a: _Mixture, b: _Mixture) -> bool:
    return all(u.shape == v.shape and np.array_equal(u, v) for u, v in zip(a, b, strict=True))


def _from_components(mixtures: list[_Mixture]) -> GroundTruth:
    if all(np.all(variance == 0) for _, _, variance in mixtures):
        atoms = _padded([(mean, weight) for weight, mean, _ in mixtures])
        return GroundTruth(atoms, atoms, "atoms")
    x = QUADRATURE_SCORES
    w = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    nodes = [
        ((mean[:, None] + np.sqrt(variance)[:, None] * x).ravel(), (weight[:, None] * w).ravel())
        for weight, mean, variance in mixtures
    ]
    return GroundTruth(_padded([_discretise(m) for m in mixtures]), _padded(nodes), "gaussian mixture")


def _discretise(mixture: _Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Fine atoms of a mixture: Gaussian components on a grid, the others where they are."""
    weight, mean, variance = mixture
    spread = variance > 0
    if not spread.any():
        return mean, weight
    std = np.sqrt(variance[spread])
    low = float((mean[spread] - STANDARD_DEVIATIONS * std).min())
    high = float((mean[spread] + STANDARD_DEVIATIONS * std).max())
    grid = np.linspace(low, high, GAUSSIAN_GRID_POINTS)

    def cdf(z: np.ndarray) -> np.ndarray:
        return special.ndtr((z[..., None] - mean[spread]) / std) @ (weight[spread] / weight[spread].sum())

    mass = project_cdf(cdf, grid) * weight[spread].sum()
    return np.concatenate([grid, mean[~spread]]), np.concatenate([mass, weight[~spread]])


def _padded(rows: list[tuple[np.ndarray, np.ndarray]]) -> AtomicDistribution:
    """Rows of atoms of different lengths as one batch, filled up with atoms of no mass."""
    width = max(len(z) for z, _ in rows)
    locations = np.stack([np.pad(z, (0, width - len(z)), mode="edge") for z, _ in rows])
    probabilities = np.stack([np.pad(p, (0, width - len(p))) for _, p in rows])
    return AtomicDistribution(locations, probabilities)


# ---------------------------------------------------------------------------------------------------------------------
# A fine grid, on which every backup is a mean-preserving (categorical) projection
# ---------------------------------------------------------------------------------------------------------------------


def _on_grid(mrp: MRP) -> AtomicDistribution:
    grid = _grid_for(mrp)
    split = mrp.split_rewards()
    o = split.outcomes
    ended = np.zeros((mrp.num_states, grid.size))
    for x, p, r in zip(o.state[o.terminal], o.probability[o.terminal], o.reward[o.terminal], strict=True):
        ended[x] += p * _masses_of_reward(split.rewards[r], grid)
    backups = []
    for r, reward in enumerate(split.rewards):
        chosen = (o.reward == r) & ~o.terminal
        entries = (o.probability[chosen], (o.state[chosen], o.successor[chosen]))
        mixing = sp.csr_array(entries, shape=(mrp.num_states, mrp.num_states))
        backups.append((mixing, _backup_on_grid(reward, mrp.discount, grid)))
    masses = np.zeros((mrp.num_states, grid.size))
    masses[:, np.argmin(np.abs(grid))] = 1.0
    for _ in range(mrp.horizon(1e-14)):
        masses = ended + sum(backup(mixing @ masses) for mixing, backup in backups)
    masses = np.maximum(masses, 0.0)  # Fourier transforms leave −1e-17 where there is nothing
    return AtomicDistribution(np.broadcast_to(grid, masses.shape), masses / masses.sum(axis=1, keepdims=True))


def _grid_for(mrp: MRP) -> np.ndarray:
    """Even points from the least to the greatest possible return, or as far as there is visible mass."""
    least, greatest = mrp.return_bounds
    low, high = float(least.min()), float(greatest.max())
    if not all(r.is_finite for r in mrp.rewards):
        reach = STANDARD_DEVIATIONS * np.sqrt(mrp.return_variance)
        low, high = max(low, float((mrp.value - reach).min())), min(high, float((mrp.value + reach).max()))
    low, high = min(low, 0.0), max(high, 0.0)  # so that γ times the grid lies within the grid
    return np.linspace(low, high, GRID_POINTS) if high > low else np.linspace(low - 0.5, low + 0.5, GRID_POINTS)


def _masses_of_reward(reward: Reward, grid: np.ndarray) -> np.ndarray:
    if reward.is_finite:
        return np.asarray(categorical_projection(reward.distribution, grid).probabilities)
    return project_cdf(reward.cdf, grid)


def _backup_on_grid(reward: Reward, discount: float, grid: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """masses of G ↦ masses of R + γG, for a batch of distributions on the grid."""
    if reward.is_finite:
        shift = _projected_map(grid, reward.mean + discount * grid)
        return lambda masses: (shift @ masses.T).T
    shrink = _projected_map(grid, discount * grid)
    step = grid[1] - grid[0]
    first, last = (int(np.floor(reward.support[0] / step)) - 1, int(np.ceil(reward.support[1] / step)) + 1)
    kernel = project_cdf(reward.cdf, step * np.arange(first, last + 1))

    def backup(masses: np.ndarray) -> np.ndarray:
        spread = signal.fftconvolve((shrink @ masses.T).T, kernel[None, :], axes=1)
        places = np.clip(np.arange(first, first + spread.shape[1]), 0, grid.size - 1)
        inside = np.flatnonzero((places > 0) & (places < grid.size - 1))
        result = np.zeros_like(masses)
        result[:, places[inside]] = spread[:, inside]
        result[:, 0] = spread[:, places == 0].sum(axis=1)
        result[:, -1] = spread[:, places == grid.size - 1].sum(axis=1)
        return result

    return backup


def _projected_map(grid: np.ndarray, images: np.ndarray) -> sp.csr_array:
    """The matrix that moves mass from each grid point to its image, shared between the image's two neighbours."""
    position = (np.clip(images, grid[0], grid[-1]) - grid[0]) / (grid[1] - grid[0])
    lower = np.minimum(position.astype(np.int64), grid.size - 2)
    share = position - lower
    columns = np.arange(grid.size)
    entries = (np.concatenate([1 - share, share]), (np.concatenate([lower, lower + 1]), np.tile(columns, 2)))
    return sp.csr_array(entries, shape=(grid.size, grid.size))
