"""The time of day and the passing of time, as faces show them. A demo pins both.

What waits, times out or measures uses the system's own clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, tzinfo

_LATEST = 253_300_000_000
"""A time in the year 9996, which every zone has."""
_now: Callable[[], float] = time.time
_seconds: Callable[[], float] = time.monotonic


def now() -> float:
    """Unix time in seconds."""
    return _now()


def seconds() -> float:
    """Seconds that only grow, to be subtracted from each other."""
    return _seconds()


def moment(timestamp: object, zone: tzinfo | None = None) -> datetime:
    """A Unix time as local time, or that of `zone`.

    What no calendar holds is moved to the nearest that one does; what is no number is 0.
    """
    number = timestamp if isinstance(timestamp, int | float) else 0
    return datetime.fromtimestamp(min(max(0, number), _LATEST), zone)  # `max` takes 0 for NaN.


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
