"""NumPy or JAX, and floats of the right kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.core.arrays import as_floats, namespace


def test_one_jax_array_is_enough():
    assert namespace(np.ones(2), 1.0, [3]) is np
    assert namespace(np.ones(2), jnp.ones(2)) is jnp
    jax.jit(lambda x: pytest.fail("no tracer") if namespace(x) is not jnp else x)(1.0)


@pytest.mark.parametrize("values", [1, [1, 2], np.arange(3), np.ones(2, np.float32), np.ones(2)])
def test_as_floats(values):
    assert as_floats(np, values).dtype == np.float64
    assert as_floats(jnp, values).dtype == jnp.float32
    np.testing.assert_array_equal(as_floats(jnp, values), values)


def test_jax_floats_keep_their_kind():
    assert as_floats(jnp, jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
