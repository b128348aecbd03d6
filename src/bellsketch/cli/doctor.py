"""``bellsketch doctor``."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import re
from typing import Any

import jax
import numpy as np
import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import bellsketch

NAMES = re.compile(r"[\w.-]+")
"""The name at the start of a requirement."""
ROUNDING = 1e-12
"""The residual of a small solve in float64; in float32 it would be 1e-7."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    remedy: str = ""
    """Empty: all is well."""


@dataclasses.dataclass(frozen=True)
class Doctor:
    """What is installed, what JAX computes on, and what to do about what is missing.

    Example: bellsketch doctor
    """

    json: bool = False
    """Print one JSON object instead of a table."""

    def __call__(self) -> None:
        found = findings()
        if self.json:
            print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2))
            return
        table = Table("", "found", "to change it", box=box.SIMPLE_HEAD)
        for finding in found:
            mark = "[yellow]–[/]" if finding.remedy else "[green]✓[/]"
            table.add_row(f"{mark} {finding.what}", escape(finding.found), escape(finding.remedy))
        Console().print(table)


def findings() -> list[Finding]:
    """Everything that commands depend on."""
    memory = psutil.virtual_memory()
    return [
        Finding("bellsketch", f"{bellsketch.__version__} on Python {platform.python_version()}"),
        Finding("machine", f"{os.cpu_count()} cores, {memory.available / 1e9:.0f} of {memory.total / 1e9:.0f} GB free"),
        _jax(),
        _devices(),
        _precision(),
        *(_extra(name, requirements) for name, requirements in extras().items()),
    ]


def extras() -> dict[str, list[str]]:
    """Packages that each extra asks for, by its name; without the one that builds the site."""
    metadata: Any = importlib.metadata.metadata("bellsketch")
    found: dict[str, list[str]] = {name: [] for name in metadata.get_all("Provides-Extra") or [] if name != "docs"}
    for requirement in importlib.metadata.requires("bellsketch") or []:
        needed, _, condition = requirement.partition(";")
        for name in found.keys() & re.findall(r"extra == ['\"](.+?)['\"]", condition):
            if "[cuda12]" in needed:
                found[name].append("jax-cuda12-plugin")  # JAX itself is there in any case
            elif (match := NAMES.match(needed)) and match.group() != "bellsketch":
                found[name].append(match.group())
    return found


def _jax() -> Finding:
    return Finding("JAX", f"{jax.__version__}, jaxlib {importlib.metadata.version('jaxlib')}")


def _devices() -> Finding:
    kinds = [str(device.device_kind) for device in jax.devices()]
    words = ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))
    if all(device.platform == "cpu" for device in jax.devices()):
        return Finding("devices", words, "for an NVIDIA GPU: pip install 'bellsketch[cuda]'; all works without, slower")
    return Finding("devices", words)


def _precision() -> Finding:
    """What tabular results are computed in, whatever JAX's own setting is: seen from one."""
    walk = bellsketch.MRP(np.eye(2)[::-1], [1.0, 0.0], 0.5)
    solution = bellsketch.solve(walk, num_features=10, return_range=(0.0, 2.0))
    setting = "on" if jax.config.read("jax_enable_x64") else "off"
    words = f"{solution.sketch.dtype} for tabular methods; jax_enable_x64 is {setting} and does not matter to them"
    exact = solution.sketch.dtype == np.float64 and solution.fixed_point.residual < ROUNDING
    return Finding("precision", words, "" if exact else "check the installation of NumPy and SciPy")


def _extra(name: str, packages: list[str]) -> Finding:
    there, missing = [], []
    for package in packages:
        try:
            there.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    remedy = f"pip install 'bellsketch[{name}]'" if missing else ""
    found = ", ".join(there) + (f"; missing: {', '.join(missing)}" if missing else "")
    return Finding(f"extra {name}", found.removeprefix("; "), remedy)
