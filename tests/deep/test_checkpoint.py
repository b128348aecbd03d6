"""Checkpoints: bit for bit what was saved, and never anything else, whatever happened to the files."""

import functools
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bellsketch as bs
import saving
from bellsketch.deep import checkpoint
from bellsketch.deep.checkpoint import Checkpoints

PAYLOAD = np.array([0x7FC12345, 0xFF800001, 0x80000000, 0x00000001], np.uint32).view(np.float32)
"""Two NaNs with something in them, -0.0 and the smallest number."""

LEAVES = {
    "float32": lambda: jnp.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, np.pi], jnp.float32),
    "payload": lambda: PAYLOAD.copy(),
    "bfloat16": lambda: jnp.array([np.nan, -0.0, 1.5], jnp.bfloat16),
    "uint8": lambda: jnp.arange(256, dtype=jnp.uint8).reshape(4, 64),
    "bool": lambda: jnp.array([[True, False, True]]),
    "int32": lambda: jnp.array([-(2**31), 2**31 - 1], jnp.int32),
    "float": lambda: jnp.float32(-0.0),
    "int": lambda: jnp.int32(7),
    "truth": lambda: jnp.array(True),
    "empty": lambda: jnp.zeros((0, 3), jnp.bfloat16),
    "key": lambda: jax.random.key(3),
    "keys": lambda: jax.random.split(jax.random.key(4, impl="rbg"), (2, 3)),
    "no keys": lambda: jax.random.split(jax.random.key(4), (0,)),
    "old key": lambda: jax.random.PRNGKey(3),
    "NumPy": lambda: np.arange(6.0).reshape(2, 3),
    "NumPy, transposed": lambda: np.arange(6).reshape(2, 3).T,
    "NumPy, a number": lambda: np.float64(0.1),
}


def bits(leaf):
    data = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return np.asarray(data).tobytes()


def assert_same(found, expected):
    """Structure, kind, type and every bit."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if hasattr(b, "dtype"):
            assert isinstance(a, jax.Array) == isinstance(b, jax.Array)
            assert (a.shape, a.dtype, bits(a)) == (b.shape, b.dtype, bits(b))
        else:
            assert a is b


@eqx.filter_jit
def trained(key, width):
    """A network with functions in it, and an optimiser after its first update."""
    network = eqx.nn.MLP(4, 3, width, 2, key=key)
    parameters = eqx.filter(network, eqx.is_inexact_array)
    optimiser = optax.adam(1e-3)
    return network, optimiser.update(parameters, optimiser.init(parameters))[1]


def learner(seed=0, width=8):
    network, optimiser = trained(jax.random.key(seed), width)
    replay = np.random.default_rng(seed).integers(0, 256, (50, 84, 84), dtype=np.uint8)
    return {"network": network, "optimiser": optimiser, "replay": replay, "key": jax.random.key(seed), "none": None}


@pytest.fixture
def two(tmp_path):
    """Checkpoints at steps 1 and 2."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2):
        checkpoints.save(step, saving.state(step), {"step": step})
    return checkpoints


def restore(checkpoints):
    """The newest; it must be what was saved at its step."""
    step, state, extra = checkpoints.restore(saving.state(0))
    assert_same(state, saving.state(step))
    assert extra["step"] == step
    return step


class TestRoundTrip:
    @pytest.mark.parametrize("name", LEAVES)
    def test_leaf(self, tmp_path, name):
        leaf = LEAVES[name]()
        Checkpoints(tmp_path).save(5, leaf)
        step, found, extra = Checkpoints(tmp_path).restore(leaf)
        assert (step, extra) == (5, {})
        assert_same(found, leaf)

    @pytest.mark.parametrize("abstract", [False, True])
    def test_learner(self, tmp_path, abstract):
        Checkpoints(tmp_path).save(5, learner(seed=1))
        like = learner(seed=2)
        if abstract:
            like = {**eqx.filter_eval_shape(lambda: like), "replay": like["replay"]}
        _, found, _ = Checkpoints(tmp_path).restore(like)
        assert_same(eqx.filter(found, eqx.is_array_like), eqx.filter(learner(seed=1), eqx.is_array_like))
        x = jnp.arange(4.0)
        np.testing.assert_array_equal(found["network"](x), learner(seed=1)["network"](x))

    def test_a_replay_on_the_host_can_be_written_to(self, tmp_path):
        Checkpoints(tmp_path).save(5, learner())
        replay = Checkpoints(tmp_path).restore(learner())[1]["replay"]
        replay[0] = 0

    def test_what_is_restored_may_be_donated(self, tmp_path):
        Checkpoints(tmp_path).save(5, jnp.arange(1000))
        _, found, _ = Checkpoints(tmp_path).restore(jax.ShapeDtypeStruct((1000,), jnp.int32))
        step = jax.jit(lambda x: x.at[0].add(1), donate_argnums=0)
        assert step(step(found))[0] == 2

    def test_a_chosen_device(self, tmp_path):
        Checkpoints(tmp_path).save(5, jnp.arange(3))
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        found = Checkpoints(tmp_path).restore(jax.ShapeDtypeStruct((3,), jnp.int32, sharding=sharding))[1]
        assert found.committed
        assert not Checkpoints(tmp_path).restore(jnp.arange(3))[1].committed

    def test_only_what_is_not_an_array(self, tmp_path):
        Checkpoints(tmp_path).save(5, {"f": len, "number": 1})
        assert Checkpoints(tmp_path).restore({"f": max, "number": 2}) == (5, {"f": max, "number": 2}, {})

    def test_extra(self, tmp_path):
        generator = np.random.default_rng(0)
        extra = {
            "a": [1, 2.5, None, True, "ö", {}],
            "b": {"raw": b"\x00\xff", "": b""},
            "rng": generator.bit_generator.state,
        }
        Checkpoints(tmp_path).save(5, {}, extra)
        assert Checkpoints(tmp_path).restore({})[2] == extra

    @pytest.mark.parametrize(
        ("extra", "message"),
        [
            ({"a": [0, np.int64(1)]}, r"extra\['a'\]\[1\]=.*no int64"),
            ({"a": (1,)}, r"extra\['a'\]=\(1,\).*no tuple"),
            ({"a": {1: 2}}, r"extra\['a'\] has the key 1"),
            ({"__bytes__": 2}, "extra has the key '__bytes__'"),
        ],
    )
    def test_extra_that_json_would_change(self, tmp_path, extra, message):
        with pytest.raises(bs.InputError, match=message):
            Checkpoints(tmp_path).save(5, {}, extra)
        assert not list(tmp_path.iterdir())

    def test_says_nothing(self, tmp_path, capfd):
        Checkpoints(tmp_path).save(5, learner())
        Checkpoints(tmp_path).restore(learner())
        assert capfd.readouterr() == ("", "")

    def test_a_relative_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Checkpoints(Path("here")).save(5, jnp.arange(3))
        assert Checkpoints(tmp_path / "here").steps() == [5]


class TestKeeping:
    @pytest.mark.parametrize("keep", [1, 2, 3])
    def test_the_newest(self, tmp_path, keep):
        checkpoints = Checkpoints(tmp_path, keep)
        for step in (1, 5, 10, 11):
            checkpoints.save(step, saving.state(step), {"step": step})
        assert checkpoints.steps() == [1, 5, 10, 11][-keep:]
        assert len(list(tmp_path.iterdir())) == keep
        assert restore(checkpoints) == 11

    @pytest.mark.parametrize("step", [1, 2])
    def test_no_step_back(self, two, step):
        with pytest.raises(bs.InputError, match=rf"step={step}: .*0002 is there already"):
            two.save(step, saving.state(step))
        assert restore(two) == 2

    def test_bad_arguments(self, tmp_path):
        with pytest.raises(bs.InputError, match="keep=0"):
            Checkpoints(tmp_path, keep=0)
        with pytest.raises(bs.InputError, match="step=-1"):
            Checkpoints(tmp_path).save(-1, {})

    def test_nothing_was_saved(self, tmp_path):
        for path in (tmp_path, tmp_path / "no" / "such"):
            assert Checkpoints(path).restore({}) is None
            assert Checkpoints(path).steps() == []


def damage_truncate(file):
    file.write_bytes(file.read_bytes()[:-1])


def damage_empty(file):
    file.write_bytes(b"")


def damage_lengthen(file):
    file.write_bytes(file.read_bytes() + b"\n")


def damage_flip(file, place):
    data = bytearray(file.read_bytes())
    data[int(place * (len(data) - 1))] ^= 1 << 5  # in text this changes the case of a letter
    file.write_bytes(data)


DAMAGES = {
    "truncated": damage_truncate,
    "empty": damage_empty,
    "longer": damage_lengthen,
    "first byte": functools.partial(damage_flip, place=0.0),
    "some byte": functools.partial(damage_flip, place=0.4),
    "last byte": functools.partial(damage_flip, place=1.0),
    "deleted": Path.unlink,
}
OFTEN = ("truncated", "some byte")


class TestDamage:
    @pytest.mark.parametrize(
        "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in OFTEN)) for kind in DAMAGES]
    )
    def test_to_any_file_is_found(self, two, kind):
        """The one before is used, and the file named."""
        newest = two.path / f"{2:012d}"
        whole = two.path.parent / "whole"
        shutil.copytree(newest, whole)
        files = sorted(file.relative_to(newest) for file in newest.rglob("*") if file.is_file())
        assert len(files) >= 8
        for name in files:
            if (newest / name).stat().st_size:
                DAMAGES[kind](newest / name)
            else:
                DAMAGES["deleted"](newest / name)
            with pytest.warns(bs.BellsketchWarning, match=f"{name} (is|has).*; going on from step 1"):
                assert restore(two) == 1
            shutil.rmtree(newest)
            shutil.copytree(whole, newest)
        assert restore(two) == 2

    def test_to_all(self, two):
        for step in two.steps():
            damage_flip(two.path / f"{step:012d}" / "manifest", 0.5)
        with pytest.raises(bs.InputError, match=r"no checkpoint there is intact \(.*2/manifest.*1/manifest.*; put"):
            restore(two)

    def test_a_directory_without_a_manifest(self, two):
        (two.path / f"{3:012d}").mkdir()
        with pytest.warns(bs.BellsketchWarning, match="3/manifest is missing; going on from step 2"):
            assert restore(two) == 2

    def test_is_deleted_by_the_next_save(self, two):
        damage_flip(two.path / f"{2:012d}" / "extra.json", 0.5)
        with pytest.warns(bs.BellsketchWarning):
            restore(two)
        two.save(3, saving.state(3), {"step": 3})
        assert two.steps() == [1, 3]  # the damaged one is none of the two that are kept

    def test_is_overwritten(self, two):
        damage_flip(two.path / f"{2:012d}" / "extra.json", 0.5)
        two.save(2, saving.state(2), {"step": 2})
        assert two.steps() == [1, 2]
        assert restore(two) == 2

    def test_other_files_do_no_harm(self, two):
        (two.path / f"{3:012d}").write_text("")
        for name in ("3", "notes"):
            (two.path / name).mkdir()
        (two.path / f"{2:012d}" / ".DS_Store").write_text("")
        assert restore(two) == 2


class TestStopped:
    """Something stops a save at any place in it; what was saved before is used, and the next save clears up."""

    @pytest.mark.parametrize("keep", [1, 2])
    @pytest.mark.parametrize("stage", ["write_arrays", "replace_text", "_checksums", "rename", "rmtree"])
    def test_between(self, tmp_path, monkeypatch, stage, keep):
        checkpoints = Checkpoints(tmp_path, keep)
        for step in range(1, keep + 1):
            checkpoints.save(step, saving.state(step), {"step": step})
        owner = {"rename": Path, "rmtree": shutil}.get(stage, checkpoint)

        def stop(*args, **kwargs):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(owner, stage, stop)
            with pytest.raises(KeyboardInterrupt):
                checkpoints.save(keep + 1, saving.state(keep + 1), {"step": keep + 1})
        if stage == "rmtree":  # the new one was complete by then
            assert restore(Checkpoints(tmp_path, keep)) == keep + 1
        else:
            with pytest.warns(bs.BellsketchWarning, match=rf"{keep + 1}\.part was not finished; going on from"):
                assert restore(Checkpoints(tmp_path, keep)) == keep
        Checkpoints(tmp_path, keep).save(keep + 2, saving.state(keep + 2), {"step": keep + 2})
        assert len(list(tmp_path.iterdir())) == keep
        assert restore(checkpoints) == keep + 2

    def test_the_first_save(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            patch.delattr(Path, "rename")
            with pytest.raises(AttributeError):
                Checkpoints(tmp_path).save(1, saving.state(1))
        with pytest.warns(bs.BellsketchWarning, match="not finished; there is no other"):
            assert Checkpoints(tmp_path).restore(saving.state(1)) is None

    def test_killed_at_random_moments(self, tmp_path):
        generator = np.random.default_rng(0)
        paths = [tmp_path / name for name in "abc"]
        commands = ([sys.executable, saving.__file__, str(path)] for path in paths)
        children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        for path, child in zip(paths, children, strict=True):
            first = child.stdout.readline()
            time.sleep(generator.uniform(0.1, 0.6))
            child.kill()
            reported = (first + child.stdout.read()).splitlines()
            child.wait()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step = restore(Checkpoints(path))
            assert step >= int(reported[-1])
            Checkpoints(path).save(step + 1, saving.state(step + 1), {"step": step + 1})
            assert restore(Checkpoints(path)) == step + 1


class TestAnotherStructure:
    @pytest.mark.parametrize(
        ("like", "message"),
        [
            ({"a": jnp.zeros(3), "b": {"c": jnp.zeros((2, 2))}}, r"\['b'\]\['c'\] has shape \[2\] there, \[2, 2\]"),
            ({"a": jnp.zeros(3, bool), "b": {"c": jnp.zeros(2)}}, r"\['a'\] has dtype float32 there, bool"),
            ({"a": jnp.zeros(3)}, r"\['b'\]\['c'\] is not an array in `like`"),
            ({"a": jnp.zeros(3), "b": {"c": 1.0}}, r"\['b'\]\['c'\] is not an array in `like`"),
            ({"a": jnp.zeros(3), "b": {"c": jnp.zeros(2)}, "d": jnp.zeros(1)}, r"\['d'\] of `like` is not there"),
        ],
    )
    def test_the_first_leaf_that_differs_is_named(self, tmp_path, like, message):
        Checkpoints(tmp_path).save(1, {"a": jnp.zeros(3), "b": {"c": jnp.zeros(2)}})
        with pytest.raises(bs.InputError, match=f"{1:012d}/state: leaf {message}.*; restore it with"):
            Checkpoints(tmp_path).restore(like)

    def test_keys_of_another_kind(self, tmp_path):
        Checkpoints(tmp_path).save(1, jax.random.key(0))
        with pytest.raises(bs.InputError, match="leaf state has dtype key<fry> there, key<rbg> in"):
            Checkpoints(tmp_path).restore(jax.random.key(0, impl="rbg"))

    def test_a_wider_network(self, tmp_path):
        Checkpoints(tmp_path).save(1, learner()["network"])
        like = eqx.filter_eval_shape(lambda: learner(width=9)["network"])
        with pytest.raises(bs.InputError, match=r"leaf \.layers\[0\]\.weight has shape \[8, 4\] there, \[9, 4\] in"):
            Checkpoints(tmp_path).restore(like)

    def test_precision_that_jax_does_not_have_now(self, tmp_path):
        Checkpoints(tmp_path).save(1, np.zeros(3))
        with pytest.raises(bs.InputError, match="no float64 for leaf state; set jax_enable_x64"):
            Checkpoints(tmp_path).restore(jax.ShapeDtypeStruct((3,), np.float64))
