"""Every solver finds the fixed point that SciPy finds from the system written out by hand, and says what it took."""

import io

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress
from scipy.sparse.linalg import splu, spsolve

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from bellsketch.tabular.fixed_point import fixed_point
from bellsketch.tabular.operator import affine_operator
from cases import SIX, bellman_system, fitted, solution, tangled
from strategies import outcomes

SOLVERS = ("dense", "krylov", "iterate")
MODULE = "bellsketch.tabular.fixed_point"


def problem(name, num_features=30):
    """An operator, and M and b of its fixed point."""
    result = solution(name, num_features)
    return result.operator, *bellman_system(result.mrp, result.coefficients)


def by_lu(matrix, constant):
    system = (sp.eye_array(constant.size) - matrix).tocsc()
    return spsolve(system, constant.ravel()).reshape(constant.shape)


def norm_of_inverse(matrix):
    """‖(I − M)⁻¹‖₂ by the power method."""
    lu = splu((sp.eye_array(matrix.shape[0]) - matrix).tocsc())
    v = np.random.default_rng(0).normal(size=matrix.shape[0])
    for _ in range(50):
        v = lu.solve(lu.solve(v / np.linalg.norm(v)), trans="T")
    return np.sqrt(np.linalg.norm(v))


def residual_by_hand(matrix, constant, sketch):
    left = (matrix @ sketch.ravel()).reshape(sketch.shape) + constant - sketch
    return np.linalg.norm(left, axis=1).max()


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
@pytest.mark.parametrize("name", SIX)
def test_every_solver_finds_what_scipy_finds(name, solver):
    operator, matrix, constant = problem(name)
    found = fixed_point(operator, solver=solver)
    np.testing.assert_allclose(found.sketch, by_lu(matrix, constant), atol=1e-8)
    assert found.residual <= 1e-10
    assert residual_by_hand(matrix, constant, found.sketch) <= 1e-10
    assert found.seconds > 0


@settings(max_examples=40, deadline=None)
@given(outcomes=outcomes(), m=st.integers(1, 4), seed=st.integers(0, 1_000), solver=st.sampled_from(SOLVERS))
def test_any_contraction_is_solved(outcomes, m, seed, solver):
    """Also with one state, with no outcome that goes on, and with matrices that are no sketch's."""
    mrp = bs.MRP.from_outcomes(*outcomes)
    rng = np.random.default_rng(seed)
    matrices = rng.normal(size=(len(mrp.rewards), m, m))
    matrices *= 0.9 / np.linalg.norm(matrices, ord=2, axis=(1, 2))[:, None, None]
    offsets, endings = rng.normal(size=(2, len(mrp.rewards), m))
    system, right = np.eye(mrp.num_states * m), np.zeros((mrp.num_states, m))
    o = mrp.outcomes
    for x, y, p, r in zip(o.state, o.successor, o.probability, o.reward, strict=True):
        right[x] += p * (offsets[r] if y >= 0 else endings[r])
        if y >= 0:
            system[x * m : (x + 1) * m, y * m : (y + 1) * m] -= p * matrices[r]
    found = fixed_point(affine_operator(mrp, matrices, offsets, endings), solver=solver)
    np.testing.assert_allclose(found.sketch.ravel(), np.linalg.solve(system, right.ravel()), atol=1e-7)


def test_large_problems_are_left_to_krylov(monkeypatch):
    operator = problem("loopy_fork")[0]
    assert fixed_point(operator).method == "dense LU"
    monkeypatch.setattr(f"{MODULE}.DENSE_UNKNOWNS", operator.num_unknowns - 1)
    assert fixed_point(operator).method == "BiCGSTAB, Kronecker preconditioner"
    monkeypatch.setattr(f"{MODULE}.DENSE_UNKNOWNS", operator.num_unknowns)
    assert fixed_point(operator).method == "dense LU"
    assert fixed_point(operator, solver="iterate").method == "plain iteration"


def test_where_iterating_runs_away_there_is_still_a_fixed_point():
    """Ten features are too few for the cycle."""
    operator, matrix, constant = problem("cycle", 10)
    assert np.abs(np.linalg.eigvals(matrix.toarray())).max() > 1.2
    with pytest.raises(bs.DivergenceError, match=r"iterating diverges.*solve for the fixed point"):
        fixed_point(operator, solver="iterate")
    for solver in ("dense", "krylov"):
        found = fixed_point(operator, solver=solver)
        np.testing.assert_allclose(found.sketch, by_lu(matrix, constant), atol=1e-6)
        assert found.residual <= 1e-10


@pytest.mark.parametrize("solver", ["krylov", "iterate"])
def test_a_coarser_tolerance_is_reached_sooner(solver):
    operator, matrix, constant = problem("loopy_fork")
    coarse, fine = (fixed_point(operator, solver=solver, tolerance=t) for t in (1e-3, 1e-10))
    assert coarse.iterations < fine.iterations
    assert 1e-10 < coarse.residual <= 1e-3
    assert coarse.residual == pytest.approx(residual_by_hand(matrix, constant, coarse.sketch), rel=1e-6)


@pytest.mark.parametrize("solver", ["krylov", "iterate"])
def test_a_tolerance_below_rounding_is_not_waited_for(solver):
    found = fixed_point(problem("loopy_fork")[0], solver=solver, tolerance=1e-300)
    assert found.residual < 1e-12


@pytest.mark.parametrize("num", [0, 1, 7, 10, 23])
def test_plain_iteration_stops_where_it_is_told(num):
    operator, matrix, constant = problem("loopy_fork")
    start = np.random.default_rng(0).normal(size=constant.shape)
    expected = start.ravel()
    for _ in range(num):
        expected = matrix @ expected + constant.ravel()
    found = fixed_point(operator, solver="iterate", start=start, max_iterations=num, tolerance=1e-12)
    assert found.iterations == num
    np.testing.assert_allclose(found.sketch.ravel(), expected, atol=1e-10)
    assert found.residual == pytest.approx(residual_by_hand(matrix, constant, found.sketch), rel=1e-6)


@pytest.mark.parametrize("most", [0, 1, 5])
def test_krylov_says_how_far_it_came(most, monkeypatch):
    monkeypatch.setattr(f"{MODULE}.KRYLOV_ROUND", 2)
    with pytest.raises(bs.DivergenceError, match=rf"residual of .* in {most} iterations, not 1e-10: allow more"):
        fixed_point(problem("loopy_fork")[0], solver="krylov", max_iterations=most)


def test_krylov_may_start_again_and_again(monkeypatch):
    operator, matrix, constant = problem("loopy_fork")
    monkeypatch.setattr(f"{MODULE}.KRYLOV_ROUND", 4)
    found = fixed_point(operator, solver="krylov")
    assert found.iterations > 4
    assert found.residual <= 1e-10
    np.testing.assert_allclose(found.sketch, by_lu(matrix, constant), atol=1e-8)


def test_a_good_start_saves_iterations_and_is_left_alone():
    operator, _, constant = problem("loopy_fork")
    exact = fixed_point(operator).sketch
    for solver, iterations in (("krylov", 0), ("iterate", 10)):
        start = exact.copy()
        found = fixed_point(operator, solver=solver, start=start)
        assert found.iterations == iterations
        assert not np.shares_memory(found.sketch, start)
        np.testing.assert_array_equal(start, exact)
    far = np.full(constant.shape, 50.0)
    for solver in ("krylov", "iterate"):
        np.testing.assert_allclose(fixed_point(operator, solver=solver, start=far).sketch, exact, atol=1e-8)
        assert far.min() == far.max() == 50.0
    np.testing.assert_allclose(operator.offset, constant, atol=1e-12)


@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_a_system_without_a_solution_is_an_error(solver):
    """U = U + 1."""
    mrp = bs.MRP([[1.0]], [0.0], 0.9)
    operator = affine_operator(mrp, np.eye(2)[None], np.ones((1, 2)), np.ones((1, 2)))
    with pytest.raises(bs.DivergenceError):
        fixed_point(operator, solver=solver)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", ["random_chain", "loopy_fork", "cycle"])
def test_single_precision_is_near_double(name, solver):
    operator, matrix, constant = problem(name)
    exact = fixed_point(operator).sketch
    found = fixed_point(operator.astype("float32"), solver=solver)
    assert found.sketch.dtype == np.float32
    gap = np.abs(found.sketch - exact).max()
    assert 0 < gap < 5e-5
    assert found.residual < 2e-5
    # Without the rounding of U itself, what is left is still as small as that.
    assert residual_by_hand(matrix, constant, found.sketch.astype(np.float64)) < 2e-5


@pytest.mark.parametrize("discount", [0.99, 0.999])
def test_a_walk_near_discount_one(discount):
    """9,000 unknowns. The error is at most ‖(I − M)⁻¹‖ times the residual."""
    mrp = large_model("line", 300, discount, 0)
    coefficients = fitted(mrp, 30)
    matrix, constant = bellman_system(mrp, coefficients)
    found = fixed_point(bs.sketch_operator(mrp, coefficients))
    assert found.method == "BiCGSTAB, Kronecker preconditioner"
    assert found.residual <= 1e-10
    assert residual_by_hand(matrix, constant, found.sketch) <= 1e-10
    exact = by_lu(matrix, constant)
    inverse = 1.1 * norm_of_inverse(matrix)
    error = np.linalg.norm(found.sketch - exact)
    assert error <= inverse * np.sqrt(mrp.num_states) * found.residual + 1e-11
    assert np.abs(found.sketch - exact).max() <= 1e-8


def test_progress_is_shown_only_if_asked_for(monkeypatch):
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=200)
    monkeypatch.setattr(f"{MODULE}.Progress", lambda *a, **k: Progress(*a, **{**k, "console": console}))
    operator = problem("loopy_fork")[0]
    for solver in SOLVERS:
        fixed_point(operator, solver=solver)
    assert written.getvalue() == ""
    found = fixed_point(operator, solver="iterate", progress=True)
    assert f"plain iteration: iteration {found.iterations}, residual" in written.getvalue()
    assert "(to 1e-10)" in written.getvalue()
    found = fixed_point(operator, solver="krylov", progress=True)
    assert f"Kronecker preconditioner: iteration {found.iterations}, residual" in written.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"solver": "lu"}, "solver='lu': choose one of auto, dense, krylov, iterate"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
        ({"tolerance": -1e-3}, "tolerance=-0.001"),
        ({"tolerance": float("nan")}, "tolerance=nan"),
        ({"max_iterations": -1}, "max_iterations=-1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(bs.InputError, match=message):
        fixed_point(problem("tree")[0], **arguments)


@pytest.mark.parametrize("solver", SOLVERS)
def test_models_in_which_reward_and_successor_depend_on_each_other(solver):
    mrp = tangled(15)
    coefficients = fitted(mrp, 20)
    matrix, constant = bellman_system(mrp, coefficients)
    exact = scipy.linalg.solve(np.eye(constant.size) - matrix.toarray(), constant.ravel())
    found = fixed_point(bs.sketch_operator(mrp, coefficients), solver=solver)
    np.testing.assert_allclose(found.sketch.ravel(), exact, atol=1e-8)
