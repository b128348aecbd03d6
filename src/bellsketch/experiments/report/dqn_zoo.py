"""Results of DQN Zoo: a table for each agent, as it publishes them."""

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bellsketch.core.errors import InputError
from bellsketch.experiments.report.results import COLUMNS, IMPORTED, Results
from bellsketch.experiments.suite.suite import Setting

NEEDED = {"environment_name": "environment", "seed": "seed", "frame": "frames", "eval_episode_return": "mean_return"}
"""Its columns, and ours."""
AGENTS = {"dqn": "dqn", "c51": "c51", "qrdqn": "qr_dqn", "iqn": "iqn"}
"""Those that we have too, by the names of its files."""
SUFFIX = " (DQN Zoo)"


def read_dqn_zoo(path: Path) -> Results:
    """From ``AGENT.csv``, a directory of such, or the archive ``results.tar.gz`` of them."""
    if not path.exists():
        raise InputError(f"dqn_zoo={path}: there is no such file or directory")
    tables = {name: _read(path, name, data) for name, data in _tables(path)}
    if not tables:
        raise InputError(f"dqn_zoo={path}: has no CSV file in it; pass AGENT.csv, or results.tar.gz")
    settings = tuple(Setting(name + SUFFIX, AGENTS.get(name, "dqn"), {IMPORTED: name}) for name in tables)
    records = pd.concat([table.assign(setting=name + SUFFIX) for name, table in tables.items()], ignore_index=True)
    speeds = [
        {"setting": name + SUFFIX, "environment": key, "frames_per_second": float(rows.median())}
        for name, table in tables.items()
        for key, rows in table.groupby("environment")["speed"]
    ]
    return Results(
        settings,
        tuple(sorted(set(records["environment"]))),
        {name + SUFFIX: tuple(sorted(set(table["seed"]))) for name, table in tables.items()},
        {},
        records[COLUMNS],
        pd.DataFrame(speeds),
    )


def _tables(path: Path) -> Iterator[tuple[str, Any]]:
    """Names of agents, with files to read."""
    if path.is_dir():
        yield from ((file.stem, file) for file in sorted(path.glob("*.csv")))
    elif path.suffix == ".csv":
        yield path.stem, path
    else:
        try:
            with tarfile.open(path) as archive:
                for member in archive.getmembers():
                    if member.isfile() and member.name.endswith(".csv") and (data := archive.extractfile(member)):
                        yield Path(member.name).stem, io.BytesIO(data.read())
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise InputError(f"dqn_zoo={path}: is no archive ({error}); pass AGENT.csv, or results.tar.gz") from None


def _read(path: Path, name: str, data: Any) -> pd.DataFrame:
    try:
        table = pd.read_csv(data)
    except ValueError as error:  # pandas' own errors, and those of text that is none
        raise InputError(f"dqn_zoo={path}: {name}.csv cannot be read as a table ({error})") from None
    if missing := [column for column in NEEDED if column not in table]:
        raise InputError(
            f"dqn_zoo={path}: {name}.csv has no column {missing[0]!r}, only {', '.join(map(str, table.columns[:8]))};"
            " pass a table of DQN Zoo"
        )
    speed, episodes = table.get("train_frame_rate", float("nan")), table.get("eval_num_episodes", 1)
    chosen = table[list(NEEDED)].rename(columns=NEEDED)
    for column in ("seed", "frames", "mean_return"):
        if not pd.api.types.is_numeric_dtype(chosen[column]):
            raise InputError(f"dqn_zoo={path}: {name}.csv has text among its {column}; pass a table of DQN Zoo")
    # Its first row may be an evaluation before any training.
    found = chosen.assign(kind="evaluation", speed=speed, episodes=episodes)[chosen["frames"] > 0]
    if found.empty:
        raise InputError(f"dqn_zoo={path}: {name}.csv has no frames of training in it")
    return found
