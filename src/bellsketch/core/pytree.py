"""Frozen dataclasses that JAX can look inside."""

import dataclasses
import typing
from collections.abc import Iterable
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """A field that is part of the structure (hashable, fixed under jit), not a leaf."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static))
def pytree(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen dataclass and a JAX pytree node.

    JAX rebuilds nodes with tracers, batched leaves or bare placeholders inside. Rebuilding therefore skips
    ``__init__``, so that ``__post_init__`` validates what users pass and nothing else.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    if hasattr(cls, "__post_init__"):  # which takes lists as well as arrays, and says what is wrong in words
        typing.no_type_check(cls.__init__)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = tuple(f.name for f in fields if not f.metadata.get("static"))
    meta = tuple(f.name for f in fields if f.metadata.get("static"))

    def flatten(node: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(node, n) for n in data), tuple(getattr(node, n) for n in meta)

    def flatten_with_keys(node: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, aux = flatten(node)
        return tuple((jax.tree_util.GetAttrKey(n), leaf) for n, leaf in zip(data, leaves, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], leaves: Iterable[Any]) -> T:
        node: T = object.__new__(cls)
        for name, value in zip(data + meta, (*leaves, *aux), strict=True):
            object.__setattr__(node, name, value)
        return node

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def freeze(node: Any, **values: Any) -> None:
    """Set normalised field values from ``__post_init__`` of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(node, name, value)
