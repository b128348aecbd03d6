"""Configuration shared by all tests."""


def pytest_configure(config):
    # Not in pyproject.toml: pytest would import the package for it before jaxtyping can instrument it.
    config.addinivalue_line("filterwarnings", "error::bellsketch.core.errors.BellsketchWarning")
