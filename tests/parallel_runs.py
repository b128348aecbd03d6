"""Small runs on so many devices. As a script: on two, in a process that has them; pickles what came of it."""

import contextlib
import itertools
import pickle
import re
import sys
import warnings
from pathlib import Path

import jax
import numpy as np

import bellsketch as bs
import tiny
import toy_environments  # noqa: F401, registers them
from bellsketch.cli import main
from bellsketch.deep.loops.hosted import HostedRunner
from bellsketch.deep.run import load_run, read_config, run_training
from bellsketch.deep.run_directory import TrainingDirectory
from bellsketch.deep.setup import set_up
from bellsketch.deep.training import training

FUSED = {"seeds": 2}
HOSTED = {
    "environment": "gym:Mixed-v0", "discount": 0.99, "seeds": 2, "frames": 800, "records": 3, "evaluations": 1,
    "num_environments": 8, "update_period": 4, "groups": 2,
}  # fmt: skip
BROKEN = HOSTED | {"environment": "gym:Broken-v0"}
ATARI = {
    "environment": "pong", "small": True, "num_environments": 8, "update_period": 4, "batch_size": 8, "frames": 1_000,
    "replay_capacity": 400, "learning_starts": 80, "threads": 1, "evaluations": 0, "groups": 2,
}  # fmt: skip
COMPILES: list[str] = []
"""One entry for each program that was compiled, or found in the cache."""


def plain(tree):
    """Names and values of what is in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): value(leaf) for path, leaf in leaves}


def value(leaf):
    return np.asarray(jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def tables(run):
    return {"records": run.records, "evaluations": run.evaluations, "networks": plain(run.networks)}


def whole(setup, out=None):
    """From beginning to end."""
    return tables(run_training(setup, out, progress=False))


def stopped(options, devices, out):
    """The first two records, with a checkpoint after each."""
    setup = set_up(tiny.config(**options), devices)
    directory = TrainingDirectory(out, setup.config, seconds=0.0)
    stream = training(setup, directory)
    for _ in itertools.islice(stream, 2):
        directory._wait()
    stream.close()
    directory.release()
    setup.runner.close()
    assert load_run(out).frames < setup.config.frames


def resumed(out, devices):
    """The rest."""
    return whole(set_up(read_config(out), devices), out)


def layout(state):
    """Of each array the shape, that of its parts, and on how many devices these are."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): (
            leaf.shape,
            {part.data.shape for part in leaf.addressable_shards},
            len({part.device for part in leaf.addressable_shards}),
        )
        for path, leaf in leaves
    }


def collectives(compiled):
    """What crosses: names with types."""
    kinds = "all-reduce|all-gather|collective-permute|all-to-all|reduce-scatter"
    return [(name, what) for what, name in re.findall(rf"= (.*?) ({kinds})\(", compiled.as_text())]


def advanced(setup):
    """A state after three records, and what the programs that made it are like."""
    compiled = [len(COMPILES)]
    for now in itertools.islice(training(setup), 3):
        compiled.append(len(COMPILES))
        state = now.state
    compiled = np.diff(compiled).tolist()
    found = {"state": plain(state), "layout": layout(state), "compiled for each record": compiled}
    if isinstance(setup.runner, HostedRunner):  # where updates are a program of their own
        program = setup.runner._learn.lower(setup.shape()).compile()
        found |= {"collectives": collectives(program), "flops": program.cost_analysis()["flops"]}
    setup.runner.close()
    return found | {"description": setup.describe()}


def failed(devices, out):
    """What is said of observations that are not finite, and the batch that was kept."""
    try:
        whole(set_up(tiny.config(**BROKEN), devices), out)
    except bs.DivergenceError as error:
        with np.load(out / "failure.npz") as batch:
            return {"message": str(error).replace(str(out), "OUT"), "batch": dict(batch)}


def run_all(devices, out):
    fused, hosted = (set_up(tiny.config(**options), devices) for options in (FUSED, HOSTED))
    return {
        "devices": len(jax.devices()),
        "atari state": advanced(set_up(tiny.config(**ATARI), devices)),
        "fused state": advanced(fused),
        "fused": whole(fused, out / "whole"),
        "hosted": whole(hosted),
    }


@contextlib.contextmanager
def counting():
    """Programs that are compiled."""

    def count(name, *_, **__):
        if "backend_compile" in name:
            COMPILES.append(name)

    jax.monitoring.register_event_duration_secs_listener(count)
    yield
    jax.monitoring.unregister_event_duration_listener(count)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    warnings.filterwarnings("ignore", module="gymnasium")
    with counting():
        found = run_all(2, out / "two")
    found["failed"] = failed(2, out / "failed")
    found["resumed hosted"] = resumed(out / "hosted-1", 2)
    assert main(["resume", str(out / "fused-1"), "--device", "cpu", "--devices", "2", "--quiet"]) == 0
    found["resumed fused"] = tables(load_run(out / "fused-1"))
    stopped(FUSED, 2, out / "fused-2")
    with (out / "found.pickle").open("wb") as file:
        pickle.dump(found, file)
