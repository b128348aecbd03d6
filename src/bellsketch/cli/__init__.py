"""The command line: one file a command."""

import sys
import warnings
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

import bellsketch
from bellsketch.cli.bench import Bench
from bellsketch.cli.compare import Compare
from bellsketch.cli.demo import Demo
from bellsketch.cli.reproduce import Reproduce
from bellsketch.cli.solve import Solve
from bellsketch.core.errors import BellsketchError, BellsketchWarning

Command = (
    Annotated[Bench, tyro.conf.subcommand("bench", prefix_name=False)]
    | Annotated[Demo, tyro.conf.subcommand("demo", prefix_name=False)]
    | Annotated[Compare, tyro.conf.subcommand("compare", prefix_name=False)]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce", prefix_name=False)]
    | Annotated[Solve, tyro.conf.subcommand("solve", prefix_name=False)]
)


def main(arguments: list[str] | None = None) -> int:
    """Run ``bellsketch``; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"bellsketch {bellsketch.__version__}")
        return 0
    command = tyro.cli(Command, prog="bellsketch", description=bellsketch.__doc__, args=arguments)  # type: ignore[call-overload]
    console = Console(stderr=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always", BellsketchWarning)
        warnings.showwarning = lambda message, category, *_: console.print(
            f"[yellow]warning:[/] {escape(str(message))}"
        )
        try:
            command()
        except BellsketchError as error:
            console.print(f"[red]error:[/] {escape(str(error))}")
            return 2
        except OSError as error:  # such as a full disk, or a directory that may not be written to
            console.print(f"[red]error:[/] {escape(str(error))}; check the path, its permissions and the space left")
            return 2
        except KeyboardInterrupt:
            return 130
    return 0
