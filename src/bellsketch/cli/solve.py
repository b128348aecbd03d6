"""``bellsketch solve``."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated, Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.regression import Intercept
from bellsketch.experiments.evaluation import PAPER_JITTERS, Errors, evaluate, jittered_decoders
from bellsketch.tabular import environments
from bellsketch.tabular.fixed_point import TOLERANCE
from bellsketch.tabular.ground_truth import ground_truth
from bellsketch.tabular.solve import Decoding, Method, Precision, Solution, solve

LEVELS = (0.05, 0.5, 0.95)
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclasses.dataclass(frozen=True)
class Solve:
    """Return distributions of all states of an environment, by Sketch-DP.

    Example: bellsketch solve random_chain --truth --plot chain.png
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")]
    """One of the paper's environments, such as random_chain or tree_gaussian."""
    features: str = "sigmoid"
    """Feature family."""
    num_features: int = 50
    """m, the number of features."""
    slope_factor: float = 1.0
    """Multiplies the family's default slope."""
    intercept: Intercept = "free"
    """free, or the paper's forms: penalised, none."""
    ridge: float = 1e-9
    """Penalty of the regression."""
    method: Method = "solve"
    """solve the linear system of the fixed point (by dense LU or a krylov method), or iterate."""
    iterations: int | None = None
    """At most so many; by default as many as the residual asks for."""
    residual: float = TOLERANCE
    """Stop when a backup changes no state's sketch by more than this."""
    precision: Precision = "float64"
    """float32 halves the memory of sketches."""
    decode: Decoding = "fine"
    """fine, or the paper's jittered anchors."""
    discount: float = environments.DISCOUNT
    """γ."""
    seed: int = 0
    """For the Monte Carlo estimate of the return range, and for jitters."""
    truth: bool = False
    """Also compute the true distributions and the errors. Anchors are jittered 100 times, as in the paper."""
    plot: Path | None = None
    """Write a picture of the distributions to this file."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def __call__(self) -> None:
        mrp = environments.make(self.environment, self.discount)
        solution = solve(
            mrp,
            features=self.features,
            num_features=self.num_features,
            slope_factor=self.slope_factor,
            intercept=self.intercept,
            ridge=self.ridge,
            method=self.method,
            iterations=self.iterations,
            residual=self.residual,
            precision=self.precision,
            decode=self.decode,
            seed=self.seed,
            progress=not self.json,
        )
        truth = ground_truth(mrp) if self.truth else None
        errors = None
        if truth is not None:
            key = jax.random.key(self.seed)
            decoders = [solution.decoder]
            if self.decode == "anchors":
                decoders = jittered_decoders(key, solution.features, solution.return_range, PAPER_JITTERS)
            errors = evaluate(solution.sketch, truth, decoders).averaged()
        if self.plot is not None:
            figure = solution.plot(truth)
            self.plot.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(self.plot, dpi=120)
            plt.close(figure)
        if self.json:
            print(json.dumps(self._record(solution, errors), allow_nan=False))
        else:
            self._show(solution, errors)

    def _record(self, solution: Solution, errors: Errors | None) -> dict[str, Any]:
        record: dict[str, Any] = {
            "environment": self.environment,
            "features": self.features,
            "num_features": self.num_features,
            "intercept": self.intercept,
            "method": self.method,
            "decode": self.decode,
            "discount": self.discount,
            "ridge": self.ridge,
            "slope_factor": self.slope_factor,
            "seed": self.seed,
            "return_range": [solution.return_range.low, solution.return_range.high],
            "mean": solution.mean.tolist(),
            "quantile_levels": list(LEVELS),
            "quantiles": solution.distributions.quantile(np.array(LEVELS)).tolist(),
            "max_regression_error": solution.coefficients.max_error,
            "operator_norm": solution.coefficients.operator_norm,
            "spectral_radius": solution.operator.spectral_radius(),
            "fixed_point": {
                "method": solution.fixed_point.method,
                "iterations": solution.fixed_point.iterations,
                "residual": solution.fixed_point.residual,
                "seconds": solution.fixed_point.seconds,
                "structure": solution.operator.structure,
            },
            "certificate": {
                name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in dataclasses.asdict(solution.certificate).items()
            },
        }
        if errors is not None:
            record |= {name: float(np.max(value)) for name, value in dataclasses.asdict(errors).items()}
        return record

    def _show(self, solution: Solution, errors: Errors | None) -> None:
        console = Console()
        distributions = solution.distributions
        title = f"{self.environment}, {self.num_features} {self.features} features, γ = {self.discount}"
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        picture_width = max(10, min(console.width, 110) - (46 if errors is None else 64))
        quantiles = distributions.quantile(np.array(LEVELS))
        low, high = float(quantiles[:, 0].min()), float(quantiles[:, -1].max())
        pad = 0.15 * (high - low) or max(0.1 * abs(low), 0.5)
        low, high = low - pad, high + pad
        for name in ("state", "mean", *(f"{level:.0%}" for level in LEVELS)):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column(f"from {low:.2f} to {high:.2f}", no_wrap=True)
        if errors is not None:
            table.add_column("‖ΔU‖²", justify="right", no_wrap=True)
            table.add_column("Cramér", justify="right", no_wrap=True)
        for x in range(solution.mrp.num_states):
            cells = [str(x), f"{solution.mean[x]:.3f}", *(f"{q:.3f}" for q in quantiles[x])]
            cells.append(text_histogram(distributions[x], low, high, picture_width))
            if errors is not None:
                cells += [f"{errors.embedding_sq_error[x]:.1e}", f"{errors.cramer[0, x]:.1e}"]
            table.add_row(*cells)
        console.print(table)
        certificate, found = solution.certificate, solution.fixed_point
        console.print(
            f"fixed point by {found.method}: {found.iterations} iterations, residual {found.residual:.1e},"
            f" {found.seconds:.2g} s; products with coefficients: {solution.operator.structure}"
        )
        console.print(
            f"largest regression error {solution.coefficients.max_error:.1e}, operator norm"
            f" {solution.coefficients.operator_norm:.3f}, spectral radius {solution.operator.spectral_radius():.3f}"
        )
        if certificate.reason:
            verdict = "a certificate that says nothing" if math.isfinite(certificate.bound) else "no certificate"
            console.print(f"{verdict}: {certificate.reason}")
        else:
            console.print(f"certified: all sketches within {certificate.bound:.1e} of the truth ({certificate.method})")
        if self.plot is not None:
            console.print(f"figure: {self.plot}")


def text_histogram(distribution: AtomicDistribution, low: float, high: float, width: int) -> str:
    """The distribution as a line of block characters from low to high."""
    edges = np.linspace(low, high, width + 1)
    mass, _ = np.histogram(distribution.locations, bins=edges, weights=distribution.probabilities)
    # The square root keeps small masses visible beside large ones.
    heights = np.sqrt(mass / max(mass.max(), 1e-12)) * (len(BLOCKS) - 1)
    return "".join(BLOCKS[int(np.ceil(h - 1e-6)) if h > 0.15 else 0] for h in heights)
