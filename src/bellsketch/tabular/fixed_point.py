"""The fixed point U = 𝒯U of an affine Bellman operator, at any discount and size."""

import dataclasses
import time
import warnings
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from jaxtyping import Float
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from scipy.sparse.linalg import LinearOperator, bicgstab

from bellsketch.core.errors import BellsketchWarning, DivergenceError, InputError
from bellsketch.core.memory import check_fits
from bellsketch.tabular.operator import AffineOperator, single_threaded_blas
from bellsketch.tabular.preconditioners import Preconditioner, choose_preconditioner

Solver = Literal["auto", "dense", "krylov", "iterate"]
KRYLOV_COPIES, ITERATION_COPIES = 14, 3
"""Arrays of the sketch's size that each needs at once, the constant part of 𝒯 among them."""

DENSE_UNKNOWNS = 5_000
"""Linear systems with at most this many unknowns (states × features) are solved by dense LU."""
TOLERANCE = 1e-10
"""The default limit on sup_x ‖(𝒯U − U)(x)‖₂."""
KRYLOV_ROUND, KRYLOV_ROUNDS = 200, 50
"""BiCGSTAB starts again from the true residual after so many iterations, at most so many times."""
HOPELESS = 5
"""It gives up after so many rounds without progress."""
CHECK_EVERY = 10
"""Plain iteration looks at its residual after so many backups."""
MOST_ITERATIONS = 1_000_000
"""Plain iteration that is told no limit takes this one: a discount of 0.9999 needs a quarter of it."""


@dataclasses.dataclass(frozen=True)
class FixedPoint:
    """What a solver found, and what it took."""

    sketch: Float[np.ndarray, "s m"]
    method: str
    """Which solver, in words."""
    iterations: int
    residual: float
    """sup_x ‖(𝒯U − U)(x)‖₂, computed from the sketch itself when all was done."""
    seconds: float


def fixed_point(
    operator: AffineOperator,
    *,
    solver: str = "auto",
    tolerance: float = TOLERANCE,
    start: Float[np.ndarray, "s m"] | None = None,
    max_iterations: int | None = None,
    progress: bool = False,
) -> FixedPoint:
    """Solve U = 𝒯U until the residual sup_x ‖(𝒯U − U)(x)‖₂ is at most ``tolerance``.

    Args:
      operator: 𝒯, on the host. If it is in float32, so is U, and the residual is what that allows.
      solver: ``dense`` (LU), ``krylov`` (BiCGSTAB, preconditioned), ``iterate`` (U ← 𝒯U), or ``auto``: dense for small
        problems, Krylov for others. The first two also find fixed points from which iterating would run away.
      tolerance: on the residual.
      start: where to start, default the constant part of 𝒯.
      max_iterations: of Krylov or plain iteration. With plain iteration it is no error to need more than was allowed.
      progress: show a line that says how far it is.
    """
    if solver not in get_args(Solver):
        raise InputError(f"solver={solver!r}: choose one of {', '.join(get_args(Solver))}")
    if not tolerance > 0:
        raise InputError(f"tolerance={tolerance}: the residual cannot be made that small; pass a positive number")
    if max_iterations is not None and max_iterations < 0:
        raise InputError(f"max_iterations={max_iterations}: must not be negative")
    begun = time.perf_counter()
    tolerance = max(tolerance, _rounding(operator))
    if solver == "auto":
        solver = "dense" if operator.num_unknowns <= DENSE_UNKNOWNS else "krylov"
    if start is None:
        start = operator.offset
    with _Display(progress, tolerance) as display:
        if solver == "dense":
            sketch, name, iterations = _solve_dense(operator), "dense LU", 1
        else:
            solve = _solve_krylov if solver == "krylov" else _iterate
            own = np.array(start, dtype=operator.offset.dtype)
            sketch, name, iterations = solve(operator, own, tolerance, max_iterations, display)
            del own  # large, and no longer needed
    residual = float(operator.residual(sketch).max())
    return FixedPoint(sketch, name, iterations, residual, time.perf_counter() - begun)


def _rounding(operator: AffineOperator) -> float:
    """A residual that rounding alone can leave."""
    scale = _largest(operator.offset) * np.sqrt(operator.offset.shape[1])
    return 16 * float(np.finfo(operator.offset.dtype).eps) * max(scale, 1.0)


def _largest(values: np.ndarray) -> float:
    """The largest absolute value, without a copy."""
    return float(max(values.max(), -values.min()))


def _solve_dense(operator: AffineOperator) -> np.ndarray:
    size = operator.num_unknowns
    check_fits(f"a dense system of {size:,} unknowns", 2.0 * 8 * size**2, "use a Krylov method, or iterate")
    system = operator.dense()
    np.negative(system, out=system)
    system[np.diag_indices(size)] += 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", scipy.linalg.LinAlgWarning)
        try:
            solution = scipy.linalg.solve(system, operator.offset.ravel())
        except scipy.linalg.LinAlgError:
            raise DivergenceError(
                "the fixed point is not unique (the linear system is singular): use intercept='free' or a larger ridge"
            ) from None
    if caught:
        warnings.warn(
            "the linear system of the fixed point is nearly singular and its solution may have few correct digits: use"
            " features of similar size (Polynomial.from_range, not raw powers), fewer of them, or a larger ridge",
            BellsketchWarning,
            stacklevel=5,
        )
    return np.asarray(solution).reshape(operator.offset.shape).astype(operator.offset.dtype)


def _solve_krylov(
    operator: AffineOperator, sketch: np.ndarray, tolerance: float, max_iterations: int | None, display: "_Display"
) -> tuple[np.ndarray, str, int]:
    """BiCGSTAB in rounds, each on what the last has left: a recurrence that loses its way is put back on it."""
    name, precondition = choose_preconditioner(operator)
    display.name = f"BiCGSTAB, {name} preconditioner"
    best, stuck = np.inf, 0
    for _ in range(KRYLOV_ROUNDS):
        left = operator(sketch)
        left -= sketch
        worst = float(np.linalg.norm(left, axis=1).max())
        display.show(worst)
        spent = max_iterations is not None and display.iterations >= max_iterations
        if worst <= tolerance or spent or not np.isfinite(worst):
            break
        best, stuck = min(best, worst), 0 if worst < best / 2 else stuck + 1
        if stuck >= HOPELESS:
            break
        most = KRYLOV_ROUND if max_iterations is None else min(KRYLOV_ROUND, max_iterations - display.iterations)
        with single_threaded_blas():
            sketch += _bicgstab(operator, left, precondition, tolerance, most, display)
    if not worst <= 2 * tolerance:
        raise DivergenceError(
            f"BiCGSTAB reached a residual of {worst:.2g} in {display.iterations} iterations, not {tolerance:.2g}: allow"
            f" more iterations, accept a residual of {worst:.1g}, or iterate instead"
        )
    return sketch, display.name, display.iterations


def _bicgstab(
    operator: AffineOperator,
    right: np.ndarray,
    precondition: Preconditioner,
    tolerance: float,
    max_iterations: int,
    display: "_Display",
) -> np.ndarray:
    shape, size = right.shape, right.size

    def apply(u: np.ndarray) -> np.ndarray:
        found = operator.linear(u.reshape(shape)).ravel()
        return np.subtract(u, found, out=found)

    options = {"shape": (size, size), "dtype": right.dtype}
    found, _ = bicgstab(
        LinearOperator(matvec=apply, **options),
        right.ravel(),
        rtol=0.0,
        atol=tolerance / 2,
        maxiter=max_iterations,
        M=LinearOperator(matvec=lambda v: precondition(v.reshape(shape)).ravel(), **options),
        callback=lambda _: display.count(),
    )
    return found.reshape(shape)


def _iterate(
    operator: AffineOperator, sketch: np.ndarray, tolerance: float, max_iterations: int | None, display: "_Display"
) -> tuple[np.ndarray, str, int]:
    display.name = "plain iteration"
    following = np.empty_like(sketch)
    largest, worst = max(_largest(sketch), 1.0), np.inf
    while display.iterations < (MOST_ITERATIONS if max_iterations is None else max_iterations):
        np.copyto(following, operator.offset)
        operator.add_linear(sketch, following)
        display.count()
        if display.iterations % CHECK_EVERY == 0:
            worst = _largest_change(sketch, following)
            display.show(worst)
            if not worst <= 1e6 * largest:
                raise DivergenceError(
                    f"iterating diverges: after {display.iterations} backups the sketch still changes by {worst:.2g}."
                    " Try more features or a larger ridge (the spectral radius must be below 1), intercept='free', or"
                    " solve for the fixed point instead"
                )
            if worst <= tolerance:
                return sketch, display.name, display.iterations
        sketch, following = following, sketch
    if max_iterations is None:
        raise DivergenceError(
            f"iterating does not converge: after {display.iterations:,} backups the sketch still changes by"
            f" {worst:.2g}. Use intercept='free', or solve for the fixed point instead"
        )
    return sketch, display.name, display.iterations


def _largest_change(before: np.ndarray, after: np.ndarray, rows: int = 10_000) -> float:
    """sup_x ‖after(x) − before(x)‖₂, without an array of the size of all."""
    starts = range(0, len(before), rows)
    return float(max(np.linalg.norm(after[i : i + rows] - before[i : i + rows], axis=1).max() for i in starts))


class _Display:
    """Counts iterations, and shows them with the residual while a solver works."""

    def __init__(self, enabled: bool, tolerance: float):
        text = TextColumn("{task.description}: iteration {task.completed}, residual {task.fields[residual]}")
        self._progress = Progress(
            SpinnerColumn(),
            text,
            TimeElapsedColumn(),
            disable=not enabled,
            transient=True,
            console=Console(stderr=True),
        )
        self._goal = f"(to {tolerance:.0e})"
        self._task = self._progress.add_task("", residual="")
        self.name, self.iterations = "", 0

    def __enter__(self) -> "_Display":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def count(self) -> None:
        self.iterations += 1
        self._progress.update(self._task, completed=self.iterations, description=self.name)

    def show(self, residual: float) -> None:
        self._progress.update(self._task, residual=f"{residual:.1e} {self._goal}", description=self.name)
