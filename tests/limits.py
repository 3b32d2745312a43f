"""Limits of processor time and memory for tests of what an attacker may ask for."""

from __future__ import annotations

import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PROCESS = Path("/proc/self")


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


@contextmanager
def memory(most: int) -> Iterator[None]:
    """Fail where the block takes more than `most` bytes at once beyond what this process has.

    Linux counts for us; elsewhere Python does, which takes a block several times as long.
    """
    try:
        (PROCESS / "clear_refs").write_text("5")
    except OSError:
        tracemalloc.start()
        try:
            yield
            grown = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    else:
        before = _resident("VmRSS")
        yield
        grown = _resident("VmHWM") - before
    assert grown < most, f"it took {grown / 2**20:.0f} MiB"


def _resident(name: str) -> int:
    """A number of bytes that Linux tells of this process."""
    [line] = [line for line in (PROCESS / "status").read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024
