"""Where records go besides the run directory: anything that is called with each :class:`Progress`.

Nothing is written before the first record: a run first claims its directory, which must not hold anything by then.
"""

import functools
import importlib.util
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bellsketch.core.errors import InputError
from bellsketch.deep.config import TrainingConfig
from bellsketch.deep.training import Progress

Tracker = Callable[[Progress], None]
SHOWN = ("mean_return", "loss", "epsilon", "episodes")


def tensorboard_tracker(path: Path) -> Tracker:
    """Event files for TensorBoard."""
    _require("tensorboardX", "tensorboard")
    from tensorboardX import SummaryWriter

    @functools.cache
    def writer() -> Any:
        return SummaryWriter(str(path))

    def track(progress: Progress) -> None:
        for name, value in scalars(progress).items():
            writer().add_scalar(name, value, progress.frames)
        writer().flush()

    return track


def wandb_tracker(config: TrainingConfig, path: Path) -> Tracker:
    """A run of Weights & Biases."""
    _require("wandb", "wandb")
    import wandb

    @functools.cache
    def run() -> Any:
        name = path / "wandb_id"
        if not name.exists():
            name.write_text(uuid.uuid4().hex, encoding="utf-8")
        ours = name.read_text(encoding="utf-8")
        return wandb.init(project="bellsketch", config=config.plain(), dir=str(path), resume="allow", id=ours)

    return lambda progress: run().log(scalars(progress), step=progress.frames)


def scalars(progress: Progress) -> dict[str, float]:
    """Everything a record says, by seed, but what is not known: the loss before the first update, and so on."""
    found = {f"{name}/seed_{row['seed']}": float(row[name]) for row in progress.records for name in SHOWN}
    found |= {f"evaluation/seed_{row['seed']}": float(row["mean_return"]) for row in progress.evaluations}
    found["frames_per_second"] = progress.frames_per_second
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _require(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise InputError(
            f"{extra}: needs {module}, which is not installed; pip install {module}, or leave the flag out"
        )
