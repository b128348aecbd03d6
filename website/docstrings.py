"""A griffe extension: what our decorators and docstrings mean, for the reference."""

import re
from typing import Any

import griffe

PYTREE = "bellsketch.core.pytree"
ROLE = re.compile(r":(?:func|class|meth|data|attr|mod|math):`~?([^`]+)`")


class Bellsketch(griffe.Extension):
    """``@pytree`` makes dataclasses; ``:func:`name``` is a name in code."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """While it is read: griffe looks for dataclasses as soon as all is."""
        for decorator in cls.decorators:
            if isinstance(decorator.value, griffe.Expr) and decorator.value.canonical_path == f"{PYTREE}.pytree":
                decorator.value = griffe.ExprName("dataclasses.dataclass")
        for member in cls.members.values():
            value = getattr(member, "value", None) if member.is_attribute else None
            if isinstance(value, griffe.ExprCall) and value.canonical_path == f"{PYTREE}.static":
                defaults = (
                    argument.value for argument in value.arguments if getattr(argument, "name", "") == "default"
                )
                member.value = next(defaults, None)

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Roles are code."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
