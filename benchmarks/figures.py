"""``fig4`` at full scale, against the same sweep with SciPy's SLSQP for the imputation, extrapolated from one cell.

python benchmarks/figures.py [DIRECTORY]   computes the figure there, unless it is there, and writes
                                           benchmarks/results/figures.json
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import jax
import joblib
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

import bellsketch as bs
from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.problems import problem
from bellsketch.experiments.reproduce import reproduce
from bellsketch.experiments.sweeps import jitter_key

RESULTS = Path(__file__).parent / "results" / "figures.json"
CELL = ("random_chain", "sigmoid")
MAX_SKETCHES = 5
"""Timed at each m: one SLSQP run takes from milliseconds to seconds."""


def slsqp_seconds(num: int) -> float:
    """One imputation as the paper's text has it, onto jittered anchors: SLSQP at its defaults, with gradients."""
    case = problem(CELL[0])
    features = bs.make_features(CELL[1], case.return_range, num)
    decoder = bs.anchor_decoder(features, case.return_range, jitter_key(0, num))
    design = np.asarray(features(decoder.support))
    times = []
    for target in case.truth.embedding(features)[:: max(1, case.mrp.num_states // MAX_SKETCHES)][:MAX_SKETCHES]:
        start = time.perf_counter()
        minimize(
            lambda p, target=target: float(np.sum((p @ design - target) ** 2)),
            np.full(num, 1 / num),
            jac=lambda p, target=target: 2 * design @ (p @ design - target),
            bounds=[(0, 1)] * num,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones_like(p)},
            method="SLSQP",
        )
        times.append(time.perf_counter() - start)
    return float(np.mean(times))


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    reproduce(EXPERIMENTS["fig4"], out, scale="full")
    ours = json.loads((out / "config.json").read_text())["seconds"]
    records = pd.read_csv(out / "results.csv")
    sketches = records[records["method"] == "sketch"]
    states = sketches["environment"].map(lambda name: problem(name).mrp.num_states)
    counts = states.groupby(sketches["num_features"]).sum()
    each = {int(num): slsqp_seconds(int(num)) for num in counts.index}
    cores = joblib.cpu_count()
    theirs = sum(int(counts[num]) * seconds for num, seconds in each.items()) / cores
    table = Table("m", "imputations", "SLSQP, s each", "SLSQP in all, h on these cores")
    for num, seconds in each.items():
        table.add_row(str(num), str(counts[num]), f"{seconds:.3g}", f"{counts[num] * seconds / cores / 3600:.2f}")
    console = Console()
    console.print(table)
    console.print(f"fig4 --scale full: {ours:.0f} s; SLSQP alone {theirs:.0f} s; ratio {theirs / ours:.0f} (≥ 50)")
    record = {
        "command": "python benchmarks/figures.py",
        "date": time.strftime("%Y-%m-%d"),
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
        "machine": f"{cores} CPU cores",
        "imputations": {int(num): int(count) for num, count in counts.items()},
        "slsqp_seconds_each": each,
        "slsqp_seconds": theirs,
        "fig4_seconds": ours,
        "ratio": theirs / ours,
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
