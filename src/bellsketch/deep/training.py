"""Training runs: a generator that advances all seeds from record to record, and what keeps it safe."""

import contextlib
import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.core.errors import BellsketchError, DivergenceError, MissingRewardError
from bellsketch.deep.agents.sketch_dqn import SketchDQN
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.evaluator import Evaluator
from bellsketch.deep.loops.hosted import HostedRunner
from bellsketch.deep.loops.loop import LoopState, seed_of
from bellsketch.deep.run_directory import Row, TrainingDirectory
from bellsketch.deep.setup import Runner, Setup

SLICE = 20_000
"""Steps of all seeds in one call: enough to make calls cheap, few enough for failures, and on the device Ctrl-C, to be
noticed between them."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a run has come to at one of its records."""

    frames: int
    total_frames: int
    records: list[Row]
    """One for each seed."""
    evaluations: list[Row]
    """One for each seed, of an evaluation that is done since the last record; it may have begun earlier."""
    frames_per_second: float
    """Of all seeds together, since the last record, waiting included."""
    state: LoopState = dataclasses.field(repr=False)
    """Good until the run goes on, which reuses its memory."""


def training(setup: Setup, directory: TrainingDirectory | None = None) -> Iterator[Progress]:
    """Run to the end, from where the directory's last checkpoint is."""
    config, runner = setup.config, setup.runner
    plan = Plan(config)
    if directory is not None and directory.is_done(plan.total_frames):
        return
    restored = directory.restore(setup) if directory is not None else None
    state = runner.init(setup.keys) if restored is None else restored.state
    first = 0 if restored is None else plan.index(int(state.steps[0]))
    with _deferred() as interrupts, Evaluator(setup) as evaluator:
        if restored is not None and restored.evaluating:
            evaluator.start(state)
        begun = time.perf_counter()
        for index in range(first, plan.num_records):
            before = int(state.steps[0])
            state = _advance(runner, state, plan, index, interrupts)
            steps = int(state.steps[0])
            now = time.perf_counter()  # with what the record before had to wait for: an evaluation, a copy
            speed, begun = (steps - before) * config.loop.frame_skip * config.seeds / (now - begun), now
            if (failed := _failed(state)).any():
                raise _failure(setup, state, int(np.argmax(failed)), directory)
            records = _records(config, state)
            if evaluates := plan.evaluates(index):
                _wait(evaluator, interrupts)
                evaluator.start(state)
            # Not by its constructor, whose shapes are those of one seed.
            state = eqx.tree_at(lambda s: s.tally, state, jax.tree.map(jnp.zeros_like, state.tally))
            stopping = interrupts.count > 0  # asked once: a Ctrl-C after the checkpoint waits for the next one
            at_end = stopping or index + 1 == plan.num_records
            if at_end:
                _wait(evaluator, interrupts)
            evaluations = evaluator.take()
            if directory is not None:
                directory.append(records, evaluations, speed)
                if evaluates or not evaluator.is_pending:  # a later state could not make the evaluation again
                    directory.checkpoint(setup, state, evaluating=evaluator.is_pending, now=at_end)
            yield Progress(steps * config.loop.frame_skip, plan.total_frames, records, evaluations, speed, state)
            if stopping and index + 1 < plan.num_records:
                raise KeyboardInterrupt


class Interrupts:
    """Ctrl-C so far."""

    def __init__(self) -> None:
        self.count = 0
        self.at_once = threading.Event()
        """Set by the second."""


@contextlib.contextmanager
def _deferred() -> Iterator[Interrupts]:
    """The first Ctrl-C waits for the next record, so that nothing is lost; a second one only for programs under way.

    A third one is as usual. An exception while a program is under way may crash the interpreter when it ends.
    """
    received = Interrupts()
    if threading.current_thread() is not threading.main_thread():  # only there can signals be caught
        yield received
        return

    def handle(number: int, frame: Any) -> None:
        received.count += 1
        if received.count == 1:
            print("stopping at the next record; Ctrl-C again stops at once", file=sys.stderr)
        else:
            signal.signal(signal.SIGINT, before)  # first: a third one while the event is being set would wait for it
            received.at_once.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)


def _wait(evaluator: Evaluator, interrupts: Interrupts) -> None:
    """For an evaluation that is under way; a second Ctrl-C ends it."""
    while not evaluator.wait(0.2):
        if interrupts.at_once.is_set():
            raise KeyboardInterrupt


@dataclasses.dataclass(frozen=True)
class Plan:
    """When to do what: steps at random, then iterations, with records evenly spaced."""

    config: TrainingConfig

    @property
    def period(self) -> int:
        """Iterations between records."""
        iterations, evaluations = self.config.iterations, self.config.evaluation.evaluations
        return max(1, min(-(-iterations // self.config.records), iterations // max(1, evaluations)))

    @property
    def num_records(self) -> int:
        """The first is at the end of the steps at random."""
        return 1 + -(-self.config.iterations // self.period)

    @property
    def total_steps(self) -> int:
        """Of one seed, at the end."""
        return self.config.warm_up * self.config.loop.num_environments + self.config.iterations * self.config.loop.steps

    @property
    def total_frames(self) -> int:
        """Likewise."""
        return self.total_steps * self.config.loop.frame_skip

    def iterations_at(self, index: int) -> int:
        """Done by the end of a record."""
        return min(index * self.period, self.config.iterations)

    def index(self, steps: int) -> int:
        """The record that is next after one that ended with so many steps."""
        iterations = (steps - self.config.warm_up * self.config.loop.num_environments) // self.config.loop.steps
        return 1 + -(-iterations // self.period)

    def evaluates(self, index: int) -> bool:
        """Whether a record comes with an evaluation."""
        num, each = self.num_records - 1, self.config.evaluation.evaluations
        return index > 0 and index * each // num > (index - 1) * each // num


def _advance(runner: Runner, state: LoopState, plan: Plan, index: int, interrupts: Interrupts) -> LoopState:
    """Up to a record, or to the end of the slice in which a seed failed."""
    advance: Callable[..., LoopState] = runner.explore if index == 0 else runner.advance
    stopped = (interrupts.at_once,) if isinstance(runner, HostedRunner) else ()
    num = plan.config.warm_up if index == 0 else plan.iterations_at(index) - plan.iterations_at(index - 1)
    steps = plan.config.loop.num_environments if index == 0 else plan.config.loop.steps
    # In slices, because nothing can stop a program that is under way, and a record may be millions of frames away.
    at_once = max(1, SLICE // (steps * plan.config.seeds))
    for done in range(0, num, at_once):
        state = advance(state, min(at_once, num - done), *stopped)
        jax.block_until_ready(state)
        if interrupts.at_once.is_set():
            raise KeyboardInterrupt
        if _failed(state).any():
            break
    return state


def _failed(state: LoopState) -> np.ndarray:
    """Whether each seed did."""
    return np.asarray(state.failure.happened)


def _records(config: TrainingConfig, state: LoopState) -> list[Row]:
    """What happened since the last record. Missing: nothing ended, or nothing was learnt."""
    tally = jax.device_get(state.tally)
    return [
        {
            "seed": config.seed + i,
            "frames": int(state.steps[i]) * config.loop.frame_skip,
            "updates": int(state.learner.updates[i]),
            "epsilon": round(float(config.loop.epsilon(int(state.steps[i]))), 6),
            "episodes": int(tally.episodes[i]),
            "mean_return": _mean(tally.total_return[i], tally.episodes[i]),
            "loss": _mean(tally.total_loss[i], tally.updates[i]),
        }
        for i in range(config.seeds)
    ]


def _mean(total: Any, count: Any) -> float:
    return float(total) / int(count) if count else float("nan")


def _failure(setup: Setup, state: LoopState, index: int, directory: TrainingDirectory | None) -> BellsketchError:
    """What to raise when a seed's loss was not finite, with the batch kept for inspection."""
    failure = jax.device_get(seed_of(state.failure, index))
    kept = " The batch is this error's `batch`."
    if directory is not None:
        kept = f" The batch is in {directory.keep_batch(failure.batch)}; {directory.last_good}."
    where = f"seed {setup.config.seed + index}, frame {int(failure.steps) * setup.config.loop.frame_skip:,}"
    batch = failure.batch
    agent = setup.agent
    unknown = agent.unknown_rewards(batch.reward, batch.discount) if isinstance(agent, SketchDQN) else False
    error: MissingRewardError | DivergenceError
    if np.any(unknown):
        num = setup.config.options.num_steps
        payer, them = "the environment", "them"
        if num > 1:
            payer, them = f"{num} steps or fewer", "those that a single step may pay"
        error = MissingRewardError(
            f"{where}: {payer} paid {batch.reward[unknown][0]:g}, for which the agent has no coefficients"
            f" ({setup.returns.source}). Nothing was learnt from that batch. Pass --rewards with all of {them}, or"
            f" --reward-interval LOW HIGH.{kept}"
        )
    else:
        error = DivergenceError(
            f"{where}: the loss or a parameter would not be finite. Nothing was learnt from that batch. Try a smaller"
            f" --learning-rate, and look at the rewards and observations in the batch.{kept}"
        )
    error.batch = batch
    return error
