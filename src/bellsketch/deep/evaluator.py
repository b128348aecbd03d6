"""The evaluations of a run: beside training where environments are on the host, and in between where they are not."""

import concurrent.futures
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.deep.loops.hosted import HostedRunner
from bellsketch.deep.loops.loop import LoopState, seed_of
from bellsketch.deep.run_directory import Row
from bellsketch.deep.setup import Setup


class Evaluator:
    """Evaluates one state after the other; use it as a context.

    On the host, environments leave the device and most cores idle for much of the time. On the device there is nothing
    to be gained.
    """

    def __init__(self, setup: Setup):
        self._setup = setup
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        settings: Any = jax.config
        self._device = settings.jax_default_device  # which other threads do not know of
        self._stopped = threading.Event()
        self._rows: list[Row] = []
        self._pending: concurrent.futures.Future[list[Row]] | None = None

    def __enter__(self) -> "Evaluator":
        return self

    def __exit__(self, *_: object) -> None:
        """What is under way is lost."""
        self._stopped.set()
        self._pool.shutdown()

    @property
    def is_pending(self) -> bool:
        """Whether one has begun whose rows were not yet taken."""
        return self._pending is not None

    def wait(self, seconds: float) -> bool:
        """Whether none is under way, or was done within so many seconds."""
        return self._pending is None or not concurrent.futures.wait([self._pending], seconds).not_done

    def start(self, state: LoopState) -> None:
        """Evaluate the networks of a state, when the one before is done."""
        self._rows = self.take()
        steps, networks = int(state.steps[0]), state.learner.network
        if isinstance(self._setup.runner, HostedRunner):
            copies = jax.tree.map(jnp.copy, networks)  # the next update writes over them
            self._pending = self._pool.submit(self._evaluate_there, steps, copies)
        else:
            self._rows += self._evaluate(steps, networks)

    def take(self) -> list[Row]:
        """The rows that are done and were not yet taken."""
        if self._pending is not None and self._pending.done():
            self._rows, self._pending = self._rows + self._pending.result(), None
        rows, self._rows = self._rows, []
        return rows

    def _evaluate_there(self, steps: int, networks: Any) -> list[Row]:
        """In another thread, on the same device."""
        with jax.default_device(self._device):
            return self._evaluate(steps, networks)

    def _evaluate(self, steps: int, networks: Any) -> list[Row]:
        config, runner = self._setup.config, self._setup.runner
        given, epsilon = config.evaluation, config.evaluation.evaluation_epsilon
        keys = jax.vmap(lambda key: jax.random.fold_in(key, steps))(self._setup.keys)
        if isinstance(runner, HostedRunner) and given.evaluation_frames is not None:
            played = runner.evaluate_frames(keys, networks, given.evaluation_frames, epsilon, self._stopped)
        else:
            stopped = (self._stopped,) if isinstance(runner, HostedRunner) else ()
            together = runner.evaluate(keys, networks, given.evaluation_episodes, epsilon, *stopped)
            played = [seed_of(together, i) for i in range(config.seeds)]
        return [
            {
                "seed": config.seed + i,
                "frames": steps * config.loop.frame_skip,
                "episodes": len(episodes.returns),
                "mean_return": _mean(episodes.returns),
                "mean_length": _mean(episodes.lengths),
            }
            for i, episodes in enumerate(played)
        ]


def _mean(numbers: Any) -> float:
    return float(np.mean(np.asarray(numbers, float))) if len(numbers) else float("nan")
