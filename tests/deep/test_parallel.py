"""One run on two devices, in a process that has so many: the same as on one, with half of it on each."""

import math
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
import parallel_runs
import tiny
from bellsketch.cli import main
from bellsketch.deep.parallel import Devices, find_devices
from bellsketch.deep.run import train
from bellsketch.deep.setup import check_memory, set_up

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")

TESTS = Path(__file__).parent.parent
CHECKED = """
import runpy
from jaxtyping import install_import_hook

with install_import_hook("bellsketch", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"):
    runpy.run_module("parallel_runs", run_name="__main__")
"""
"""With types, as here."""
ROUNDING = {"rtol": 1e-4, "atol": 1e-6}
"""Sums of two halves are not rounded as one sum is."""


@pytest.fixture(scope="module")
def found(tmp_path_factory, quick_compiles):
    """What was found with one device, here, and with two, in a process that has them: by what and how many."""
    path = tmp_path_factory.mktemp("devices")
    with parallel_runs.counting():
        one = parallel_runs.run_all(1, path / "one")
    parallel_runs.stopped(parallel_runs.FUSED, 1, path / "fused-1")
    parallel_runs.stopped(parallel_runs.HOSTED, 1, path / "hosted-1")
    in_a_process_with_two_devices(CHECKED, str(path))
    with (path / "found.pickle").open("rb") as file:
        two = pickle.load(file)
    assert two["devices"] == 2
    one["resumed fused"] = parallel_runs.resumed(path / "fused-2", 1)
    return {(name, n): what for n, run in ((1, one), (2, two)) for name, what in run.items()}


def assert_same(here, there):
    """Up to rounding."""
    for name in ("records", "evaluations"):
        assert len(here[name]) > 0
        pd.testing.assert_frame_equal(here[name], there[name], rtol=1e-4)
    assert here["networks"].keys() == there["networks"].keys()
    for name, values in here["networks"].items():
        np.testing.assert_allclose(there["networks"][name], values, **ROUNDING, err_msg=name)


SMALL = """
import jax, numpy as np
import tiny
from bellsketch.deep.setup import set_up
from bellsketch.deep.training import training

def end(devices):
    setup = set_up(tiny.config(frames=500, records=1, evaluations=0), devices)
    for now in training(setup):
        state = now.state
    return state

one, two = end(1), end(2)
assert len(one.replay.rows.action.sharding.device_set) == 1
shards = {part.data.shape for part in two.replay.rows.action.addressable_shards}
assert shards == {(1, one.replay.rows.action.shape[1], 2)}, shards
assert int(two.learner.updates[0]) > 50
for a, b in zip(jax.tree.leaves(one.learner.network), jax.tree.leaves(two.learner.network)):
    if hasattr(a, "dtype"):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)
print("the same")
"""
"""Less than the rest of this file, which takes a minute and more."""


def in_a_process_with_two_devices(*arguments):
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", ""))),
    }
    done = subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_small_run_is_as_on_one_device():
    assert "the same" in in_a_process_with_two_devices(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["fused", "hosted"])
def test_a_run_is_as_on_one_device(found, loop):
    assert_same(found[loop, 1], found[loop, 2])
    assert found[loop, 1]["records"]["loss"].notna().any()


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "devices"), [("fused", 1), ("fused", 2), ("hosted", 2)])
def test_goes_on_from_the_other_number_of_devices(found, loop, devices):
    assert_same(found[f"resumed {loop}", devices], found[loop, 1])


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["fused", "atari"])
class TestStates:
    def test_are_as_on_one_device(self, found, loop):
        here, there = (found[f"{loop} state", n]["state"] for n in (1, 2))
        assert here.keys() == there.keys()
        learnt = 0
        for name, values in here.items():
            if name.startswith(("learner.", "tally.")):
                np.testing.assert_allclose(there[name], values, **ROUNDING, err_msg=name)
                learnt += "optimiser" in name and bool(np.any(values))
            else:
                np.testing.assert_array_equal(there[name], values, err_msg=name)
        assert learnt > 4

    def test_are_split_by_environments_and_all_else_is_everywhere(self, found, loop):
        axes = {"environments": 1, "step": 1, "stacked": 1, "returns": 1, "replay.rows": 2, "failure.batch": 1}
        seen = set()
        for name, (shape, parts, devices) in found[f"{loop} state", 2]["layout"].items():
            expected = list(shape)
            for part, axis in axes.items():
                if re.match(rf"{part}(\.|$)", name):
                    expected[axis] //= 2
                    seen.add(part)
            assert (parts, devices) == ({tuple(expected)}, 2), name
        assert seen == set(axes) - {{"fused": "stacked", "atari": "environments"}[loop]}

    def test_of_one_device_are_there_alone(self, found, loop):
        for name, (shape, parts, devices) in found[f"{loop} state", 1]["layout"].items():
            assert (parts, devices) == ({shape}, 1), name

    def test_stay_where_they_are(self, found, loop):
        """Or a program would be compiled for where they are now."""
        for n in (1, 2):
            first, second, third = found[f"{loop} state", n]["compiled for each record"]
            assert first > 1
            assert second >= 1
            assert third == 0

    def test_are_described(self, found, loop):
        one, two = (found[f"{loop} state", n]["description"] for n in (1, 2))
        assert two == f"{one} on 2 devices"


@pytest.mark.slow
class TestUpdates:
    def test_gradients_and_drawn_transitions_cross_and_nothing_else(self, found):
        crossing = found["atari state", 2]["collectives"]
        assert {name for name, _ in crossing} == {"all-reduce"}  # the replay stays where it is
        parameters = sum(
            values.size for name, values in found["atari state", 2]["state"].items() if "learner.network" in name
        )
        assert sorted(map(floats, (what for _, what in crossing)))[-1] == parameters + 1  # the loss beside them
        frames = max(math.prod(shape) for _, what in crossing for kind, shape in shapes(what) if kind == "u8")
        assert frames == 8 * 4 * 84 * 84  # a batch of eight stacks of four
        assert found["atari state", 1]["collectives"] == []

    def test_each_device_does_about_half(self, found):
        one, two = (found["atari state", n]["flops"] for n in (1, 2))
        assert 0.45 < two / one < 0.65


def shapes(text):
    """Of HLO: ``f32[2,3]{1,0}`` and the like."""
    return [(kind, [int(n) for n in size.split(",") if n]) for kind, size in re.findall(r"(\w+)\[([\d,]*)\]", text)]


def floats(text):
    return sum(math.prod(shape) for kind, shape in shapes(text) if kind == "f32")


@pytest.mark.slow
def test_a_failure_is_told_with_its_batch(found):
    assert re.match(r"seed \d, frame \d+: the loss or a parameter would not be finite", found["failed", 2]["message"])
    batch = found["failed", 2]["batch"]
    assert batch["reward"].shape == (64,)
    assert np.isinf(batch["observation"]).any() or np.isinf(batch["next_observation"]).any()


class TestBadInput:
    @pytest.fixture(autouse=True)
    def twelve(self, monkeypatch):
        monkeypatch.setattr(jax, "local_devices", lambda backend: [object()] * 12)

    @pytest.mark.parametrize(
        ("devices", "options", "message"),
        [
            (0, {}, "devices=0: a run needs at least 1"),
            (-2, {}, "devices=-2: a run needs at least 1"),
            (
                13,
                {},
                r"devices=13: JAX finds 12 here, of kind cpu; pass at most so many\. To try it on a CPU, set"
                " XLA_FLAGS=--xla_force_host_platform_device_count=13 and pass --device cpu",
            ),
            (
                3,
                {},
                "devices=3, num_environments=4: each device takes equally many, and 4 is not a multiple of 3; pass"
                " --num-environments 12, or another --devices",  # 3 and 6 do not go with an update every 4 steps
            ),
            (8, {"num_environments": 12}, "--num-environments 8 or 16, or"),
            (
                4,
                {"environment": "gym:Mixed-v0", "num_environments": 12, "update_period": 2, "groups": 2},
                "num_environments=12: each device takes equally many, of each of 2 groups, and 12 is not a multiple of"
                " 8; pass --num-environments 8 or 16, or fewer --groups, or another --devices",
            ),
            (
                6,
                {"environment": "pong", "num_environments": 256, "frames": 10_000},
                "of each of 4 groups, and 256 is not a multiple of 24; pass --num-environments 252 or 288, or another",
            ),
            (
                4,
                {"batch_size": 66},
                "devices=4, batch_size=66: each device takes equally many, and 66 is not a multiple of 4; pass"
                " --batch-size 64 or 68, or another --devices",
            ),
            (4, {"batch_size": 3}, "--batch-size 4, or another --devices"),
        ],
    )
    def test_is_named(self, devices, options, message):
        with pytest.raises(bs.InputError, match=message):
            set_up(tiny.config(**options), devices)

    def test_from_python(self):
        with pytest.raises(bs.InputError, match="devices=0"):
            train("dqn", "Catch-bsuite", devices=0)

    @pytest.mark.parametrize("command", ["train", "resume"])
    def test_on_the_command_line(self, command, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr("bellsketch.cli.resume.read_config", lambda path: tiny.config())
        arguments = {"train": ["dqn", "Catch-bsuite", "--out", str(tmp_path / "run")], "resume": [str(tmp_path)]}
        assert main([command, *arguments[command], "--device", "cpu", "--devices", "99"]) == 2
        assert "devices=99: JAX finds 12 here" in " ".join(capsys.readouterr().err.split())
        assert not list(tmp_path.iterdir())


class Stub:
    """A device with memory of its own."""

    def __init__(self, left):
        self._left = left

    def memory_stats(self):
        return {"bytes_limit": 10_000_000 + self._left, "bytes_in_use": 10_000_000}


def test_a_replay_may_be_as_large_as_all_devices_hold_in_equal_parts():
    setup = tiny.setup(replay_capacity=200_000)
    loop, needed = setup.runner.loop, setup.replay_bytes / 0.9
    for left, fits in (
        ([needed], True),
        ([needed / 2] * 2, True),
        ([needed, needed / 3], False),
        ([needed / 2], False),
    ):
        loop.devices = Devices()
        loop.devices.devices = [Stub(math.ceil(each) + 10) for each in left]
        if fits:
            check_memory(setup)
        else:
            with pytest.raises(bs.AllocationError, match=r"a replay of 200,000 steps for 1 seed.* or more --devices"):
                check_memory(setup)


def test_the_host_must_have_room_for_a_checkpoint(monkeypatch):
    setup = tiny.setup(replay_capacity=200_000)
    setup.runner.loop.devices = Devices()
    setup.runner.loop.devices.devices = [Stub(10**12)]
    monkeypatch.setattr("bellsketch.deep.setup.available_bytes", lambda: 2 * setup.replay_bytes)
    with pytest.raises(bs.AllocationError, match="with room for a checkpoint on the host"):
        check_memory(setup)
    monkeypatch.setattr("bellsketch.deep.setup.available_bytes", lambda: 3 * setup.replay_bytes)
    check_memory(setup)


def test_one_device_is_none_of_this():
    devices = find_devices(1, tiny.config())
    state = object()
    assert len(devices) == 1
    assert devices.hold(state) is state
    assert devices.shape(state) is state
    assert devices.split(state) is state
    assert devices.one(state) is state
    assert devices.share_out(state, state) == (state, state)
