"""Public names: what ``__all__`` lists. Each has a docstring and a place in the reference."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = ("bellsketch", "bellsketch.deep")
"""The modules whose ``__all__`` is the library."""
DIRECTIVE = re.compile(r"^::: ([\w.]+)", re.MULTILINE)


def problems(modules: tuple[str, ...] = MODULES, reference: Path = ROOT / "docs" / "reference") -> list[str]:
    """What is public and has no docstring, or no place in the reference; and what is there and is not public."""
    loaded = [importlib.import_module(name) for name in modules]
    undocumented = [f"{name} has no docstring" for module in loaded for name in _undocumented(module)]
    listed = {name for page in sorted(reference.glob("*.md")) for name in DIRECTIVE.findall(page.read_text("utf-8"))}
    public = {f"{module.__name__}.{name}" for module in loaded for name in module.__all__}
    missing = [f"{name} is on no page of {reference.name}/" for name in sorted(public - listed)]
    return undocumented + missing + [f"{name} is in the reference and not public" for name in sorted(listed - public)]


def _undocumented(module: ModuleType) -> Iterator[str]:
    for name in module.__all__:
        member, path = getattr(module, name), f"{module.__name__}.{name}"
        if inspect.ismodule(member):
            if not member.__doc__:
                yield path
            for inner in _own_names(member):
                yield from _of_member(getattr(member, inner), f"{path}.{inner}")
        else:
            yield from _of_member(member, path)


def _own_names(module: ModuleType) -> list[str]:
    """Of a module that is a public name itself and has no ``__all__``: what is defined there."""
    return [n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__]


def _of_member(member: Any, path: str) -> Iterator[str]:
    if inspect.isclass(member):
        own = vars(member).get("__doc__")
        if not own or own.startswith(f"{member.__name__}("):  # which dataclasses write themselves
            yield path
        for name, value in vars(member).items():
            if not name.startswith("_") and _is_code(value) and not _documented_by(member, name):
                yield f"{path}.{name}"
    elif inspect.isroutine(member) and not member.__doc__:
        yield path


def _is_code(value: Any) -> bool:
    wrapped = getattr(value, "__func__", value)
    return isinstance(value, property) or inspect.isfunction(wrapped) or hasattr(value, "attrname")


def _documented_by(cls: type, name: str) -> bool:
    """By the class, or by one that it derives from."""
    return any(name in vars(base) and vars(base)[name].__doc__ for base in cls.__mro__)
