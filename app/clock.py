"""The time of day and the passing of time, as faces show them. A demo pins both.

What waits, times out or measures uses the system's own clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

_now: Callable[[], float] = time.time
_seconds: Callable[[], float] = time.monotonic


def now() -> float:
    """Unix time in seconds."""
    return _now()


def seconds() -> float:
    """Seconds that only grow, to be subtracted from each other."""
    return _seconds()


@contextmanager
def pinned(now: Callable[[], float], seconds: Callable[[], float]) -> Generator[None]:
    """Within, these are the clocks of this process."""
    global _now, _seconds
    before = _now, _seconds
    _now, _seconds = now, seconds
    try:
        yield
    finally:
        _now, _seconds = before
