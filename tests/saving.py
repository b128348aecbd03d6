"""Saves one checkpoint after another until it is killed; says so after each."""

import itertools
import logging
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from bellsketch.deep.checkpoint import Checkpoints


def state(step):
    """Tells its step in every part."""
    frames = jnp.full((100, 84, 84), step % 251, jnp.uint8)
    return {
        "frames": frames,
        "weights": jnp.arange(1000.0) + step,
        "key": jax.random.key(step),
        "step": jnp.int32(step),
    }


if __name__ == "__main__":
    checkpoints = Checkpoints(Path(sys.argv[1]), keep=1)
    for step in itertools.count():
        checkpoints.save(step, state(step), {"step": step})
        if logging.root.handlers:
            sys.exit("logging was set up")
        print(step, flush=True)
