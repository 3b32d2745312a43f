"""A limit of processor time for tests of what an attacker may ask for."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Fail where the block takes more than `seconds` of this process's processor time.

    Counts what a busy machine does not change. Works on the main thread only.
    """

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"it took more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
