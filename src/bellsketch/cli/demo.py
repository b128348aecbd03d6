"""``bellsketch demo``."""

import dataclasses
import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

from bellsketch.experiments.walk_through import plot_walk_through, walk_through


@dataclasses.dataclass(frozen=True)
class Demo:
    """The paper's walk-through in seconds: return distributions learned in sketch space, next to the truth.

    Example: bellsketch demo --out runs/demo
    """

    out: Path = Path("runs/demo")
    """Directory for the figure."""

    def __call__(self) -> None:
        start = time.perf_counter()
        console = Console()
        console.print("Sketch-DP on the loopy fork: 13 features, 200 backups U ← E[A_R U(X') + c_R].\n", markup=False)
        runs = [walk_through(jax.random.key(0), name) for name in ("fourier", "sigmoid")]
        table = Table("", *(run.name for run in runs))
        rows = {
            "largest regression error": [f"{r.max_regression_error:.1e}" for r in runs],
            "spectral radius": [f"{r.spectral_radius:.3f}" for r in runs],
            "embedding error ‖U − U^π‖": [f"{r.embedding_sq_error**0.5:.1e}" for r in runs],
            "  its certified bound": [f"{r.bound:.1e}" for r in runs],
            "Cramér distance, decoded onto 13 atoms": [f"{r.cramer:.1e}" for r in runs],
            "variance in two components": [f"{r.principal_components()[2]:.1%}" for r in runs],
        }
        for label, values in rows.items():
            table.add_row(label, *values)
        console.print(table)
        self.out.mkdir(parents=True, exist_ok=True)
        figure = plot_walk_through(runs)
        path = self.out / "walk_through.png"
        figure.savefig(path, dpi=110)
        plt.close(figure)
        console.print(f"\nErrors are the largest over states. Figure: {path}  ({time.perf_counter() - start:.0f} s)")
