"""How much of its speed a reply keeps in the worst stretch of time. Pure arithmetic on token times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

_NEAR = 15
"""Steps before and after one whose median stands for it."""


def pace_of(times: Sequence[float]) -> list[float]:
    """When each token comes undisturbed, from the times of a run without disturbance, in seconds after
    the first. Single slow steps are smoothed away."""
    steps = [later - earlier for earlier, later in pairwise(times)]
    pace = [0.0]
    for index in range(len(steps)):
        near = sorted(steps[max(0, index - _NEAR) : index + _NEAR + 1])
        pace.append(pace[-1] + near[len(near) // 2])
    return pace


def window_of(pace: Sequence[float]) -> float:
    """Seconds of the window that counts: one second, or ten undisturbed steps where those are longer."""
    return max(1.0, 10 * pace[-1] / max(len(pace) - 1, 1))


def worst_share(
    times: Sequence[float], pace: Sequence[float], began: float, ended: float, window_s: float
) -> float:
    """The lowest share of its undisturbed speed that a reply has over any run of steps of `window_s` or
    longer, between two moments; that of the whole span where the span is shorter.

    Speeds are compared at the same tokens, because a reply slows down as its context grows.
    """
    first = max(bisect_right(times, began) - 1, 0)
    last = min(bisect_left(times, ended), len(times) - 1, len(pace) - 1)
    worst, end = _share(times, pace, first, last), first
    for begin in range(first, last):
        while end < last and times[end] - times[begin] < window_s:
            end += 1
        if times[end] - times[begin] < window_s:
            break
        worst = min(worst, _share(times, pace, begin, end))
    return worst


def _share(times: Sequence[float], pace: Sequence[float], begin: int, end: int) -> float:
    if end <= begin:
        return 0.0
    return (pace[end] - pace[begin]) / (times[end] - times[begin])
