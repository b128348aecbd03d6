"""Pictures that commands write."""

from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase

from bellsketch.core.errors import InputError


def check_picture(option: str, path: Path) -> None:
    """Raise unless a picture can be written to a file of that name; before anything is computed for it."""
    if path.suffix[1:] not in FigureCanvasBase.filetypes:
        kinds = ", ".join(FigureCanvasBase.filetypes)
        raise InputError(f"{option}={path}: its ending says what kind of picture it is; choose one of {kinds}")
