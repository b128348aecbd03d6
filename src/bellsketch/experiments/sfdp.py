"""Sketch-DP against statistical functional DP: accuracy, time per iteration, time to set up."""

import dataclasses
import functools
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
from bellsketch.experiments.claims import OURS as OURS_WHERE
from bellsketch.experiments.claims import Claim, Claimant
from bellsketch.experiments.evaluation import PAPER_JITTERS, evaluate, jittered_decoders
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.plotting import averages
from bellsketch.experiments.problems import DETERMINISTIC, Problem, problem, title
from bellsketch.experiments.stopwatch import shortest
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
CERTAIN = ("cycle", "directed_chain")
"""Environments whose returns are not random."""
FLOOR = 1e-6
"""Particles can be exact; a distance below this is drawn here."""
TIMED_ITERATIONS, TIMED_SFDP = 2_000, 20
"""Of Sketch-DP and of our SFDP: enough of their microseconds to be measured."""
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
    scipy_accuracy_up_to: int = 10
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
    algorithm = build()
    shared = {**cell, "setup_seconds": shortest(build)}
    features = Sigmoid.from_range(case.return_range, num)
    decoders = jittered_decoders(jitter_key(settings.seed, num), features, case.return_range, settings.jitters)
    best = np.array([case.truth.cramer_to.of_projection(np.asarray(d.support)).max() for d in decoders])
    if isinstance(algorithm, SketchDP):
        timed = functools.partial(_scan, algorithm, TIMED_ITERATIONS)
        shared["seconds_per_iteration"] = shortest(timed) / TIMED_ITERATIONS
        sketch = run(jax.random.key(0), algorithm, settings.iterations, stop_on_divergence=False).state
        if cell["method"] == FINE:
            distance = float(evaluate(sketch, case.truth, [algorithm.decoder]).cramer.max())
            return [{**shared, "cramer": distance, "excess_cramer": distance - float(best.mean())}]
        return jitter_rows(shared, evaluate(sketch, case.truth, decoders).cramer.max(axis=1), best)
    if cell["method"] == SCIPY:
        return [{**shared, **_scipy_record(settings, case, algorithm, num, float(best.mean()))}]
    shared["seconds_per_iteration"] = shortest(functools.partial(_scan, algorithm, TIMED_SFDP)) / TIMED_SFDP
    return [{**shared, **_accuracy(case, algorithm, _scan(algorithm, settings.iterations), float(best.mean()))}]


def _scipy_record(settings: Settings, case: Problem, algorithm: Algorithm, num: int, best: float) -> Record:
    """Up to some m the mean time of all iterations, and the accuracy after them; beyond, the time of one."""
    # Start where our form has got to: the first iterations, from certain returns, are easier than the others.
    state = _scan(expectile_dp(case.mrp, num), 30) if num > settings.scipy_accuracy_up_to else None
    _one_by_one(algorithm, 1, state)  # compiles what there is to compile
    steps = settings.iterations if state is None else 1
    start = time.perf_counter()
    reached = _one_by_one(algorithm, steps, state)
    seconds = {"seconds_per_iteration": (time.perf_counter() - start) / steps}
    return seconds if state is not None else seconds | _accuracy(case, algorithm, reached, best)


def _accuracy(case: Problem, algorithm: Algorithm, state: Any, best: float) -> Record:
    distance = float(np.max(cramer(algorithm.decode(state), case.truth.distribution)))
    return {"cramer": distance, "excess_cramer": distance - best}


def _scan(algorithm: Algorithm, steps: int, state: Any = None) -> Any:
    """The state after so many iterations, in one scan."""
    return run(
        jax.random.key(0), algorithm, steps, state=state, record_every=max(steps, 1), stop_on_divergence=False
    ).state


def _one_by_one(algorithm: Algorithm, steps: int, state: Any) -> Any:
    """The state after so many iterations, in scans of one: they need compiling once, however many there are."""
    return run(jax.random.key(0), algorithm, steps, state=state, record_every=1, stop_on_divergence=False).state


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
    quantities = ("seconds_per_iteration", "setup_seconds", "cramer")
    seconds, setup, distance = (averages(records, index, quantity).unstack() for quantity in quantities)
    nums = distance.index.get_level_values("num_features")
    slower, largest = seconds[SCIPY] / seconds[SKETCH], nums == nums.max()
    batched = (seconds[BATCHED] / seconds[SKETCH])[largest]
    # Where returns are certain, imputation starts at its solution and SFDP has nothing to do.
    random = ~distance.index.get_level_values("environment").isin(CERTAIN)
    in_iterations = (setup[SKETCH] / seconds[SCIPY])[random]
    by_num = in_iterations.groupby("num_features").max()
    both = distance[[SKETCH, SCIPY]].dropna(subset=[SCIPY]).fillna(np.inf)
    filled = distance.fillna(np.inf)
    ratio = (filled[SKETCH] / filled[BATCHED].clip(lower=FLOOR))[random].unstack()
    grows = ratio.iloc[:, -1] < ratio.iloc[:, 0]
    fine = filled[FINE] < filled[BATCHED]
    claim = Claimant("sfdp", WHERE)
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
            "Also with exact derivatives and batching SFDP takes at least 20 times as long",
            batched.min(),
            "≥",
            20,
            f"least ratio over environments at m = {nums.max()}, our imputation; largest {batched.max():.2g}",
            OURS_WHERE,
        ),
        claim(
            "setup-few-iterations",
            "Solving for the Bellman coefficients takes no longer than a couple of SFDP iterations",
            in_iterations.max(),
            "≤",
            2,
            "in SFDP iterations, most over m and environments with random returns; by m: "
            + ", ".join(f"{num}: {value:.2g}" for num, value in by_num.items()),
        ),
        claim(
            "setup-seconds",
            "… which is 0.1 to 4 seconds",
            setup[SKETCH].max(),
            "≤",
            4,
            f"most; least {setup[SKETCH].min():.2g} s",
        ),
        claim(
            "more-accurate",
            "The approximation errors of Sketch-DP are smaller",
            (both[SKETCH] < both[SCIPY]).mean(),
            ">",
            0.5,
            f"share of (environment, m ≤ {both.index.get_level_values('num_features').max()}) where its Cramér"
            " distance is below that of SFDP with SciPy",
        ),
        claim(
            "more-accurate-as-m-grows",
            "… particularly as the number of features is increased",
            grows.mean(),
            ">",
            0.5,
            "share of environments with random returns where its distance over that of our SFDP is smaller at"
            f" m = {nums.max()} than at {nums.min()}",
        ),
        claim(
            "more-accurate-than-ours",
            "Sketch-DP is closer than SFDP whose imputation is solved well",
            (filled[SKETCH] < filled[BATCHED]).mean(),
            ">",
            0.5,
            "share of (environment, m)",
            OURS_WHERE,
        ),
        claim(
            "fine-more-accurate",
            "… at least if its sketch is decoded finely",
            fine[random].mean(),
            ">",
            0.5,
            f"share of (environment with random returns, m); at m = {nums.max()} {fine[random & largest].mean():.2g}",
            OURS_WHERE,
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
