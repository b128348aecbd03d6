"""Sketch-DP and Sketch-TD: distributional dynamic programming and TD learning that never leave sketch space."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jax.experimental import sparse as jsp
from jaxtyping import Float, Int
from scipy.sparse.linalg import LinearOperator, eigs, gmres

from bellsketch.core.arrays import Array, namespace
from bellsketch.core.coefficients import BellmanCoefficients
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.errors import DivergenceError, InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import Decoder
from bellsketch.core.pytree import pytree, static
from bellsketch.tabular.algorithm import Algorithm, Info
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.sampling import TransitionSampler, transition_sampler
from bellsketch.tabular.schedules import as_schedule

DENSE_UNKNOWNS = 5_000
"""Linear systems with at most this many unknowns (states × features) are solved by dense LU, larger ones by GMRES."""
DENSE_EIGENVALUES = 1_000
"""Spectral radii of at most this many unknowns are found from all eigenvalues, larger ones by Arnoldi's method."""
DENSE_MIXING = 4_000_000
"""Mixing matrices with at most this many entries are kept dense on the device."""


# ---------------------------------------------------------------------------------------------------------------------
# The sketch Bellman operator
# ---------------------------------------------------------------------------------------------------------------------


@pytree
class SketchOperator:
    """𝒯_φ: U ↦ E[A_R U(X') + c_R | X = x], the sketch Bellman operator as one affine map of [s, m] arrays.

    A backup mixes the sketches of successors for each pair (state, reward), applies each reward's A to its pairs, and
    adds the pairs of each state up. If reward and successor are independent there is one pair per state: the paper's
    conditional-independence form.
    """

    mixing: Any
    """P(reward of the pair, x' | state of the pair), [q, s]: SciPy sparse on the host, dense or BCOO on the device."""
    pairs: Int[Array, "s k"]
    """The pairs of each state, padded with q."""
    matrices: Float[Array, "r m m"]
    offset: Float[Array, "s m"]
    """E[c_R], which for terminating outcomes is E[φ(R)]."""
    groups: tuple[tuple[int, int, int], ...] = static()
    """(reward, first pair, last pair + 1): pairs with the same reward stand together."""

    def __call__(self, sketch: Float[Array, "s m"]) -> Float[Array, "s m"]:
        xp = namespace(sketch)
        mixed = self.mixing @ sketch
        parts = [mixed[start:stop] @ self.matrices[r].T for r, start, stop in self.groups]
        parts.append(xp.zeros_like(sketch[:1]))
        return xp.concatenate(parts)[self.pairs].sum(axis=1) + self.offset

    def on_device(self) -> "SketchOperator":
        """The same operator in arrays that can enter jit."""
        small = np.prod(self.mixing.shape) <= DENSE_MIXING
        mixing = self.mixing.toarray() if small else jsp.BCOO.from_scipy_sparse(self.mixing)
        return SketchOperator(mixing, self.pairs, self.matrices, self.offset, self.groups)

    @property
    def num_unknowns(self) -> int:
        return int(self.offset.size)

    def linear(self, sketch: Float[Array, "s m"]) -> Float[Array, "s m"]:
        """The operator without its constant part."""
        return self(sketch) - self.offset

    def dense(self) -> Float[np.ndarray, "u u"]:
        """The matrix of the linear part, acting on flattened [s, m] sketches."""
        states, m = self.offset.shape
        total = np.zeros((states, m, states, m))
        owner = np.zeros(self.mixing.shape[0] + 1, dtype=np.int64)
        owner[self.pairs] = np.arange(states)[:, None]
        for r, start, stop in self.groups:
            for q in range(start, stop):
                row = self.mixing[[q]].toarray()[0]
                near = np.flatnonzero(row)
                total[owner[q], :, near, :] += row[near, None, None] * self.matrices[r]
        return total.reshape(states * m, states * m)

    def spectral_radius(self) -> float:
        """Of the linear part: below 1, iterating converges."""
        if self.num_unknowns <= DENSE_EIGENVALUES:
            return float(np.abs(scipy.linalg.eigvals(self.dense())).max())
        return float(np.abs(eigs(self._as_linear_operator(), k=1, return_eigenvectors=False, tol=1e-6)).max())

    def fixed_point(self) -> Float[np.ndarray, "s m"]:
        """U = 𝒯_φ U by solving the linear system, which also exists where iterating diverges."""
        if self.num_unknowns <= DENSE_UNKNOWNS:
            system = np.eye(self.num_unknowns) - self.dense()
            return scipy.linalg.solve(system, self.offset.ravel()).reshape(self.offset.shape)
        size = self.num_unknowns
        system = LinearOperator((size, size), matvec=lambda u: u - self._flat_linear(u), dtype=np.float64)
        solution, flag = gmres(system, self.offset.ravel(), rtol=1e-12, atol=0.0, restart=50, maxiter=200)
        if flag:
            raise DivergenceError(
                "GMRES did not reach a residual of 1e-12: pass method='iterate', or a smaller discount"
            )
        return solution.reshape(self.offset.shape)

    def _flat_linear(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(self.linear(u.reshape(self.offset.shape))).ravel()

    def _as_linear_operator(self) -> LinearOperator:
        return LinearOperator((self.num_unknowns, self.num_unknowns), matvec=self._flat_linear, dtype=np.float64)


def sketch_operator(mrp: MRP, coefficients: BellmanCoefficients) -> SketchOperator:
    """The sketch Bellman operator of a model, on the host.

    ``coefficients`` must cover the model's rewards at its discount and at 0. For a model given jointly (see
    :meth:`MRP.split_rewards`) this is the general form; otherwise random rewards enter through expected coefficients.
    """
    o = mrp.outcomes
    places = [coefficients.index(r, mrp.discount) for r in mrp.rewards]
    endings = [coefficients.index(r, 0.0) for r in mrp.rewards]
    matrices = np.stack([coefficients.matrices[i] for i in places])
    go = ~o.terminal

    constants = np.stack([coefficients.offsets[i] for i in places])
    ends = np.stack([coefficients.offsets[i] for i in endings])
    contribution = np.where(go[:, None], constants[o.reward], ends[o.reward]) * o.probability[:, None]
    offset = np.zeros((mrp.num_states, coefficients.features.num_features))
    np.add.at(offset, o.state, contribution)

    # Number the pairs (reward, state) that go on, reward by reward.
    codes, pair = np.unique(o.reward[go] * mrp.num_states + o.state[go], return_inverse=True)
    reward_of, state_of = codes // mrp.num_states, codes % mrp.num_states
    mixing = sp.csr_array((o.probability[go], (pair, o.successor[go])), shape=(codes.size, mrp.num_states))
    bounds = np.searchsorted(reward_of, np.arange(len(mrp.rewards) + 1))
    groups = tuple((r, int(a), int(b)) for r, (a, b) in enumerate(itertools.pairwise(bounds)) if a < b)

    order = np.argsort(state_of, kind="stable")
    column = np.arange(codes.size) - np.searchsorted(state_of[order], state_of[order])
    table = np.full((mrp.num_states, int(column.max(initial=0)) + 1), codes.size)
    table[state_of[order], column] = order
    return SketchOperator(mixing, table, matrices, offset, groups)


# ---------------------------------------------------------------------------------------------------------------------
# The algorithms
# ---------------------------------------------------------------------------------------------------------------------


@pytree
class SketchDP(Algorithm):
    """Sketch-DP: U ← 𝒯_φ U, from U(x) = φ(0). Its state is the sketch, of shape [s, m]."""

    features: FeatureMap
    operator: SketchOperator
    decoder: Decoder

    def init(self, key: jax.Array) -> Float[jax.Array, "s m"]:
        return _sketch_of_zero(self.features, self.operator.offset.shape[0])

    def step(self, key: jax.Array, state: Float[jax.Array, "s m"]) -> tuple[Float[jax.Array, "s m"], Info]:
        updated = self.operator(state)
        return updated, Info(jnp.max(jnp.abs(updated - state)))

    def decode(self, state: Float[Array, "s m"]) -> AtomicDistribution:
        return self.decoder(state)


def sketch_dp(mrp: MRP, coefficients: BellmanCoefficients, decoder: Decoder) -> SketchDP:
    """Sketch-DP for a model."""
    return SketchDP(coefficients.features, sketch_operator(mrp, coefficients).on_device(), decoder)


@pytree
class TDState:
    """What Sketch-TD carries along."""

    sketch: Float[Array, "s m"]
    count: Int[Array, " s"]
    """How often each state has been updated."""
    position: Int[Array, ""]
    """Where the trajectory is (not used by synchronous updates)."""


@pytree
class SketchTD(Algorithm):
    """Sketch-TD: U(x) ← (1−α) U(x) + α (A_r U(x') + c_r), with target φ(r) where the episode ends.

    ``synchronous`` updates draw a transition from every state at each step; otherwise each step follows one trajectory,
    which restarts at a uniformly random state when it ends.
    """

    features: FeatureMap
    sampler: TransitionSampler
    matrices: Float[Array, "r m m"]
    offsets: Float[Array, "r m"]
    endings: Float[Array, "r m"]
    """φ(r), the target of a terminating transition."""
    step_size: Any
    """α as a function of the number of updates the state has had."""
    decoder: Decoder
    synchronous: bool = static(default=True)

    def init(self, key: jax.Array) -> TDState:
        num_states = self.sampler.successor.shape[0]
        start = jax.random.randint(key, (), 0, num_states)
        return TDState(_sketch_of_zero(self.features, num_states), jnp.zeros(num_states, jnp.int32), start)

    def step(self, key: jax.Array, state: TDState) -> tuple[TDState, Info]:
        key_draw, key_restart = jax.random.split(key)
        num_states = self.sampler.successor.shape[0]
        visited = jnp.arange(num_states) if self.synchronous else state.position[None]
        reward, _, successor = self.sampler(key_draw, visited)
        step_size = self.step_size(state.count[visited])[:, None]
        error = self._targets(state.sketch, reward, successor) - state.sketch[visited]
        following = jnp.where(successor[0] < 0, jax.random.randint(key_restart, (), 0, num_states), successor[0])
        updated = TDState(
            state.sketch.at[visited].add(step_size * error),
            state.count.at[visited].add(1),
            state.position if self.synchronous else following,
        )
        return updated, Info(jnp.max(jnp.abs(step_size * error)))

    def _targets(self, sketch: jax.Array, reward: jax.Array, successor: jax.Array) -> jax.Array:
        # Applying every reward's matrix and keeping one costs less than gathering a matrix per state: it is one GEMM
        # that all seeds and step sizes share.
        m = sketch.shape[-1]
        rows = jnp.asarray(self.matrices).reshape(-1, m)
        backed_up = (sketch[jnp.maximum(successor, 0)] @ rows.T).reshape(*reward.shape, -1, m)
        chosen = jnp.take_along_axis(backed_up, reward[..., None, None], axis=-2)[..., 0, :]
        chosen += jnp.asarray(self.offsets)[reward]
        return jnp.where((successor < 0)[..., None], jnp.asarray(self.endings)[reward], chosen)

    def decode(self, state: TDState) -> AtomicDistribution:
        return self.decoder(state.sketch)


def sketch_td(
    mrp: MRP,
    coefficients: BellmanCoefficients,
    decoder: Decoder,
    step_size: Any,
    *,
    mode: str = "synchronous",
) -> SketchTD:
    """Sketch-TD on transitions drawn from a model.

    Random rewards are drawn from the atoms of ``mrp.split_rewards(quadrature=True)``, whose coefficients must be there.

    Args:
      mrp: the model to draw from.
      coefficients: for every reward that can be drawn, at the model's discount and at 0.
      decoder: how to read distributions off the sketch.
      step_size: a number, or a function of the number of updates a state has had (see ``bellsketch.schedules``).
      mode: ``synchronous`` or ``trajectory``.
    """
    if mode not in ("synchronous", "trajectory"):
        raise InputError(f"mode={mode!r}: choose 'synchronous' or 'trajectory'")
    split = mrp.split_rewards(quadrature=True)
    places = [coefficients.index(r, mrp.discount) for r in split.rewards]
    endings = [coefficients.index(r, 0.0) for r in split.rewards]
    return SketchTD(
        coefficients.features,
        transition_sampler(split),
        np.stack([coefficients.matrices[i] for i in places]),
        np.stack([coefficients.offsets[i] for i in places]),
        np.stack([coefficients.offsets[i] for i in endings]),
        as_schedule(step_size),
        decoder,
        mode == "synchronous",
    )


def _sketch_of_zero(features: FeatureMap, num_states: int) -> jax.Array:
    return jnp.tile(features(jnp.zeros(())), (num_states, 1))
