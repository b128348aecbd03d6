"""How time and memory of tabular Sketch-DP grow with states, features and 1/(1−γ), against what must be spent."""

import dataclasses
import functools
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.experiments.claims import OURS, Claim, Claimant
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.large_models import large_model, large_operator
from bellsketch.experiments.stopwatch import shortest
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.operator import AffineOperator

REPEATS = 3
LOSS_ITERATIONS = 50
"""After which sketches in single and double precision are compared."""
RESIDUAL = 1e-8
"""To which fixed points are solved."""
SWEEP_LIMIT, SPEEDUP, COPIES = 1.5, 20.0, 3.0
"""What is asked for: backups against bare products, solving against iterating, memory in sketches."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Random graphs for backups; walks on a line and other graphs for fixed points."""

    states: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    num_features: tuple[int, ...] = (16, 32, 64, 128, 256)
    usual_features: int = 64
    usual_states: int = 100_000
    walk_states: int = 10_000
    walk_features: int = 50
    discounts: tuple[float, ...] = (0.9, 0.99, 0.999, 0.9999)
    graphs: tuple[str, ...] = ("grid", "random")
    graph_discount: float = 0.99
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """Backups by states and by features, on the host and on JAX's device, and on the host with a reward for each step
    rather than each state; fixed points by discount and by graph.
    """
    sizes = [(s, settings.usual_features) for s in settings.states]
    sizes += [(settings.usual_states, m) for m in settings.num_features if m != settings.usual_features]
    backups = [{"part": part, "states": s, "num_features": m} for part in ("host", "device") for s, m in sizes]
    backups.append({"part": "joint", "states": max(settings.states), "num_features": settings.usual_features})
    walks = [{"part": "solve", "graph": "line", "discount": discount} for discount in settings.discounts]
    others = [{"part": "solve", "graph": g, "discount": settings.graph_discount} for g in settings.graphs]
    return [*backups, *walks, *others]


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """One cell; each compares things that are timed right after each other."""
    if cell["part"] == "solve":
        return [{**cell, **_solve(settings, cell["graph"], cell["discount"])}]
    mrp = large_model("joint" if cell["part"] == "joint" else "random", cell["states"], 0.9, settings.seed)
    timed = _device_backups if cell["part"] == "device" else _host_backups
    return [{**cell, "discount": 0.9, **record} for record in timed(large_operator(mrp, cell["num_features"]))]


# ---------------------------------------------------------------------------------------------------------------------
# Backups
# ---------------------------------------------------------------------------------------------------------------------


def _host_backups(operator: AffineOperator) -> list[Record]:
    """One backup against its bare products: SciPy's sparse one of each reward, and BLAS' dense one."""
    records = []
    exact = None
    for precision in ("float64", "float32"):
        cast = operator.astype(precision)
        sketch, total = np.array(cast.offset), np.array(cast.offset)
        mixings = [cast.mixing[start:stop] for _, start, stop in cast.groups]
        matrices = [cast.matrices[r].astype(precision) for r, _, _ in cast.groups]

        record = {
            "precision": precision,
            "seconds": shortest(functools.partial(cast.add_linear, sketch, total), REPEATS),
            "bare_seconds": shortest(functools.partial(_bare_products, mixings, matrices, sketch), REPEATS),
            "copies": _peak_copies(cast),
            "sketch_bytes": cast.offset.nbytes,
        }
        found = fixed_point(cast, solver="iterate", tolerance=RESIDUAL, max_iterations=LOSS_ITERATIONS).sketch
        exact = found if exact is None else exact
        records.append({**record, "loss": float(np.linalg.norm(found - exact, axis=1).max())})
    return records


def _bare_products(mixings: list[Any], matrices: list[np.ndarray], sketch: np.ndarray) -> None:
    for mixing, matrix in zip(mixings, matrices, strict=True):
        (mixing @ sketch) @ matrix.T


def _peak_copies(operator: AffineOperator) -> float:
    """Memory that iterating takes at its peak, in sketches; the constant part counts as one."""
    tracemalloc.start()
    try:
        fixed_point(operator, solver="iterate", max_iterations=3)
        return 1 + tracemalloc.get_traced_memory()[1] / operator.offset.nbytes
    finally:
        tracemalloc.stop()


def _device_backups(operator: AffineOperator) -> list[Record]:
    """One jitted backup against the time in which the device can move what a backup must read and write."""
    records = []
    for precision in ("float64", "float32"):
        with jax.enable_x64(precision == "float64"):
            there = jax.device_put(operator.astype(precision).on_device())
            sketch = jax.device_put(operator.offset.astype(precision))
            seconds = shortest(_waiting(jax.jit(there.__call__), sketch), 10)
            copying = shortest(_waiting(jax.jit(lambda u: 1.5 * u), jnp.tile(sketch, (4, 1))), 10)
            bandwidth = 8 * sketch.nbytes / copying  # four sketches read and four written
            rows = operator.mixing.nnz * sketch.nbytes / operator.offset.shape[0]  # every successor's row
            tables = sum(leaf.nbytes for leaf in jax.tree.leaves(there.mixing))
            floor = (rows + tables + 2 * sketch.nbytes) / bandwidth  # the constant part in, the result out
        records.append(
            {
                "precision": precision,
                "seconds": seconds,
                "bare_seconds": floor,
                "bandwidth": bandwidth,
                "device": jax.devices()[0].device_kind,
                "sketch_bytes": sketch.nbytes,
            }
        )
    return records


def _waiting(f: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: jax.block_until_ready(f(*arguments))


# ---------------------------------------------------------------------------------------------------------------------
# Fixed points
# ---------------------------------------------------------------------------------------------------------------------


def _solve(settings: Settings, graph: str, discount: float) -> Record:
    """The time to a residual of 1e-8, by Krylov's method and by plain iteration."""
    mrp = large_model(graph, settings.walk_states, discount, settings.seed)
    operator = large_operator(mrp, settings.walk_features)
    begun = time.perf_counter()
    krylov = fixed_point(operator, solver="krylov", tolerance=RESIDUAL)
    between = time.perf_counter()
    plain = fixed_point(operator, solver="iterate", tolerance=RESIDUAL)
    return {
        "states": mrp.num_states,
        "num_features": settings.walk_features,
        "precision": "float64",
        "method": krylov.method,
        "seconds": between - begun,
        "bare_seconds": time.perf_counter() - between,
        "iterations": krylov.iterations,
        "plain_iterations": plain.iterations,
        "residual": krylov.residual,
        "plain_residual": plain.residual,
        "difference": float(np.linalg.norm(krylov.sketch - plain.sketch, axis=1).max()),
    }


# ---------------------------------------------------------------------------------------------------------------------
# The figure
# ---------------------------------------------------------------------------------------------------------------------


def plot(records: pd.DataFrame) -> Figure:
    """Time of a backup against states and features, memory against states, time of a solve against 1/(1−γ)."""
    figure, axes = plt.subplots(1, 4, figsize=(17, 4.2), layout="constrained")
    backups = records[records["part"].isin(["host", "device"])]
    usual = backups["num_features"].mode().iloc[0]
    many = backups["states"].mode().iloc[0]
    by_states, by_features = backups[backups["num_features"] == usual], backups[backups["states"] == many]
    _plot_backups(axes[0], by_states, "states", f"{usual} features")
    _plot_backups(axes[1], by_features, "num_features", f"{many:,} states")
    for precision, line in by_states[by_states["part"] == "host"].groupby("precision"):
        used, sketch = line["copies"] * line["sketch_bytes"] / 1e9, line["sketch_bytes"] / 1e9
        axes[2].loglog(line["states"], used, "o-", label=f"iterating, {precision}{_exponent(line['states'], used)}")
        axes[2].loglog(line["states"], COPIES * sketch, ":", color="0.5")
    axes[2].plot([], [], ":", color="0.5", label="three sketches")
    axes[2].set(xlabel="states", ylabel="GB")
    axes[2].set_title(f"Memory at its peak, {usual} features", fontsize=10)
    walks = records[(records["part"] == "solve") & (records["graph"] == "line")]
    effective = 1 / (1 - walks["discount"])
    for column, name in (("bare_seconds", "plain iteration"), ("seconds", "preconditioned Krylov")):
        axes[3].loglog(effective, walks[column], "o-", label=name + _exponent(effective, walks[column]))
    size = f"{int(walks['states'].iloc[0]):,} states × {int(walks['num_features'].iloc[0])} features"
    axes[3].set(xlabel="1 / (1 − γ)", ylabel=f"seconds to a residual of {RESIDUAL:g}")
    axes[3].set_title(f"Fixed point, walk on a line\n{size}", fontsize=10)
    for axis in axes:
        axis.legend(fontsize=7, frameon=False)
    return figure


def _plot_backups(axis: Any, rows: pd.DataFrame, against: str, title: str) -> None:
    device = f"JAX on {rows[rows['part'] == 'device']['device'].iloc[0]}"
    lines = [
        ("host", "seconds", "o-", "host"),
        ("host", "bare_seconds", "x:", "its bare products"),
        ("device", "seconds", "s-", device),
        ("device", "bare_seconds", "x--", f"{device}, bandwidth floor"),
    ]
    for i, (part, column, style, name) in enumerate(lines):
        line = rows[(rows["part"] == part) & (rows["precision"] == "float64")].sort_values(against)
        label = name + _exponent(line[against], line[column])
        axis.loglog(line[against], line[column], style, color=f"C{i // 2}", ms=4, label=label)
    axis.set(xlabel=against.replace("num_", ""), ylabel="seconds per backup")
    axis.set_title(f"Backup, {title}", fontsize=10)
    if against == "num_features":
        values = sorted(set(rows[against]))
        axis.set_xticks(values, [str(value) for value in values])
        axis.minorticks_off()


def _exponent(x: pd.Series, y: pd.Series) -> str:
    return f" (exponent {fitted_exponent(x, y):.2f})"


def fitted_exponent(x: pd.Series, y: pd.Series) -> float:
    """p of y ∝ x^p, by least squares of the logarithms over the larger half of x: small cases are all overhead."""
    order = np.argsort(x.to_numpy())[len(x) // 2 - (len(x) < 4) :]
    return float(np.polyfit(np.log(x.to_numpy()[order]), np.log(y.to_numpy()[order]), 1)[0]) if len(order) > 1 else 1.0


def table(records: pd.DataFrame) -> pd.DataFrame:
    """What was timed, against what, and the ratio."""
    shown = records[records["precision"] == "float64"].copy()
    shown["ratio"] = shown["seconds"] / shown["bare_seconds"]
    columns = ["part", "graph", "states", "num_features", "discount", "seconds", "bare_seconds", "ratio", "copies"]
    return shown[columns]


def claims(records: pd.DataFrame) -> list[Claim]:
    """What we ask of ourselves."""
    claim = Claimant("bench-tabular", OURS)
    host, device, solved = (records[records["part"] == part] for part in ("host", "device", "solve"))
    large = records[records["part"].isin(["host", "joint"]) & (records["states"] == host["states"].max())]
    large = large[large["precision"] == "float64"]
    ratios = large["seconds"] / large["bare_seconds"]
    largest = large.loc[ratios.idxmax()]
    size = f"{int(largest['states']):,} states, {int(largest['num_features'])} features"
    moved = device[device["states"] == device["states"].max()]
    over_floor = moved["seconds"] / moved["bare_seconds"]
    slow = solved[(solved["graph"] == "line") & (solved["discount"] >= 0.999)]
    gain = slow["bare_seconds"] / slow["seconds"]
    single = host[host["precision"] == "float32"]
    return [
        claim(
            "backup",
            "A backup takes at most 1.5 times as long as the sparse and dense products it must do",
            ratios.max(),
            "≤",
            SWEEP_LIMIT,
            f"{size}, rewards by {'step' if largest['part'] == 'joint' else 'state'}: {largest['seconds']:.3g} s"
            f" against {largest['bare_seconds']:.3g} s; the other {ratios.min():.2g}",
        ),
        claim(
            "memory",
            "Iterating takes no more than three copies of the sketch, a block for each thread, and the transitions",
            largest["copies"],
            "≤",
            COPIES + 0.1,
            size,
        ),
        claim(
            "fixed-point",
            "At γ ≥ 0.999 a walk's fixed point is found at least 20 times as fast as by iterating",
            gain.min(),
            "≥",
            SPEEDUP,
            "; ".join(f"γ = {g:g}: {r:.0f}×" for g, r in zip(slow["discount"], gain, strict=True)),
        ),
        claim("residual", "… to a residual of 1e-8", slow["residual"].max(), "≤", RESIDUAL),
        claim(
            "device",
            "On the device a backup takes at most three times as long as moving its numbers",
            over_floor.max(),
            "≤",
            3.0,
            "; ".join(f"{p}: {r:.2g}" for p, r in zip(moved["precision"], over_floor, strict=True))
            + f" ({moved['device'].iloc[0]}, {moved['bandwidth'].max() / 1e9:.0f} GB/s)",
        ),
        claim("float32", "Sketches in float32 lose less than 1e-4", single["loss"].max(), "<", 1e-4),
    ]


EXPERIMENT = Experiment(
    name="tabular",
    title="Time and memory of tabular Sketch-DP against states, features and discount",
    quick=Settings(
        (1_000, 10_000, 100_000), (16, 64, 128), usual_states=10_000, walk_states=2_000, discounts=(0.9, 0.99, 0.999)
    ),
    full=Settings(),
    cells=cells,
    measure=measure,
    plot=plot,
    claims=claims,
    timed=True,
    command="bench",
    table=table,
)
