"""Frozen dataclasses as JAX pytrees."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.core.pytree import freeze, pytree, static


@pytree
class Line:
    """Validates what users pass, and nothing else."""

    slope: float
    intercept: float = 0.0
    name: str = static(default="line")

    def __post_init__(self):
        if not isinstance(self.slope, int | float):
            raise TypeError("slope")
        freeze(self, slope=float(self.slope))

    def __call__(self, x):
        return self.slope * x + self.intercept


def test_static_fields_are_structure_and_the_others_leaves():
    leaves, structure = jax.tree.flatten(Line(2, 1.0, "a"))
    assert leaves == [2.0, 1.0]
    assert structure == jax.tree.structure(Line(3, 4.0, "a"))
    assert structure != jax.tree.structure(Line(2, 1.0, "b"))


def test_leaves_are_named():
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(Line(2))]
    assert paths == [".slope", ".intercept"]


def test_transformations_rebuild_without_validation():
    """Inside jit, grad and vmap the slope is no number; users' slopes still have to be."""
    assert jax.jit(lambda line: line(3.0))(Line(2)) == 6
    gradient = jax.grad(lambda line: line(3.0))(Line(2))
    assert isinstance(gradient, Line)
    assert (gradient.slope, gradient.intercept, gradient.name) == (3, 1, "line")
    many = jax.tree.map(lambda *leaves: jnp.stack(leaves), Line(1), Line(2))
    np.testing.assert_array_equal(jax.vmap(lambda line: line(3.0))(many), [3, 6])
    with pytest.raises(TypeError, match="slope"):
        Line(jnp.ones(2))


def test_instances_are_frozen_but_can_be_replaced():
    line = Line(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        line.slope = 3
    other = dataclasses.replace(line, slope=5)
    assert (other.slope, line.slope) == (5, 2)
    with pytest.raises(TypeError, match="slope"):
        dataclasses.replace(line, slope="steep")
