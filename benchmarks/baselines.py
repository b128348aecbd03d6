"""Time per iteration of Sketch-DP against expectile SFDP, in the paper's form and in ours, in one run.

python benchmarks/baselines.py       prints a table and writes benchmarks/results/baselines.json
"""

import json
import platform
import time
from pathlib import Path

import jax
import numpy as np
import scipy
from rich.console import Console
from rich.table import Table

import bellsketch as bs
from bellsketch.experiments.compare import METHODS
from bellsketch.tabular.expectile import expectile_dp

RESULTS = Path(__file__).parent / "results" / "baselines.json"
ENVIRONMENTS = ("random_chain", "loopy_fork", "tree")
NUM = 50


def seconds_per_iteration(algorithm: bs.Algorithm, steps: int, warm_up: int = 0) -> float:
    """Of one compiled scan, after ``warm_up`` steps to leave the trivial start."""
    key = jax.random.key(0)
    state = bs.run(key, algorithm, warm_up, record_every=max(warm_up, 1)).state if warm_up else None
    bs.run(key, algorithm, steps, state=state, record_every=steps)
    start = time.perf_counter()
    bs.run(key, algorithm, steps, state=state, record_every=steps)
    return (time.perf_counter() - start) / steps


def main() -> None:
    rows = {}
    for name in ENVIRONMENTS:
        mrp = bs.environments.make(name)
        span = bs.estimate_return_range(jax.random.key(0), mrp)
        sketch = seconds_per_iteration(METHODS["sketch (fine)"](mrp, NUM, span), 2_000)
        ours = seconds_per_iteration(expectile_dp(mrp, NUM), 100, warm_up=20)
        # One iteration of the paper's form takes seconds: time a single one, from where ours has got to.
        state = bs.run(jax.random.key(0), expectile_dp(mrp, NUM), 20).state
        papers = expectile_dp(mrp, NUM, imputation="scipy")
        start = time.perf_counter()
        bs.run(jax.random.key(0), papers, 1, state=state)
        scipy_seconds = time.perf_counter() - start
        rows[name] = {
            "sketch": sketch,
            "expectile": ours,
            "expectile (scipy)": scipy_seconds,
            "ratio": ours / sketch,
            "ratio (scipy)": scipy_seconds / sketch,
        }
    table = Table("environment", "Sketch-DP", "SFDP, ours", "SFDP, paper's", "ours / sketch", "paper's / sketch")
    for name, row in rows.items():
        times = [f"{1e6 * row[k]:.3g} µs" for k in ("sketch", "expectile", "expectile (scipy)")]
        table.add_row(name, *times, f"{row['ratio']:.3g}", f"{row['ratio (scipy)']:.3g}")
    Console().print(table)
    versions = {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__}
    versions["scipy"] = scipy.__version__
    RESULTS.parent.mkdir(exist_ok=True)
    record = {"command": "python benchmarks/baselines.py", "date": time.strftime("%Y-%m-%d"), "versions": versions}
    RESULTS.write_text(json.dumps(record | {"machine": "2 CPU cores", "num": NUM, "seconds": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
