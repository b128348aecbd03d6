"""Configuration shared by all tests."""

import os
import tempfile

import pytest

CACHE = "JAX_COMPILATION_CACHE_DIR"


def pytest_configure(config):
    # Not in pyproject.toml: pytest would import the package for it before jaxtyping can instrument it.
    config.addinivalue_line("filterwarnings", "error::bellsketch.core.errors.BellsketchWarning")
    # Compiling takes most of the time of the tests of agents, and the same few programs are compiled again and again,
    # in other processes too. An empty directory each time, so that no test depends on what ran before.
    if CACHE not in os.environ:
        directory = tempfile.TemporaryDirectory(prefix="bellsketch-tests-", ignore_cleanup_errors=True)
        os.environ |= {CACHE: directory.name, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        config.add_cleanup(directory.cleanup)
        config.add_cleanup(lambda: os.environ.pop(CACHE))


@pytest.fixture(scope="module")
def quick_compiles():
    """For programs that run for less time than they take to compile: half of that time. In other processes too."""
    import jax

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)
