"""How fast the core is, as ratios within one run: machines are noisy, ratios less so.

python benchmarks/core.py            prints a table and writes benchmarks/results/core.json
"""

import json
import platform
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

import bellsketch as bs
from bellsketch.experiments.stopwatch import shortest

RESULTS = Path(__file__).parent / "results" / "core.json"


def coefficients() -> dict[str, float]:
    """m = 401, 10⁵ grid points, 3 rewards × 2 discounts, against evaluating φ once and forming ΦᵀΦ."""
    features = bs.Sigmoid(np.linspace(-12, 12, 401), 10.0)
    mu = bs.ReturnRange(-10.0, 10.0).grid(100_000, margin=0.0)

    def bare() -> Any:
        design = features(mu.locations)
        return design.T @ design

    fit = shortest(lambda: bs.fit_coefficients(features, mu, [-1.0, 0.0, 1.0], [0.99, 0.0]), 3)
    return {
        "seconds": fit,
        "reference_seconds": (reference := shortest(bare, 3)),
        "ratio": fit / reference,
        "limit": 8.0,
    }


def imputation() -> dict[str, float]:
    """m = n = 100, against SciPy's SLSQP with gradients run to the same objective."""
    mrp = bs.environments.make("loopy_fork")
    solution = bs.solve(mrp, num_features=100, return_range=(-3.7, 3.7))
    decoder = bs.anchor_decoder(solution.features, solution.return_range)
    design, target = solution.features(decoder.support), solution.sketch[0]
    gram, linear = design @ design.T + decoder.tie_break * np.eye(100), design @ target

    def objective(p: np.ndarray) -> float:
        return float(p @ gram @ p / 2 - linear @ p)

    ours = shortest(lambda: decoder(target))
    goal = objective(np.asarray(decoder(target).probabilities))
    slsqp = None
    for tolerance in 10.0 ** -np.arange(6, 17):
        start = time.perf_counter()
        result = minimize(
            objective,
            np.full(100, 0.01),
            jac=lambda p: gram @ p - linear,
            bounds=[(0, 1)] * 100,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones_like(p)},
            method="SLSQP",
            options={"ftol": tolerance, "maxiter": 10_000},
        )
        slsqp = time.perf_counter() - start
        if objective(result.x) <= goal + 1e-12:
            break
    return {
        "seconds": ours,
        "reference_seconds": float(slsqp or np.nan),
        "ratio": float(slsqp or np.nan) / ours,
        "limit": 100.0,
        "objective_gap": objective(result.x) - goal,
    }


def iteration() -> dict[str, float]:
    """200 Sketch-DP iterations under jit, against the same loop in NumPy."""
    mrp = bs.environments.make("random_chain")
    solution = bs.solve(mrp, num_features=100, return_range=(0.0, 4.5))
    operator = solution.operator
    device = operator.on_device()
    start = np.tile(solution.features(0.0), (mrp.num_states, 1))

    @jax.jit
    def jitted(operator: bs.AffineOperator, sketch: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 200, lambda _, u: operator(u), sketch)

    dense = operator.mixing.toarray()

    def in_numpy() -> np.ndarray:
        sketch = start
        for _ in range(200):
            mixed = dense @ sketch
            parts = [mixed[a:b] @ operator.matrices[r].T for r, a, b in operator.groups]
            sketch = np.concatenate([*parts, np.zeros((1, 100))])[operator.pairs].sum(axis=1) + operator.offset
        return sketch

    with jax.enable_x64(True):
        device = jax.tree.map(jax.numpy.asarray, device)
        sketch = jax.numpy.asarray(start)
        np.testing.assert_allclose(np.asarray(jitted(device, sketch)), in_numpy(), atol=1e-10)
        ours = shortest(lambda: jitted(device, sketch).block_until_ready(), 20)
    reference = shortest(in_numpy, 20)
    return {"seconds": ours, "reference_seconds": reference, "ratio": reference / ours, "limit": 1.0}


def main() -> None:
    rows = {
        "coefficients over bare φ and ΦᵀΦ (≤)": coefficients(),
        "SLSQP over imputation, m = 100 (≥)": imputation(),
        "NumPy loop over jitted Sketch-DP (≥)": iteration(),
    }
    table = Table("benchmark", "ours", "reference", "ratio", "wanted")
    for name, row in rows.items():
        table.add_row(
            name,
            f"{1e3 * row['seconds']:.3g} ms",
            f"{1e3 * row['reference_seconds']:.3g} ms",
            f"{row['ratio']:.3g}",
            f"{row['limit']:g}",
        )
    Console().print(table)
    versions = {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__}
    versions["scipy"] = scipy.__version__
    RESULTS.parent.mkdir(exist_ok=True)
    record = {"command": "python benchmarks/core.py", "date": time.strftime("%Y-%m-%d"), "versions": versions}
    RESULTS.write_text(
        json.dumps(record | {"machine": "2 CPU cores", "results": rows}, indent=2, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
