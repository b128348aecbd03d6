"""Products with Bellman coefficients in the form that is chosen for them, against the dense product in the same run.

OMP_NUM_THREADS=1 python benchmarks/structure.py     prints a table and writes benchmarks/results/structure.json
"""

import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy
from rich.console import Console
from rich.table import Table

import bellsketch as bs
from bellsketch.core.structure import Dense, choose_form

RESULTS = Path(__file__).parent / "results" / "structure.json"
SIZES = (50, 100, 200, 401, 1000)
TOLERANCES = (None, 1e-6, 1e-3)
NUM_ROWS = 20_000
SPAN = bs.ReturnRange(-10.0, 10.0)


def coefficients(m: int) -> Iterator[tuple[str, np.ndarray]]:
    """A for reward 1 of several feature maps, by name; at discount 0.9 but in the Atari setting."""
    grid = SPAN.grid()
    bins = bs.Bins.from_range(SPAN, m)
    yield "bins, no intercept", fit(bins, grid, intercept="none")
    yield "bins", fit(bins, grid)
    yield "bins, overlap 2", fit(bs.Bins.from_range(SPAN, m, overlap=2), grid)
    slopes = {
        "5": 5.0,
        "10": 10.0,
        "m/10": m / 10,
    }  # with the last, bumps reach the same number of neighbours for any m
    for family in (bs.Parabolic, bs.Gaussian):
        for label, factor in slopes.items():
            features = family.from_range(SPAN, m, slope_factor=factor)
            yield f"{family.__name__.lower()}, slope × {label}", fit(features, grid)
    yield "sigmoid", fit(bs.Sigmoid.from_range(SPAN, m), grid)
    if m == 401:
        yield (
            "sigmoid, Atari setting",
            fit(bs.Sigmoid(np.linspace(-12, 12, m), 10.0), SPAN.grid(100_000, margin=0.0), discount=0.99),
        )


def fit(features: bs.FeatureMap, mu: Any, *, discount: float = 0.9, intercept: str = "free") -> np.ndarray:
    return np.asarray(bs.fit_coefficients(features, mu, [1.0], [discount], intercept=intercept).at(1.0, discount)[0])


def in_turns(*functions: Callable[[], Any], repeats: int = 4) -> list[float]:
    """The shortest time of each, taken in turns so that what else the machine does befalls all of them."""
    times = np.full((repeats, len(functions)), np.inf)
    for i in range(repeats):
        for j, f in enumerate(functions):
            start = time.perf_counter()
            f()
            times[i, j] = time.perf_counter() - start
    return [float(t) for t in times.min(axis=0)]


def measure(matrix: np.ndarray, rows: np.ndarray, tolerance: float | None) -> dict[str, Any]:
    """The chosen form of one matrix, how long choosing took, and its product times relative to dense ones."""
    start = time.perf_counter()
    form = choose_form(matrix, tolerance)
    row: dict[str, Any] = {"form": form.description, "error": form.error, "predicted_ratio": form.cost}
    row["choosing_seconds"] = time.perf_counter() - start
    if isinstance(form, Dense):
        return row
    for dtype in (np.float64, np.float32):
        dense, x = matrix.astype(dtype), rows.astype(dtype)
        ours, reference = in_turns(lambda x=x: form(x), lambda x=x, dense=dense: x @ dense.T)
        row[dtype.__name__] = {"seconds": ours, "dense_seconds": reference, "ratio": ours / reference}
    return row


def main() -> None:
    results = []
    table = Table("m", "features", "tolerance", "form", "error", "predicted", "float64", "float32")
    for m in SIZES:
        rows = np.random.default_rng(0).random((NUM_ROWS, m))
        for name, matrix in coefficients(m):
            for tolerance in TOLERANCES:
                row = measure(matrix, rows, tolerance)
                results.append({"m": m, "features": name, "tolerance": tolerance} | row)
                ratios = [f"{row[d]['ratio']:.2f}" if d in row else "" for d in ("float64", "float32")]
                numbers = [f"{row['error']:.1e}", f"{row['predicted_ratio']:.2f}", *ratios]
                table.add_row(str(m), name, f"{tolerance or 'rounding'}", row["form"], *numbers)
    Console(width=150).print(table)
    versions = {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__}
    versions["scipy"] = scipy.__version__
    record = {"command": "OMP_NUM_THREADS=1 python benchmarks/structure.py", "date": time.strftime("%Y-%m-%d")}
    record |= {"versions": versions, "machine": "1 thread of 2 CPU cores", "num_rows": NUM_ROWS}
    RESULTS.write_text(json.dumps(record | {"results": results}, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
