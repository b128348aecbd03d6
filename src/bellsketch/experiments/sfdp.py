"""Sketch-DP against statistical functional DP: accuracy, time per iteration, time to set up."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.features import Sigmoid
from bellsketch.core.imputation import anchor_decoder, fine_decoder
from bellsketch.core.metrics import cramer
from bellsketch.experiments.claims import Claim
from bellsketch.experiments.evaluation import PAPER_JITTERS, evaluate, jittered_decoders
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.plotting import averages
from bellsketch.experiments.problems import DETERMINISTIC, Problem, problem, title
from bellsketch.experiments.sweeps import OURS, PAPER_ITERATIONS, PAPERS, jitter_key, jitter_rows
from bellsketch.tabular.algorithm import Algorithm, run
from bellsketch.tabular.expectile import expectile_dp
from bellsketch.tabular.sketch import SketchDP, sketch_dp

WHERE = "App. Comparison with SFDP"
SKETCH, FREE, FINE, SCIPY, BATCHED = (
    "Sketch-DP (the paper's)",
    "Sketch-DP, free intercept",
    "Sketch-DP, free intercept, fine decoding",
    "SFDP, SciPy (the paper's)",
    "SFDP, ours",
)
STYLES = {SKETCH: ("C0", "-"), FREE: ("C0", "--"), FINE: ("C2", "--"), SCIPY: ("C3", "-"), BATCHED: ("C3", "--")}
FLOOR = 1e-6
"""Particles can be exact; a distance below this is drawn here."""
TIMED_ITERATIONS = 2_000
"""Enough of Sketch-DP's microseconds to be measured."""
QUANTITIES = {
    "cramer": "Cramér distance",
    "excess_cramer": "excess Cramér",
    "seconds_per_iteration": "seconds per\niteration",
    "setup_seconds": "seconds to set up",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """One SciPy iteration takes seconds: its time is measured everywhere, its accuracy up to some m only."""

    environments: tuple[str, ...] = DETERMINISTIC
    nums: tuple[int, ...] = (5, 10, 20, 50, 100)
    scipy_accuracy_up_to: int = 20
    iterations: int = PAPER_ITERATIONS
    jitters: int = PAPER_JITTERS
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """Each environment and m with each method."""
    return [
        {"environment": environment, "num_features": num, "method": method}
        for environment in settings.environments
        for num in settings.nums
        for method in STYLES
    ]


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """A row for each jitter of a sketch's decoding, one row for SFDP, whose particles need no support."""
    case, num = problem(cell["environment"], settings.seed), cell["num_features"]
    build = _builder(case, num, cell["method"])
    build()  # compiles what there is to compile
    start = time.perf_counter()
    algorithm = build()
    shared = {**cell, "setup_seconds": time.perf_counter() - start}
    features = Sigmoid.from_range(case.return_range, num)
    decoders = jittered_decoders(jitter_key(settings.seed, num), features, case.return_range, settings.jitters)
    if isinstance(algorithm, SketchDP):
        shared["seconds_per_iteration"], _ = _timed(algorithm, TIMED_ITERATIONS, every=TIMED_ITERATIONS)
        sketch = run(jax.random.key(0), algorithm, settings.iterations, stop_on_divergence=False).state
        errors = evaluate(sketch, case.truth, [algorithm.decoder] if cell["method"] == FINE else decoders)
        return jitter_rows(shared, errors.cramer.max(axis=1), errors.cramer_projection.max(axis=1))
    if cell["method"] == SCIPY and num > settings.scipy_accuracy_up_to:
        # Start where our form has got to: its first iterations, from certain returns, are easier than the others.
        state = run(jax.random.key(0), expectile_dp(case.mrp, num), 30).state
        shared["seconds_per_iteration"], _ = _timed(algorithm, 1, every=1, state=state)
        return [shared]
    every = 1 if cell["method"] == SCIPY else settings.iterations
    shared["seconds_per_iteration"], state = _timed(algorithm, settings.iterations, every=every)
    distance = float(np.max(cramer(algorithm.decode(state), case.truth.distribution)))
    best = np.mean([case.truth.cramer_to.of_projection(np.asarray(d.support)).max() for d in decoders])
    return [{**shared, "cramer": distance, "excess_cramer": distance - float(best)}]


def _builder(case: Problem, num: int, method: str) -> Callable[[], Algorithm]:
    """What sets a method up for a model, as timed in the figure's last row."""
    if method in (SCIPY, BATCHED):
        return lambda: expectile_dp(case.mrp, num, imputation="scipy" if method == SCIPY else "ours")

    def sketch() -> Algorithm:
        features, form = Sigmoid.from_range(case.return_range, num), PAPERS if method == SKETCH else OURS
        discounts = (case.mrp.discount, 0.0)
        coefficients = fit_coefficients(features, case.return_range.grid(), case.mrp.rewards, discounts, intercept=form)
        fine = method == FINE
        span = case.return_range
        return sketch_dp(
            case.mrp, coefficients, fine_decoder(coefficients, span) if fine else anchor_decoder(features, span)
        )

    return sketch


def _timed(algorithm: Algorithm, steps: int, *, every: int, state: Any = None) -> tuple[float, Any]:
    """Seconds per iteration of scans of ``every`` steps, compiled before, and the state after the last."""
    run(jax.random.key(0), algorithm, every, state=state, record_every=every, stop_on_divergence=False)
    start = time.perf_counter()
    outcome = run(jax.random.key(0), algorithm, steps, state=state, record_every=every, stop_on_divergence=False)
    return (time.perf_counter() - start) / steps, outcome.state


def plot(records: pd.DataFrame) -> Figure:
    """A column for each environment; rows: Cramér, excess Cramér, time per iteration, time to set up."""
    environments = list(dict.fromkeys(records["environment"]))
    figure, axes = plt.subplots(
        len(QUANTITIES),
        len(environments),
        figsize=(2.2 * len(environments) + 0.8, 8.2),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for row, quantity in zip(axes, QUANTITIES, strict=True):
        values = averages(records, ["environment", "method", "num_features"], quantity)
        for axis, environment in zip(row, environments, strict=True):
            for method, (colour, style) in STYLES.items():
                line = values[environment][method].dropna()
                if quantity == "cramer":
                    line = line.clip(lower=FLOOR)
                axis.plot(line.index, line, style, color=colour, marker=".", label=method)
            axis.set_xscale("log")
            if quantity == "excess_cramer":  # particles are free to be nearer than anything on the anchors
                axis.set_yscale("symlog", linthresh=1e-3)
            else:
                axis.set_yscale("log")
            axis.tick_params(labelsize=7)
        row[0].set_ylabel(QUANTITIES[quantity], fontsize=8)
    nums = sorted(set(records["num_features"]))
    for axis, environment in zip(axes[0], environments, strict=True):
        axis.set_title(title(environment), fontsize=9)
    for axis in axes[-1]:
        axis.set_xticks(nums, [str(num) for num in nums])
        axis.minorticks_off()
        axis.set_xlabel("m", fontsize=8)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(5, len(environments)), fontsize=8, frameon=False
    )
    return figure


def claims(records: pd.DataFrame) -> list[Claim]:
    """What the appendix says of this figure."""
    index = ["environment", "num_features", "method"]
    seconds = averages(records, index, "seconds_per_iteration").unstack()
    setup = averages(records, index, "setup_seconds").unstack()[SKETCH]
    distance = averages(records, index, "cramer").unstack()
    slower, batched = seconds[SCIPY] / seconds[SKETCH], seconds[BATCHED] / seconds[SKETCH]
    in_iterations = (setup / seconds[SCIPY]).unstack()
    largest = distance.index.get_level_values("num_features").max()
    both = distance[[SKETCH, SCIPY]].dropna()
    both.index = both.index.remove_unused_levels()
    closer, closer_than_ours = both[SKETCH] < both[SCIPY], distance[SKETCH] < distance[BATCHED]
    free_closer = distance[FREE] < distance[BATCHED]
    at_largest = closer_than_ours.xs(largest, level="num_features")
    batched = batched.xs(largest, level="num_features")
    fine_closer = distance[FINE] < distance[BATCHED]

    def claim(name: str, statement: str, measured: float, relation: str, threshold: float, detail: str) -> Claim:
        return Claim(f"sfdp.{name}", statement, WHERE, float(measured), relation, threshold, detail)

    return [
        claim(
            "slower",
            "An SFDP update takes at least 100 times as long as one of Sketch-DP",
            slower.min(),
            "≥",
            100,
            f"least ratio over environments and m, SciPy's imputation; largest {slower.max():.2g}",
        ),
        claim(
            "ours-slower",
            "Ours: also with exact derivatives and batching SFDP takes at least 20 times as long",
            batched.min(),
            "≥",
            20,
            f"least ratio over environments at m = {largest}, our imputation; largest {batched.max():.2g}",
        ),
        claim(
            "setup-few-iterations",
            "Solving for the Bellman coefficients takes no longer than a couple of SFDP iterations",
            in_iterations[largest].max(),
            "≤",
            2,
            f"in SFDP iterations, most over environments at m = {largest}; by m: "
            + ", ".join(f"{num}: {in_iterations[num].max():.2g}" for num in in_iterations),
        ),
        claim(
            "setup-seconds",
            "… which is 0.1 to 4 seconds",
            setup.max(),
            "≤",
            4,
            f"most; least {setup.min():.2g} s",
        ),
        claim(
            "more-accurate",
            "The approximation errors of Sketch-DP are smaller",
            closer.mean(),
            ">",
            0.5,
            f"share of (environment, m ≤ {both.index.levels[1][-1]:g}) where its Cramér distance"
            " is below that of SFDP with SciPy",
        ),
        claim(
            "more-accurate-than-ours",
            "… also if SFDP's imputation is solved well, as ours is",
            closer_than_ours.mean(),
            ">",
            0.5,
            f"share of (environment, m) where it is below our SFDP's; with a free intercept {free_closer.mean():.2g}",
        ),
        claim(
            "more-accurate-as-m-grows",
            "… particularly as the number of features is increased",
            at_largest.mean(),
            ">",
            0.5,
            f"the same share at m = {largest}",
        ),
        claim(
            "fine-more-accurate",
            "Ours: decoded finely, Sketch-DP is closer than our SFDP",
            fine_closer.mean(),
            ">",
            0.5,
            f"share of (environment, m); at m = {largest} {fine_closer.xs(largest, level='num_features').mean():.2g}",
        ),
    ]


EXPERIMENT = Experiment(
    name="sfdp",
    title="Sketch-DP against SFDP: Cramér, excess Cramér, time per iteration and to set up",
    quick=Settings(("loopy_fork", "tree"), (5, 10, 20), scipy_accuracy_up_to=5, iterations=40, jitters=5),
    full=Settings(),
    cells=cells,
    measure=measure,
    plot=plot,
    claims=claims,
    timed=True,
)
