"""Training from Python, and what comes out of it: ``train`` and ``load_run`` give a :class:`Run`."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep import run_directory
from bellsketch.deep.checking import checked
from bellsketch.deep.config import HostConfig, ReturnsConfig, TrainingConfig
from bellsketch.deep.curves import Curves, plot_runs
from bellsketch.deep.environments.returns import Returns
from bellsketch.deep.evaluation import Episodes
from bellsketch.deep.loops.hosted import HostedRunner
from bellsketch.deep.presets import find_preset
from bellsketch.deep.progress import progress_line
from bellsketch.deep.run_directory import TrainingDirectory
from bellsketch.deep.setup import Setup, check_memory, set_up
from bellsketch.deep.trackers import Tracker
from bellsketch.deep.training import training

EVALUATION = 2**32 - 2
"""Folded into keys of evaluations. To fold in i may give the same as to split and take the i-th: no split has so many,
nor a run so many steps, which evaluations while training fold in.
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """What was learnt, and how."""

    setup: Setup
    networks: Any
    """With an axis of seeds in front."""
    frames: int
    """Of each seed, so far."""
    curves: Curves

    @property
    def config(self) -> TrainingConfig:
        """What the run was told."""
        return self.setup.config

    @property
    def records(self) -> pd.DataFrame:
        """While training: returns, losses, ε."""
        return self.curves.records

    @property
    def evaluations(self) -> pd.DataFrame:
        """Of whole episodes, almost greedy."""
        return self.curves.evaluations

    def evaluate(self, num_episodes: int | None = None, *, seed: int = 0, epsilon: float | None = None) -> Episodes:
        """Whole episodes of each seed's network, [s, e]; by default ``evaluation_episodes``, with the ε, of the
        configuration.
        """
        num_episodes = self.config.evaluation.evaluation_episodes if num_episodes is None else num_episodes
        if num_episodes < 1:
            raise InputError(f"num_episodes={num_episodes}: must be at least 1")
        keys, epsilon = self._evaluation(seed, epsilon)
        return jax.device_get(self.setup.runner.evaluate(keys, self.networks, num_episodes, epsilon))

    def evaluate_frames(self, frames: int, *, seed: int = 0, epsilon: float | None = None) -> list[Episodes]:
        """All episodes of each seed's network that end within so many frames: the paper's evaluation, with 500,000.

        For environments on the host. Frames had better be more than an episode can have.
        """
        runner, skip = self.setup.runner, self.config.loop.frame_skip
        if not isinstance(runner, HostedRunner):
            raise InputError(
                f"frames={frames}: {self.config.environment!r} plays whole episodes, as it is not on the host; pass"
                " episodes"
            )
        if frames < skip:
            raise InputError(f"frames={frames}: a step has {skip}; pass more of them")
        keys, epsilon = self._evaluation(seed, epsilon)
        played = runner.evaluate_frames(keys, self.networks, frames, epsilon)
        if any(len(episodes.returns) == 0 for episodes in played):
            raise InputError(f"frames={frames}: no episode ended within them; pass more")
        return played

    def _evaluation(self, seed: int, epsilon: float | None) -> tuple[jax.Array, float]:
        """Keys of each seed, which are not those of training whatever the two seeds are, and ε."""
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), EVALUATION), self.config.seeds)
        epsilon = self.config.evaluation.evaluation_epsilon if epsilon is None else epsilon
        if not 0 <= epsilon <= 1:
            raise InputError(f"epsilon={epsilon}: a probability lies in [0, 1]")
        return keys, epsilon

    def plot(self) -> Figure:
        """Learning curves."""
        return plot_runs([self.curves])


def train(
    agent: str,
    environment: str,
    *,
    frames: int | None = None,
    seeds: int = 1,
    seed: int = 0,
    preset: str | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    progress: bool = True,
    devices: int = 1,
    **options: Any,
) -> Run:
    """Train an agent.

    Args:
      agent: ``dqn``, ``c51``, ``qr_dqn``, ``iqn`` or ``sketch_dqn``.
      environment: a game of Atari, such as ``breakout``, or a name of Gymnax, such as ``Breakout-MinAtar``, or of
        Gymnasium, such as ``gym:CartPole-v1``.
      frames: of each seed; default: the preset's.
      seeds: runs side by side, from ``seed`` on.
      seed: the first.
      preset: ``paper``, ``minatar`` or ``small``; default: what suits the environment.
      out: a directory for the run, which continues one that was stopped there; default: keep nothing.
      fresh: discard what the directory holds.
      progress: show a line.
      devices: that the run is split among, of the kind that JAX prefers. Not part of the run: one that was stopped may
        go on with more or fewer.
      options: any field of the configurations: ``learning_rate=1e-3``, ``num_environments=8``, ``risk="cvar:0.1"``,
        ``return_high=10``, ``evaluations=0``, or of the agent's, such as ``features="gaussian"``.
    """
    config = make_config(agent, environment, frames=frames, seeds=seeds, seed=seed, preset=preset, **options)
    path = None if out is None else Path(out)
    returns = None if path is None or fresh else read_returns(path, config)
    return run_training(set_up(config, devices, returns), path, fresh=fresh, progress=progress)


def make_config(agent: str, environment: str, *, preset: str | None = None, **options: Any) -> TrainingConfig:
    """A preset with some options changed, wherever in the configuration they belong."""
    base = find_preset(preset, environment)
    parts: dict[str, Any] = {
        "options": base.options(agent),
        "learner": base.learner,
        "loop": base.loop,
        "host": HostConfig(),
        "evaluation": base.evaluation,
        "returns": ReturnsConfig(),
    }
    known = {field.name for field in dataclasses.fields(TrainingConfig)}
    parts |= checked(TrainingConfig, {name: options.pop(name) for name in parts if name in options})
    for name, part in parts.items():
        fields = {field.name for field in dataclasses.fields(part)} & set(options)
        parts[name] = dataclasses.replace(part, **checked(type(part), {key: options.pop(key) for key in fields}))
    if unknown := [key for key in options if key not in known]:
        every = {field.name for part in parts.values() for field in dataclasses.fields(part)}
        raise UnknownNameError(
            "option of the configuration", unknown[0], every | known - {*parts, "agent", "environment"}
        )
    if options.get("frames") is None:
        options["frames"] = base.frames
    options |= {"agent": agent, "environment": environment}
    return TrainingConfig(**checked(TrainingConfig, options), **parts)


def run_training(
    setup: Setup,
    out: Path | None = None,
    *,
    progress: bool = True,
    fresh: bool = False,
    checkpoint_seconds: float = run_directory.CHECKPOINT_SECONDS,
    trackers: Sequence[Tracker] = (),
) -> Run:
    """Train as configured, or what is missing of it."""
    config, directory = setup.config, None
    check_memory(setup)
    records: list[Any] = []
    evaluations: list[Any] = []
    networks, frames = None, 0
    try:
        if out is not None:
            directory = TrainingDirectory(out, config, seconds=checkpoint_seconds, fresh=fresh)
            directory.note(returns=dataclasses.asdict(setup.returns), agent=setup.agent.summary)
            setup = _as_begun(setup, out)
        with progress_line(progress) as show:
            for now in training(setup, directory):
                records += now.records
                evaluations += now.evaluations
                networks, frames = now.state.learner.network, now.frames
                for tracker in (show, *trackers):
                    tracker(now)
        if out is not None:
            return load_run(out, setup)
        return Run(
            setup, networks, frames, Curves(config, pd.DataFrame(records), pd.DataFrame(evaluations), config.agent)
        )
    finally:
        setup.runner.close()
        if directory is not None:
            directory.release()


def _as_begun(setup: Setup, path: Path) -> Setup:
    """With the returns that the run in a directory began with, whatever random play has shown since."""
    returns = read_returns(path, setup.config)
    if returns is None or returns == setup.returns:
        return setup
    return set_up(setup.config, len(setup.runner.loop.devices), returns)


def load_run(path: Path | str, setup: Setup | None = None) -> Run:
    """A run from its directory, finished or not."""
    path = Path(path)
    if setup is None:
        config = read_config(path)
        setup = set_up(config, returns=read_returns(path, config))
    frames, networks = run_directory.read_networks(path, setup.shape())
    return Run(setup, networks, frames, load_curves(path))


def load_curves(path: Path | str) -> Curves:
    """The tables of a run, from its directory."""
    config = read_config(Path(path))
    records, evaluations = (run_directory.read_table(Path(path), name) for name in ("records", "evaluations"))
    if records.empty:
        raise InputError(f"run={path}: has no records yet; let it train until its first")
    return Curves(config, records, evaluations, f"{config.agent}, {Path(path).resolve().name}")


def read_config(path: Path) -> TrainingConfig:
    """The configuration of a run."""
    file = path / "config.json"
    if not file.exists():
        raise InputError(f"run={path}: has no config.json; pass the directory that train wrote to")
    try:
        return TrainingConfig.from_plain(json.loads(file.read_text(encoding="utf-8"))["training"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not the config of a training run ({error}); pass a directory of train") from None


def read_returns(path: Path, config: TrainingConfig) -> Returns | None:
    """What a run of this configuration found of its returns as it began; None if no such thing is in the directory."""
    try:
        if read_config(path).plain() != config.plain():
            return None
    except InputError:  # who claims the directory, or loads a run from it, will say what it is
        return None
    file = path / "config.json"
    found = json.loads(file.read_text(encoding="utf-8")).get("found", {}).get("returns")
    try:
        return None if found is None else Returns(**checked(Returns, found))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file}: found.returns={found} are no returns ({error}); put the file back from a copy, or train with"
            " --fresh"
        ) from None
