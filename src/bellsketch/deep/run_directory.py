"""A directory that holds one training run: its config, its records, and checkpoints to go on from."""

import concurrent.futures
import io
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from bellsketch.core.errors import InputError
from bellsketch.deep.checkpoint import Checkpoints
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.loops.loop import LoopState
from bellsketch.deep.setup import Setup
from bellsketch.deep.transition import Transition
from bellsketch.runs.claimed_directory import ClaimedDirectory
from bellsketch.runs.files import replace_text
from bellsketch.runs.provenance import provenance

PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "optax", "orbax-checkpoint", "gymnax", "gymnasium", "ale-py")
EVALUATIONS = "evaluations.csv"
TABLES = ("records.csv", EVALUATIONS, "times.csv")
CONTENTS = (
    *TABLES,
    "failure.npz",
    "figure.png",
    "play.gif",
    "tensorboard",
    "wandb",
    "wandb_id",
    "networks",
    "checkpoints",
)
CHECKPOINT_SECONDS = 120.0
COPIES_APART = 100.0
"""Times what a copy of a state takes, from one to the next: a hundredth of the time, however large it is."""

Row = dict[str, Any]
"""Of a table."""


class Restored(NamedTuple):
    """What a run goes on from."""

    state: LoopState
    evaluating: bool
    """Whether an evaluation of its networks was under way, and is to be made again."""


class TrainingDirectory:
    """``config.json``, ``records.csv``, ``evaluations.csv``, ``times.csv``, ``networks/`` and ``checkpoints/``.

    Records do not depend on when a run was stopped or resumed; times do, and are kept apart.
    """

    def __init__(self, path: Path, config: TrainingConfig, *, seconds: float = CHECKPOINT_SECONDS, fresh: bool = False):
        about = {"training": config.plain(), **provenance(PACKAGES)}
        self.path = path
        self._claimed = ClaimedDirectory(
            path, about, identity=("training", "bellsketch"), contents=CONTENTS, fresh=fresh
        )
        if (path / "checkpoints").exists():
            self._claimed.warn_of_other_commit(about["commit"])
        self._checkpoints = Checkpoints(path / "checkpoints")
        self._networks = Checkpoints(path / "networks", keep=1)
        self._seconds, self._last_save, self._copying = seconds, time.monotonic(), 0.0
        self._writer = concurrent.futures.ThreadPoolExecutor(1)
        self._writing: concurrent.futures.Future[None] | None = None
        self._began, self._spent = time.monotonic(), self._claimed.config["seconds"]

    def release(self) -> None:
        """Let other runs in."""
        try:
            self._wait()
        finally:
            self._writer.shutdown()
            self._release()

    def _release(self) -> None:
        self._claimed.config["seconds"] = round(self._spent + time.monotonic() - self._began, 1)
        self._claimed.save_config()
        self._claimed.release()

    def note(self, **found: Any) -> None:
        """Add to the config what was found out as the run began. It goes on with that: what is there stays."""
        self._claimed.config["found"] = {**found, **self._claimed.config.get("found", {})}
        self._claimed.save_config()

    def is_done(self, total_frames: int) -> bool:
        """Whether the run has ended: its networks are saved last. Its checkpoints may have been deleted since."""
        return total_frames in self._networks.steps()

    def restore(self, setup: Setup) -> Restored | None:
        """The state of the last good checkpoint, with the tables cut back to it; None if none was ever saved."""
        found = self._checkpoints.restore(setup.shape())
        if found is None and (frames := self._networks.steps()):  # saved after a checkpoint, which somebody deleted
            raise InputError(
                f"out={self.path}: has networks at frame {max(frames):,} of a run that is not done, but its"
                " checkpoints/, from which it would go on, has none; put them back from a copy, or train into it with"
                " --fresh to begin again"
            )
        step, state, extra = (-1, None, {}) if found is None else found
        evaluating = bool(extra.get("evaluating"))
        self._networks.forget_after(-1)
        for name in TABLES:
            _cut_back(self.path / name, step - 1 if evaluating and name == EVALUATIONS else step)
        if state is None:
            return None
        self._networks.save(step, state.learner.network)  # those that are there may be of another step, or damaged
        return Restored(setup.runner.restore_environments(state, extra.get("environments")), evaluating)

    def append(self, records: list[Row], evaluations: list[Row], frames_per_second: float) -> None:
        """Add to the tables."""
        timed = [{"frames": records[0]["frames"], "frames_per_second": round(frames_per_second, 1)}]
        for name, rows in zip(TABLES, (records, evaluations, timed), strict=True):
            if rows:
                _append(self.path / name, pd.DataFrame(rows))

    def checkpoint(self, setup: Setup, state: LoopState, *, evaluating: bool = False, now: bool) -> None:
        """Save if it is time to, beside what comes next; or ``now``, and wait for it.

        Args:
          setup: of the run.
          state: what to save.
          evaluating: whether an evaluation of this state is under way, whose rows are not in the table yet.
          now: whether or not it is time to.
        """
        due = time.monotonic() >= self._last_save + max(self._seconds, COPIES_APART * self._copying)
        if now or (due and (self._writing is None or self._writing.done())):
            self._wait()
            frames = int(state.steps[0]) * setup.config.loop.frame_skip
            environments = setup.runner.save_environments()
            begun = time.monotonic()
            copy = jax.tree.map(_copy, state)  # the next step writes over the state
            self._copying, self._last_save = time.monotonic() - begun, time.monotonic()
            extra: dict[str, Any] = {"evaluating": evaluating}
            if environments is not None:
                extra["environments"] = environments
            self._writing = self._writer.submit(self._save, frames, copy, extra)
            if now:
                self._wait()

    def _save(self, frames: int, state: LoopState, extra: dict[str, Any]) -> None:
        self._checkpoints.save(frames, state, extra)
        self._networks.save(frames, state.learner.network)

    def _wait(self) -> None:
        """Until what is being saved is there; raises what went wrong."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def keep_batch(self, batch: Transition) -> Path:
        """Write a batch down for inspection."""
        path = self.path / "failure.npz"
        arrays: dict[str, Any] = {name: np.asarray(value) for name, value in batch._asdict().items()}
        np.savez(path, **arrays)
        return path

    @property
    def last_good(self) -> str:
        """The last checkpoint, in words."""
        self._wait()
        steps = self._checkpoints.steps()
        return f"the last good checkpoint is at frame {max(steps):,}" if steps else "there is no checkpoint yet"


def has_checkpoint(path: Path) -> bool:
    """Whether there is something that a run can go on from."""
    return bool(Checkpoints(path / "checkpoints").steps())


def read_networks(path: Path, like: LoopState) -> tuple[int, Any]:
    """The latest networks of a run, with their frame; those of a whole state, if the others are damaged or gone."""
    problem = InputError(f"run={path}: has no networks yet; let it train until its first checkpoint")
    try:
        if (found := Checkpoints(path / "networks").restore(like.learner.network)) is not None:
            return found[0], found[1]
    except InputError as damage:
        problem = damage
    if (whole := Checkpoints(path / "checkpoints").restore(like)) is None:
        raise problem
    return whole[0], whole[1].learner.network


def read_table(path: Path, name: str) -> pd.DataFrame:
    """``records``, ``evaluations`` or ``times`` of a run."""
    file = path / f"{name}.csv"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a line may be being written
    return pd.read_csv(io.StringIO(whole)) if whole else pd.DataFrame()


def _copy(leaf: Any) -> Any:
    """On the host, in memory of its own."""
    if not isinstance(leaf, jax.Array):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.array(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    # What is on the host already may be the very memory of the array.
    on_host = all(device.platform == "cpu" for device in leaf.devices())
    return np.array(leaf) if on_host else np.asarray(leaf)


def _append(path: Path, rows: pd.DataFrame) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        rows.to_csv(file, index=False, header=file.tell() == 0, lineterminator="\n")
        file.flush()
        os.fsync(file.fileno())


def _cut_back(path: Path, step: int) -> None:
    """Forget rows after a step; the last line may have been cut short by a crash."""
    if not path.exists():
        return
    header, *lines = path.read_text(encoding="utf-8").split("\n")[:-1] or [""]
    column = header.split(",").index("frames") if "frames" in header else 0
    kept = [line for line in lines if line.count(",") == header.count(",") and int(line.split(",")[column]) <= step]
    if kept:
        replace_text(path, "\n".join([header, *kept]) + "\n")
    else:
        path.unlink()
