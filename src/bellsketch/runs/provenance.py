"""Where a result comes from: the source, the versions, the machine and the day."""

import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax


def provenance(packages: Iterable[str]) -> dict[str, Any]:
    """What to write beside a result so that it can be computed again, with the versions of these packages."""
    return {
        # Not bellsketch.__version__: the package as a whole imports more than a run may.
        "bellsketch": importlib.metadata.version("bellsketch"),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, JAX on {_device()}",
        "date": time.strftime("%Y-%m-%d"),
    }


def _device() -> str:
    """What JAX computes on here."""
    device: Any = jax.numpy.zeros(()).device
    return device.device_kind


def commit() -> str | None:
    """The commit of the source this runs from, marked if it was changed since; None if it is not a checkout."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    try:
        found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain", "-uno", "."], capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + (" with changes" if changes.strip() else "")
