"""Coefficients for rewards that are not known beforehand: fitted just in time, interpolated, or learned by a network.

The paper's Remark on linear regression and its App. "Knowledge of rewards" suggest to learn an approximator
H: r ↦ B_r. Here is one, trained in two ways, next to what needs no training.

OMP_NUM_THREADS=1 python benchmarks/coefficients.py     prints a table and writes benchmarks/results/coefficients.json
"""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import bellsketch as bs
from bellsketch.experiments.stopwatch import shortest

RESULTS = Path(__file__).parent / "results" / "coefficients.json"
M, DISCOUNT, INTERVAL = 50, 0.9, (-2.0, 2.0)
SPAN = bs.ReturnRange(-10.0, 10.0)
FEATURES = bs.Sigmoid.from_range(SPAN, M)
MU = bs.measures.Uniform(SPAN.expand(0.2).low, SPAN.expand(0.2).high)
NEW = np.random.default_rng(1).uniform(*INTERVAL, 1_000)
"""Rewards nobody has seen before."""
HIDDEN, STEPS, BATCH, EXAMPLES = 128, 6_000, 64, 1_000
"""The network's two hidden layers; batches and steps of its training; rewards it is fitted at, for the first way."""

Coefficients = tuple[Any, Any]
"""A and c of several rewards, [b, m, m] and [b, m]."""
Parameters = list[tuple[jax.Array, jax.Array]]


def fit_each(rewards: np.ndarray, source: bs.JustInTimeCoefficients) -> Coefficients:
    pairs = [source.at(reward, DISCOUNT) for reward in rewards]
    return np.stack([matrix for matrix, _ in pairs]), np.stack([offset for _, offset in pairs])


def largest_error(coefficients: Callable[[np.ndarray], Coefficients]) -> float:
    """sup |φ(r + γg) − A_r φ(g) − c_r| over 201 rewards and 2,001 returns."""
    rewards, returns = np.linspace(*INTERVAL, 201), np.linspace(MU.low, MU.high, 2_001)
    matrices, offsets = (np.asarray(part, dtype=np.float64) for part in coefficients(rewards))
    phi = FEATURES(returns)
    gaps = (
        FEATURES(r + DISCOUNT * returns) - phi @ a.T - c for r, a, c in zip(rewards, matrices, offsets, strict=True)
    )
    return float(max(np.abs(gap).max() for gap in gaps))


def fixed_point(coefficients: Callable[[np.ndarray], Coefficients]) -> np.ndarray:
    """Of Sketch-DP on five states with random transitions and rewards in [−1, 1], whose returns lie in [−10, 10]."""
    rng = np.random.default_rng(2)
    transitions, rewards = rng.dirichlet(np.ones(5), 5), rng.uniform(-1, 1, 5)
    matrices, offsets = (np.asarray(part, dtype=np.float64) for part in coefficients(rewards))
    backup = np.einsum("xij,xy->xiyj", matrices, transitions).reshape(5 * M, 5 * M)
    return np.linalg.solve(np.eye(5 * M) - backup, offsets.ravel()).reshape(5, M)


def initialise(key: jax.Array) -> Parameters:
    """Layers of 1 → 128 → 128 → m² + m; the last one starts at 0."""
    keys, widths = jax.random.split(key), (1, HIDDEN, HIDDEN)
    layers = [
        (jax.random.normal(k, (i, o)) / np.sqrt(i), jax.random.normal(k, (o,)))
        for k, i, o in zip(keys, widths, widths[1:], strict=False)
    ]
    return [*layers, (jnp.zeros((HIDDEN, M * M + M)), jnp.zeros(M * M + M))]


def network(parameters: Parameters, rewards: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A and c of a batch of rewards."""
    *hidden, (weights, bias) = parameters
    x = rewards[:, None] / INTERVAL[1]
    for w, b in hidden:
        x = jnp.tanh(x @ w + b)
    output = x @ weights + bias
    return output[:, : M * M].reshape(-1, M, M), output[:, M * M :]


def train(loss: Callable[[Parameters, jax.Array], jax.Array], start: Parameters) -> Parameters:
    """Adam with a cosine schedule from 1e-3; of 3e-4 … 1e-2 within 15% of the best in 1,000 steps for either loss."""
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-3, STEPS))

    @jax.jit
    def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        parameters, state = carry
        updates, state = optimiser.update(jax.grad(loss)(parameters, key), state)
        return (optax.apply_updates(parameters, updates), state), None

    keys = jax.random.split(jax.random.key(0), STEPS)
    (parameters, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), keys)
    return jax.block_until_ready(parameters)


def on_coefficients(source: bs.JustInTimeCoefficients) -> Parameters:
    """Trained on fitted coefficients, in units of their standard deviations; starts at their mean."""
    rewards = np.random.default_rng(0).uniform(*INTERVAL, EXAMPLES)
    matrices, offsets = (jnp.asarray(part, jnp.float32) for part in fit_each(rewards, source))
    inputs = jnp.asarray(rewards, jnp.float32)
    *hidden, (weights, _) = initialise(jax.random.key(1))
    mean = jnp.concatenate([matrices.mean(axis=0).ravel(), offsets.mean(axis=0)])

    def loss(parameters: Parameters, key: jax.Array) -> jax.Array:
        batch = jax.random.choice(key, EXAMPLES, (BATCH,))
        a, c = network(parameters, inputs[batch])
        return jnp.mean((a - matrices[batch]) ** 2) / matrices.var() + jnp.mean((c - offsets[batch]) ** 2)

    return train(loss, [*hidden, (weights, mean)])


def on_regression() -> Parameters:
    """Trained on the regression itself: the mean of ‖φ(r + γg) − A_r φ(g) − c_r‖² over rewards and returns."""

    def loss(parameters: Parameters, key: jax.Array) -> jax.Array:
        key_r, key_g = jax.random.split(key)
        rewards = jax.random.uniform(key_r, (BATCH,), minval=INTERVAL[0], maxval=INTERVAL[1])
        returns = jax.random.uniform(key_g, (BATCH, BATCH), minval=MU.low, maxval=MU.high)
        a, c = network(parameters, rewards)
        predicted = jnp.einsum("bij,bnj->bni", a, FEATURES(returns)) + c[:, None]
        return jnp.mean((FEATURES(rewards[:, None] + DISCOUNT * returns) - predicted) ** 2)

    return train(loss, initialise(jax.random.key(1)))


def timed(f: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return f(), time.perf_counter() - start


def just_in_time() -> dict[str, dict[str, Any]]:
    """A reward met for the first time, and met again."""
    source, setup = timed(lambda: bs.JustInTimeCoefficients(FEATURES, MU))
    fit_each(NEW[:1] + 1e-3, source)  # compiles φ
    _, cold = timed(lambda: fit_each(NEW, source))
    warm = shortest(lambda: [source.at(reward, DISCOUNT) for reward in NEW], 3)
    row = {"setup_seconds": setup, "coefficients": lambda r: fit_each(r, source)}
    return {
        "fitted just in time": row | {"seconds": cold / NEW.size, "stored": M * M + M},
        "met again": row | {"seconds": warm / NEW.size, "stored": NEW.size * (M * M + M)},
    }


def interpolated() -> dict[str, Any]:
    """In float64, as just in time."""
    found, setup = timed(lambda: bs.interpolate_coefficients(FEATURES, MU, INTERVAL, DISCOUNT))
    many = jax.jit(lambda found, rewards: jax.lax.map(found.at, rewards, batch_size=20))  # nodes of all would not fit

    def coefficients(rewards: np.ndarray) -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(many(found, jnp.asarray(rewards)))

    seconds = shortest(lambda: coefficients(NEW), 3) / NEW.size
    stored = found.matrices.size + found.offsets.size
    return {"setup_seconds": setup, "seconds": seconds, "stored": stored, "coefficients": coefficients}


def learned(make: Callable[[], Parameters]) -> dict[str, Any]:
    """In float32."""
    parameters, setup = timed(make)
    many = jax.jit(network)

    def coefficients(rewards: np.ndarray) -> Any:
        return jax.block_until_ready(many(parameters, jnp.asarray(rewards, jnp.float32)))

    seconds = shortest(lambda: coefficients(NEW), 3) / NEW.size
    stored = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    return {"setup_seconds": setup, "seconds": seconds, "stored": stored, "coefficients": coefficients}


def main() -> None:
    source = bs.JustInTimeCoefficients(FEATURES, MU)
    rows: dict[str, dict[str, Any]] = just_in_time() | {
        "interpolated": interpolated(),
        "network on fitted coefficients": learned(lambda: on_coefficients(source)),
        "network on the regression": learned(on_regression),
    }
    exact = fixed_point(lambda r: fit_each(r, source))
    table = Table("", "set-up", "per reward", "largest error", "fixed point off by", "stored numbers")
    for name, row in rows.items():
        coefficients = row.pop("coefficients")
        row["largest_error"] = largest_error(coefficients)
        row["fixed_point_error"] = float(np.abs(fixed_point(coefficients) - exact).max())
        times = f"{row['setup_seconds']:.2g} s", f"{1e6 * row['seconds']:.3g} µs"
        errors = f"{row['largest_error']:.2g}", f"{row['fixed_point_error']:.2g}"
        table.add_row(name, *times, *errors, f"{row['stored']:,}")
    Console(width=120).print(table)
    versions = {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__}
    versions["optax"] = optax.__version__
    record = {"command": "OMP_NUM_THREADS=1 python benchmarks/coefficients.py", "date": time.strftime("%Y-%m-%d")}
    record |= {"versions": versions, "machine": "1 thread of 2 CPU cores", "results": rows}
    RESULTS.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
