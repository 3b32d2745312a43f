"""How the work on a text grows with its length, in time of the processor and never in that of a clock."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time

from tests.growth.shapes import Shape

FLOOR_S = 0.04
"""Work of less time is not judged: it is lost in what the machine does besides."""
STEEPEST = 8.0
"""How many times as much work four times the text may be; linear is 4, quadratic 16."""
_TRIES = 4


def seconds_of(work: Callable[[str], object], text: str) -> float:
    gc.disable()  # a collection goes through all that the other tests have left
    try:
        start = process_time()
        work(text)
        return process_time() - start
    finally:
        gc.enable()


def steepness(work: Callable[[str], object], shape: Shape, largest: int, smallest: int = 500) -> float:
    """How many times as much work a text makes than a quarter of it, 0 where all of it is too little to tell.

    Texts are made four times as long up to `largest`. What is read in windows takes more with its length
    until a window is full: only what goes on growing like that beyond is steep.
    """
    size = smallest
    before = seconds_of(work, shape.make(size))
    while size * 4 <= largest:
        size *= 4
        now = seconds_of(work, shape.make(size))
        if now >= FLOOR_S and now > STEEPEST * before:
            times = _settled(work, shape, size, before, now)
            longer = seconds_of(work, shape.make(size * 4)) if times > STEEPEST else 0.0
            if longer > STEEPEST * now:
                return _settled(work, shape, size * 4, now, longer)
        before = now
    return 0.0


def _settled(work: Callable[[str], object], shape: Shape, size: int, before: float, now: float) -> float:
    """The same once more, a few times: what else the machine does can only add."""
    for _ in range(_TRIES):
        before = max(before, 1e-4)
        if now <= STEEPEST * before:
            return now / before
        now = min(now, seconds_of(work, shape.make(size)))
        # The smaller time is the one that a warm machine needs; a cold one would hide what grows.
        before = min(before, seconds_of(work, shape.make(size // 4)))
    return now / before
