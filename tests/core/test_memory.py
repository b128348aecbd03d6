"""What does not fit is said before it is allocated, with its size and what to do instead."""

import psutil
import pytest

import bellsketch as bs
from bellsketch.core.memory import available_bytes, check_fits


def test_available_memory_is_some_of_the_machines():
    assert 0 < available_bytes() <= psutil.virtual_memory().total


def test_what_fits_passes_and_what_does_not_is_named(monkeypatch):
    monkeypatch.setattr("bellsketch.core.memory.available_bytes", lambda: 2_000_000_000)
    check_fits("a table", 2e9, "use a smaller one")
    with pytest.raises(bs.AllocationError) as caught:
        check_fits("a table", 1_234.56e9, "use a smaller one")
    assert str(caught.value) == (
        "a table would take 1,234.6 GB, and 2.0 GB of memory are available for it: use a smaller one"
    )
    assert isinstance(caught.value, bs.BellsketchError)
