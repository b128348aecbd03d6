"""What is written beside a result."""

import platform

import numpy as np

import bellsketch as bs
from bellsketch.runs.provenance import provenance


def test_entries():
    found = provenance(["numpy"])
    assert list(found) == ["bellsketch", "commit", "python", "versions", "machine", "date"]
    assert found["bellsketch"] == bs.__version__
    assert found["python"] == platform.python_version()
    assert found["versions"] == {"numpy": np.__version__}
    assert found["commit"] is None or len(found["commit"].split()[0]) == 40
