"""``bellsketch solve``."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tyro
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from bellsketch.cli.pictures import check_picture
from bellsketch.core.distributions import AtomicDistribution
from bellsketch.core.regression import Intercept
from bellsketch.experiments.evaluation import PAPER_JITTERS, Errors, evaluate, jittered_decoders
from bellsketch.tabular.answers import Questions, answers, bootstrap_answers
from bellsketch.tabular.fixed_point import TOLERANCE
from bellsketch.tabular.ground_truth import ground_truth
from bellsketch.tabular.models.load import load_log, load_model
from bellsketch.tabular.solve import Decoding, Method, Precision, Solution, solve

LEVELS = (0.05, 0.5, 0.95)
BLOCKS = " ▁▂▃▄▅▆▇█"
ACTION = "action"
LOW, HIGH = ", from", ", to"
"""Of columns with the ends of intervals."""
SHOWN = 60
"""States in the table."""
LEAST_PICTURE = 12
"""Characters below which a picture shows nothing."""


@dataclasses.dataclass(frozen=True)
class Solve:
    """Return distributions of all states of a model, by Sketch-DP, and what they mean: spread, quantiles, risk.

    Examples: bellsketch solve random_chain --truth --plot chain.png; bellsketch solve my.toml --below 0 --csv my.csv;
    bellsketch solve log.csv --discount 0.95; bellsketch solve gym:FrozenLake-v1 --policy optimal
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")]
    """One of the paper's environments, such as random_chain; a file: .toml, .npz, or .csv with a log of transitions
    (state, reward, next_state); or one of Gymnasium's that has a table, such as gym:FrozenLake-v1."""
    policy: str | None = None
    """What to do in models with actions: uniform, optimal; default: what the file says."""
    risk: str = "mean"
    """What the optimal policy is greedy in: mean; or, without a memory of what was received, cvar:0.1, exceeds:3,
    utility:0.5."""
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
    discount: float | None = None
    """γ; default: the file's, or 0.9."""
    cvar: float = 0.05
    """The share of worst returns whose mean is shown."""
    below: float | None = None
    """Also show the probability of a return below this."""
    entropic: float | None = None
    """Also show the entropic risk −log E[exp(−kG)]/k for this k."""
    bootstrap: int = 100
    """Of a log: other logs to draw for the 95% interval of every answer; 0: none."""
    csv: Path | None = None
    """Write the answers of all states to this file."""
    distributions: Path | None = None
    """Write the distributions of all states to this file: a line for each state and return, with its probability."""
    seed: int = 0
    """For the Monte Carlo estimate of the return range, for jitters, and for drawing other logs."""
    truth: bool = False
    """Also compute the true distributions and the errors. Anchors are jittered 100 times, as in the paper."""
    plot: Path | None = None
    """Write a picture of the distributions to this file."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def __call__(self) -> None:
        if self.plot is not None:
            check_picture("plot", self.plot)
        model = load_model(self.environment, discount=self.discount, policy=self.policy, risk=self.risk)
        mrp = model.mrp
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
            figure.savefig(_in_its_folder(self.plot), dpi=120)
            plt.close(figure)
        if self.distributions is not None:
            _long_table(model.names, solution.distributions).to_csv(_in_its_folder(self.distributions), index=False)
        table = answers(solution, Questions(LEVELS, self.cvar, self.below, self.entropic))
        table.insert(0, "state", list(model.names))
        if model.actions:
            table.insert(1, ACTION, list(model.actions))
        table = pd.concat([table, *self._intervals(solution)], axis=1)
        if self.csv is not None:
            table.to_csv(_in_its_folder(self.csv), index=False)
        if self.json:
            print(json.dumps(self._record(solution, errors, table), allow_nan=False))
        else:
            self._show(solution, errors, table)

    def _intervals(self, solution: Solution) -> list[pd.DataFrame]:
        """Ends of the interval of every answer, if the model was estimated from a log."""
        if Path(self.environment).suffix != ".csv" or not self.bootstrap:
            return []
        questions = Questions(LEVELS, self.cvar, self.below, self.entropic)
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=self.json) as bar:
            task = bar.add_task("other logs", total=self.bootstrap)
            low, high = bootstrap_answers(
                load_log(self.environment),
                solution,
                questions,
                seed=self.seed,
                num=self.bootstrap,
                report=lambda done, total: bar.update(task, completed=done),
            )
        return [low.add_suffix(LOW), high.add_suffix(HIGH)]

    def _record(self, solution: Solution, errors: Errors | None, table: pd.DataFrame) -> dict[str, Any]:
        record: dict[str, Any] = {
            "environment": self.environment,
            "features": self.features,
            "num_features": self.num_features,
            "intercept": self.intercept,
            "method": self.method,
            "decode": self.decode,
            "discount": solution.mrp.discount,
            "ridge": self.ridge,
            "slope_factor": self.slope_factor,
            "seed": self.seed,
            "return_range": [solution.return_range.low, solution.return_range.high],
            "states": table["state"].tolist(),
            "answers": {
                name: [_finite(number) for number in table[name].tolist()]
                for name in table.columns
                if name not in ("state", ACTION)
            },
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
            "certificate": {name: _finite(value) for name, value in dataclasses.asdict(solution.certificate).items()},
        }
        if ACTION in table:
            record |= {"risk": self.risk, "actions": table[ACTION].tolist()}
        if errors is not None:
            record |= {name: float(np.max(value)) for name, value in dataclasses.asdict(errors).items()}
        return record

    def _show(self, solution: Solution, errors: Errors | None, found: pd.DataFrame) -> None:
        console = Console()
        console.print(self._table(console, solution, errors, found))
        if solution.mrp.num_states > SHOWN:
            console.print(f"… and {solution.mrp.num_states - SHOWN:,} more states; --csv FILE has all")
        if self.risk != "mean":
            console.print(
                f"the policy is greedy in {self.risk} of what is still to come; best_with_stock in Python also looks at"
                " what was received before"
            )
        certificate, fixed = solution.certificate, solution.fixed_point
        console.print(
            f"fixed point by {fixed.method}: {fixed.iterations} iterations, residual {fixed.residual:.1e},"
            f" {fixed.seconds:.2g} s; products with coefficients: {solution.operator.structure}"
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

    def _table(self, console: Console, solution: Solution, errors: Errors | None, found: pd.DataFrame) -> Table:
        distributions = solution.distributions
        title = f"{self.environment}, {self.num_features} {self.features} features, γ = {solution.mrp.discount:g}"
        table = Table(title=escape(title), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        plain = [name for name in found.columns if not name.endswith((LOW, HIGH))]
        shown = range(min(len(found), SHOWN))
        for columns in (plain, [name for name in plain if name != "sd" and not name.startswith("CVaR")]):
            cells = [[escape(found["state"][x]), *(_cell(found, name, x) for name in columns[1:])] for x in shown]
            pairs = zip(columns, zip(*cells, strict=True), strict=True)
            widths = [max(map(cell_len, (name, *column))) for name, column in pairs]
            room = min(console.width, 130) - sum(widths) - 2 * len(widths) - (3 if errors is None else 24)
            if room >= LEAST_PICTURE:  # or a narrow terminal shows fewer columns, and the files have all
                break
        quantiles = distributions.quantile(np.array(LEVELS))
        low, high = float(quantiles[:, 0].min()), float(quantiles[:, -1].max())
        pad = 0.15 * (high - low) or max(0.1 * abs(low), 0.5)
        low, high = low - pad, high + pad
        for name, width in zip(columns, widths, strict=True):
            table.add_column(name, justify="right", min_width=width, no_wrap=True)
        if room >= LEAST_PICTURE:
            table.add_column(f"from {low:.2f} to {high:.2f}", no_wrap=True)
        if errors is not None:
            table.add_column("‖ΔU‖²", justify="right", no_wrap=True)
            table.add_column("Cramér", justify="right", no_wrap=True)
        for x in shown:
            row = cells[x]
            if room >= LEAST_PICTURE:
                row.append(text_histogram(distributions[x], low, high, room))
            if errors is not None:
                row += [f"{errors.embedding_sq_error[x]:.1e}", f"{errors.cramer[0, x]:.1e}"]
            table.add_row(*row)
        return table


def _in_its_folder(path: Path) -> Path:
    """Which is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _long_table(names: Sequence[str], distributions: AtomicDistribution) -> pd.DataFrame:
    """A row for each state and return that has a probability."""
    locations = np.broadcast_to(distributions.locations, distributions.probabilities.shape)
    states = np.repeat(np.array(names, dtype=object), locations.shape[1])
    columns = {"state": states, "return": locations.ravel(), "probability": distributions.probabilities.ravel()}
    table = pd.DataFrame(columns)
    return table[table["probability"] > 0]


def _finite(value: Any) -> Any:
    """None for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(found: pd.DataFrame, name: str, x: int) -> str:
    """A number, with its interval below it if it has one."""
    if name == ACTION:
        return escape(found[name][x])
    number = f"{found[name][x]:.3f}"
    if name + LOW not in found:
        return number
    return f"{number}\n[dim]{found[name + LOW][x]:.2f} to {found[name + HIGH][x]:.2f}[/]"


def text_histogram(distribution: AtomicDistribution, low: float, high: float, width: int) -> str:
    """The distribution as a line of block characters from low to high."""
    edges = np.linspace(low, high, width + 1)
    mass, _ = np.histogram(distribution.locations, bins=edges, weights=distribution.probabilities)
    # The square root keeps small masses visible beside large ones.
    heights = np.sqrt(mass / max(mass.max(), 1e-12)) * (len(BLOCKS) - 1)
    return "".join(BLOCKS[int(np.ceil(h - 1e-6)) if h > 0.15 else 0] for h in heights)
