"""How long something takes on a machine that is busy with other things too."""

import time
from collections.abc import Callable
from typing import Any


def shortest(f: Callable[[], Any], repeats: int = 5) -> float:
    """The seconds of the fastest of several calls, after one that compiles and warms up."""
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)
