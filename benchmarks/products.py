"""Four ways in which deep agents multiply matrices, against others in the same run.

python benchmarks/products.py     prints a table and writes benchmarks/results/products.json, or products-gpu.json

Convolutions as products with patches, against XLA's own: forward and backward pass of Atari's torso, a batch of 32 in
each step of a scan. Goals of Sketch-DQN with the matrices of all rewards in one product, against a product with the
matrix of each transition. The target network's pass for the updates of a turn, one after the other, as is done on a
CPU, against all at once, as is done elsewhere. Goals over three steps with the matrices of all sums of rewards,
against interpolated ones.
"""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from bellsketch.core.backups import PRECISE
from bellsketch.deep.agents.factory import make_agent
from bellsketch.deep.config import AgentConfig
from bellsketch.deep.environments.returns import Returns
from bellsketch.deep.networks import Torso, TorsoOptions

RESULTS = Path(__file__).parent / "results"
SCREEN, STEPS, BATCH = (84, 84, 4), 4, 32
TURN = 16
FEATURES, REWARDS, GOALS = 401, 3, 1_024
STEPS_OF_RETURN, DISCOUNT = 3, 0.99
ROUNDS = 5
KEY = jax.random.key(0)


def with_convolutions(torso: Torso, screen: jax.Array) -> jax.Array:
    """What the torso computes, but for the order of the weights in a filter."""
    x = screen.astype(jnp.float32)[None] / 255
    for layer, (channels, size, stride) in zip(torso.convolutions, torso.patches, strict=True):
        filters = layer.weight.T.reshape(size, size, -1, channels)
        axes = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, filters, (stride, stride), "VALID", dimension_numbers=axes)
        x = jax.nn.relu(x + layer.bias)
    return torso.last(x.ravel())


def updates(network: Callable[[Torso, jax.Array], jax.Array]) -> Callable[[], Any]:
    """Steps down the gradient of some loss, in a scan."""
    parameters, rest = eqx.partition(Torso(KEY, SCREEN, TorsoOptions()), eqx.is_inexact_array)
    screens = jax.random.randint(KEY, (STEPS, BATCH, *SCREEN), 0, 256).astype(jnp.uint8)

    def loss(parameters: Any, batch: jax.Array) -> jax.Array:
        torso = eqx.combine(parameters, rest)
        return jnp.mean(jax.vmap(lambda screen: network(torso, screen))(batch) ** 2)

    def step(parameters: Any, batch: jax.Array) -> tuple[Any, None]:
        gradient = jax.grad(loss)(parameters, batch)
        return jax.tree.map(lambda p, g: p - 1e-4 * g, parameters, gradient), None

    run = jax.jit(lambda parameters, screens: jax.lax.scan(step, parameters, screens)[0])
    return lambda: run(parameters, screens)


def goals(one: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]) -> Callable[[], Any]:
    """Of many transitions."""
    matrices = jax.random.normal(KEY, (REWARDS, FEATURES, FEATURES))
    sketches = jax.random.normal(KEY, (GOALS, FEATURES))
    which = jax.random.randint(KEY, (GOALS,), 0, REWARDS)
    run = jax.jit(jax.vmap(one, (None, 0, 0)))
    return lambda: run(matrices, sketches, which)


def passes(over_updates: Callable[[Callable[[jax.Array], jax.Array], jax.Array], jax.Array]) -> Callable[[], Any]:
    """Of Atari's torso, for all updates of a turn."""
    torso = Torso(KEY, SCREEN, TorsoOptions())
    screens = jax.random.randint(KEY, (TURN, BATCH, *SCREEN), 0, 256).astype(jnp.uint8)
    run = jax.jit(lambda screens: over_updates(jax.vmap(torso), screens))
    return lambda: run(screens)


def all_at_once(matrices: jax.Array, sketch: jax.Array, which: jax.Array) -> jax.Array:
    products = jnp.matmul(matrices.reshape(-1, FEATURES), sketch, precision=PRECISE)
    return products.reshape(REWARDS, FEATURES)[which]


def its_own(matrices: jax.Array, sketch: jax.Array, which: jax.Array) -> jax.Array:
    return jnp.matmul(matrices[which], sketch, precision=PRECISE)


def over_steps(interpolate: bool) -> Callable[[], Any]:
    """Goals of a turn's updates, of Atari's rewards over several steps."""
    n, atari = STEPS_OF_RETURN, {"slope_factor": 10.0, "anchor_margin": 0.1, "grid_margin": 0.0}
    options = AgentConfig(FEATURES, num_steps=n, interpolate=interpolate, **atari)
    backup = make_agent("sketch_dqn", options, Returns(-10.0, 10.0, (-1.0, 0.0, 1.0), (-1.0, 1.0)), DISCOUNT).backup
    rewards = jnp.sum(jax.random.randint(KEY, (TURN * BATCH, n), -1, 2) * DISCOUNT ** jnp.arange(n), axis=1)
    sketches = jax.random.uniform(KEY, (TURN * BATCH, FEATURES))
    run = jax.jit(jax.vmap(backup, (0, None, 0)))
    return lambda: run(rewards, DISCOUNT**n, sketches)


def milliseconds(*functions: Callable[[], Any]) -> list[float]:
    """The median of each, taken in turns so that what else the machine does befalls all of them."""
    times = np.zeros((ROUNDS + 1, len(functions)))  # the first compiles
    for i in range(ROUNDS + 1):
        for j, function in enumerate(functions):
            begun = time.perf_counter()
            jax.block_until_ready(function())
            times[i, j] = time.perf_counter() - begun
    return [float(1e3 * t) for t in np.median(times[1:], axis=0)]


def main() -> None:
    np.testing.assert_allclose(goals(all_at_once)(), goals(its_own)(), atol=1e-3)
    patches, convolutions = milliseconds(updates(lambda torso, screen: torso(screen)), updates(with_convolutions))
    together, apart = milliseconds(goals(all_at_once), goals(its_own))
    in_turn, at_once = milliseconds(passes(jax.lax.map), passes(lambda each, screens: jax.vmap(each)(screens)))
    listed, interpolated = over_steps(False), over_steps(True)
    np.testing.assert_allclose(listed(), interpolated(), atol=1e-2)
    sums, between = milliseconds(listed, interpolated)
    results = {
        "an update of a torso": {"as products": patches / STEPS, "as convolutions": convolutions / STEPS},
        f"{GOALS} goals": {"all matrices at once": together, "each with its own": apart},
        f"passes for {TURN} updates": {"in turn": in_turn, "at once": at_once},
        f"{TURN * BATCH} goals over {STEPS_OF_RETURN} steps": {"of listed sums": sums, "interpolated": between},
    }
    for name, found in results.items():
        (ours, quick), (other, slow) = found.items()
        Console().print(f"{name}: {ours} {quick:.1f} ms, {other} {slow:.1f} ms, {slow / quick:.1f} times as long")
    record = {
        "command": "python benchmarks/products.py",
        "date": time.strftime("%Y-%m-%d"),
        "versions": {"python": platform.python_version(), "jax": jax.__version__, "equinox": eqx.__version__},
        "machine": f"{os.cpu_count()} cores, JAX on {jax.devices()[0].device_kind}",
        "milliseconds": results,
    }
    out = RESULTS / ("products-gpu.json" if jax.default_backend() == "gpu" else "products.json")
    out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
