"""Backups with the state axis spread over four devices, in a process that has so many."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.experiments.large_models import large_model
from bellsketch.tabular.operator import affine_operator
from bellsketch.tabular.sharding import iterate_on_devices
from cases import tangled

NUM_ITERATIONS = 12
MODELS = {
    "grid": lambda: large_model("grid", 25, 0.9, 0),
    "tangled": lambda: tangled(23),
    "fewer states than devices": lambda: tangled(3),
}


def problem(name, m=6):
    """An operator that shrinks, and where to start."""
    mrp = MODELS[name]()
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(len(mrp.rewards), m, m))
    matrices *= 0.9 / np.linalg.norm(matrices, ord=2, axis=(1, 2))[:, None, None]
    parts = matrices, *rng.normal(size=(2, len(mrp.rewards), m))
    return mrp, parts, rng.normal(size=(mrp.num_states, m))


def by_hand(name):
    """U ← Σ p (A_r U(x') + c_r), outcome by outcome."""
    mrp, (matrices, offsets, endings), sketch = problem(name)
    o = mrp.outcomes
    for _ in range(NUM_ITERATIONS):
        values = np.einsum("kij,kj->ki", matrices[o.reward], sketch[o.successor]) + offsets[o.reward]
        values[o.terminal] = endings[o.reward[o.terminal]]
        sketch = np.zeros_like(sketch)
        np.add.at(sketch, o.state, o.probability[:, None] * values)
    return sketch


CHILD = """
import sys
import jax
import numpy as np
from bellsketch.tabular.operator import affine_operator
from bellsketch.tabular.sharding import iterate_on_devices, shard_states
from test_sharding import MODELS, NUM_ITERATIONS, problem

found = {}
for name in MODELS:
    mrp, parts, start = problem(name)
    operator = affine_operator(mrp, *parts)
    for precision in ("float64", "float32"):
        found[f"{name}/{precision}"] = iterate_on_devices(operator, start, NUM_ITERATIONS, precision=precision)
    if name == "grid":
        found["three"] = iterate_on_devices(operator, start, NUM_ITERATIONS, devices=jax.devices()[:3])
    spread, shares = shard_states(operator)
    for what, array in (("offset", spread.offset), ("columns", spread.mixing.columns), ("pairs", spread.pairs)):
        pieces = array.addressable_shards
        found[f"{name}/{what}"] = np.array([len(piece.data) for piece in pieces])
        found[f"{name}/{what} devices"] = np.array([piece.device.id for piece in pieces])
found["devices"] = np.array(len(jax.devices()))
np.savez(sys.argv[1], **found)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a process with four devices finds."""
    path = tmp_path_factory.mktemp("shards") / "found.npz"
    here = Path(__file__).parent
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": f"{here}{os.pathsep}{here.parent}",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    with np.load(path) as file:
        return dict(file)


def test_there_were_four_devices(found):
    assert found["devices"] == 4


@pytest.mark.parametrize("name", MODELS)
def test_spread_states_are_backed_up_as_on_the_host(found, name):
    np.testing.assert_allclose(found[f"{name}/float64"], by_hand(name), rtol=1e-12, atol=1e-12)


def test_devices_can_be_chosen(found):
    np.testing.assert_allclose(found["three"], by_hand("grid"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_single_precision_is_near(found, name):
    assert found[f"{name}/float32"].dtype == np.float32
    gap = np.abs(found[f"{name}/float32"] - by_hand(name)).max()
    assert 0 < gap < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_every_device_holds_a_quarter(found, name):
    mrp = MODELS[name]()
    num_pairs = np.unique((mrp.outcomes.state * 10 + mrp.outcomes.reward)[~mrp.outcomes.terminal]).size
    for what, count in (("offset", mrp.num_states), ("pairs", mrp.num_states), ("columns", num_pairs)):
        np.testing.assert_array_equal(found[f"{name}/{what}"], 4 * [-(-count // 4)])
        assert sorted(found[f"{name}/{what} devices"]) == [0, 1, 2, 3]


def test_one_device_will_do():
    mrp, parts, start = problem("tangled")
    result = iterate_on_devices(affine_operator(mrp, *parts), start, NUM_ITERATIONS)
    np.testing.assert_allclose(result, by_hand("tangled"), rtol=1e-12, atol=1e-12)
    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(iterate_on_devices(affine_operator(mrp, *parts), start, 0), start)


def test_a_model_that_ends_at_once():
    mrp = bs.MRP(np.zeros((2, 2)), [1.0, 2.0], 0.9, np.ones(2))
    endings = np.array([[1.0, 2.0], [3.0, 4.0]])
    operator = affine_operator(mrp, np.zeros((2, 2, 2)), np.zeros((2, 2)), endings)
    np.testing.assert_array_equal(iterate_on_devices(operator, np.zeros((2, 2)), 1), endings)
