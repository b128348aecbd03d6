"""The command line: one file a command."""

import importlib
import sys
import warnings
from typing import Annotated, Any, Union

import tyro
from rich.console import Console
from rich.markup import escape

import bellsketch
from bellsketch.core.errors import BellsketchError, BellsketchWarning, InputError, UnknownNameError

COMMANDS = {
    "demo": "Demo",
    "solve": "Solve",
    "compare": "Compare",
    "explore": "Explore",
    "reproduce": "Reproduce",
    "bench": "Bench",
    "train": "Train",
    "resume": "Resume",
    "evaluate": "Evaluate",
    "play": "Play",
    "plot": "Plot",
    "suite": "SuiteCommand",
    "report": "Report",
    "doctor": "Doctor",
}
"""A command's module in this package, and its class there. Only the one that is called is imported."""
EXTRAS = {**dict.fromkeys(COMMANDS, "deep"), "explore": "explore", "suite": "cluster", "report": "cluster"}
"""What a command needs beyond the base install, if anything."""

MORE = (
    "bellsketch COMMAND --help shows the options of a command, --version which version this is; --tyro-print-completion"
    " bash (or zsh, fish) prints completion for a shell."
)


def main(arguments: list[str] | None = None) -> int:
    """Run ``bellsketch``; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"bellsketch {bellsketch.__version__}")
        return 0
    console = Console(stderr=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always", BellsketchWarning)
        warnings.showwarning = lambda message, category, *_: console.print(
            f"[yellow]warning:[/] {escape(str(message))}"
        )
        try:
            _parse(arguments)()
        except BellsketchError as error:
            console.print(f"[red]error:[/] {escape(str(error))}", soft_wrap=True)
            return 2
        except OSError as error:  # such as a directory that may not be written to, or a host that cannot be reached
            remedy = "" if error.filename is None else "; check the path, its permissions and the space left"
            console.print(f"[red]error:[/] {escape(str(error))}{remedy}")
            return 2
        except KeyboardInterrupt:
            return 130
    return 0


def _parse(arguments: list[str]) -> Any:
    name, *rest = arguments or ["--help"]
    if name.startswith("-"):
        return _parse_any([name, *rest])
    if name not in COMMANDS:
        raise UnknownNameError("command", name, COMMANDS)
    command, prog = _load(name), f"bellsketch {name}"
    parsed: Any = tyro.cli(command, prog=prog, args=rest)
    if hasattr(parsed, "with_preset"):  # defaults that depend on other arguments: read them again, over these
        return tyro.cli(command, prog=prog, args=rest, default=parsed.with_preset())
    return parsed


def _parse_any(arguments: list[str]) -> Any:
    """With every command whose dependencies are installed, for ``--help`` and shell completion."""
    every: list[Any] = []
    missing = []
    for name in COMMANDS:
        try:
            every.append(Annotated[_load(name), tyro.conf.subcommand(name, prefix_name=False)])  # type: ignore[misc]
        except InputError:
            missing.append(name)
    extras = {"explore" if EXTRAS[name] == "explore" else "cluster" for name in missing}  # which has deep in it
    remedy = f"pip install 'bellsketch[{','.join(sorted(extras))}]'"
    note = f"\n\nNot installed: {', '.join(missing)}. For these, {remedy}." if missing else ""
    description = f"{bellsketch.__doc__}\n\n{MORE}{note}"
    return tyro.cli(Union[tuple(every)], prog="bellsketch", description=description, args=arguments)  # type: ignore[call-overload]  # noqa: UP007


def _load(name: str) -> type:
    try:
        return getattr(importlib.import_module(f"bellsketch.cli.{name}"), COMMANDS[name])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("bellsketch"):
            raise
        raise InputError(
            f"bellsketch {name} needs {error.name}, which is not installed: pip install 'bellsketch[{EXTRAS[name]}]'"
        ) from None
