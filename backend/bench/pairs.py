"""How two programs are compared: interleaved pairs, the median of their ratios with its interval, a
look at what other processes took meanwhile, and the verdict on a target. It knows no model."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

MIN_S = 0.5
"""Shortest time a measurement lasts."""
LEAST_PAIRS = 10
"""Fewer support no claim."""
NOISE_SHARE = 0.03
"""Of all processors' time; a pair during which other processes used more is taken again."""
SLACK = 0.02
"""Of a target, how far the median may miss it."""
_LEVEL = 0.9

Verdict = Literal["reached", "missed", "unclear"]


# ---- statistics ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A median with its 90 % interval. Under five values the interval is their whole range."""

    median: float
    low: float
    high: float
    count: int
    repeats: int = 0
    """Pairs thrown away because other processes were busy."""
    noisy: int = 0
    """Pairs that were kept although other processes were busy: it never fell quiet."""

    @property
    def is_claim(self) -> bool:
        """Whether there are enough pairs, all of them quiet."""
        return self.count >= LEAST_PAIRS and not self.noisy


def estimate(values: Sequence[float], *, repeats: int = 0, noisy: int = 0) -> Estimate:
    """The median of `values` (not empty), and the interval that order statistics give it.

    The interval needs no assumption about how the values are spread (Conover, Practical
    Nonparametric Statistics, 3.2): from the k-th lowest to the k-th highest, k as large as 90 % allow.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - _LEVEL:
            break
        rank += 1
    low = max(rank - 1, 0)
    median = statistics.median(ordered)
    return Estimate(median, ordered[low], ordered[count - 1 - low], count, repeats, noisy)


@dataclass(frozen=True)
class Target:
    """What a ratio must reach."""

    kind: Literal["at least", "at most"]
    value: float

    def judge(self, ratio: Estimate) -> Verdict:
        """Reached where the interval holds the value and the median misses it by 2 % at most.

        A miss during which other processes were busy is unclear, and so is a success.
        """
        if self.kind == "at least":
            reached = ratio.high >= self.value and ratio.median >= self.value * (1 - SLACK)
        else:
            reached = ratio.low <= self.value and ratio.median <= self.value * (1 + SLACK)
        if ratio.noisy:
            return "unclear"
        return "reached" if reached else "missed"


# ---- neighbours ----------------------------------------------------------------------------


class Clock(Protocol):
    """Processor time in ticks: all processors' whole time, their busy time, and that of our processes."""

    def __call__(self) -> tuple[int, int, int]: ...


def processor_ticks(proc: Path = Path("/proc")) -> tuple[int, int, int]:
    """Ticks since boot: passed, busy, and used by this process tree. Zeros where there is no /proc."""
    try:
        first = (proc / "stat").read_text().splitlines()[0]
        fields = [int(text) for text in first.split()[1:9]]
    except (OSError, ValueError, IndexError):
        return 0, 0, 0
    idle = fields[3] + fields[4]  # Idle and waiting for a disk; time stolen by other guests is busy.
    return sum(fields), sum(fields) - idle, _tree_ticks(proc)


def _tree_ticks(proc: Path) -> int:
    """Ticks of this process, its descendants, and those of them that have ended."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                # The name of a process, in parentheses, may hold anything.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = sum(map(int, fields[11:15]))
            except (OSError, ValueError, IndexError):  # It ended meanwhile.
                continue
    total, tree = 0, [os.getpid()]
    while tree:
        pid = tree.pop()
        total += used.get(pid, 0)
        tree += [child for child, parent in parents.items() if parent == pid]
    return total


class Neighbours:
    """Tells which share of the processors other processes used since it was last asked."""

    def __init__(self, clock: Clock = processor_ticks) -> None:
        self._clock = clock
        self._last = clock()

    def share(self) -> float:
        """From 0 to 1; 0 where the system does not tell."""
        now = self._clock()
        passed, busy, own = (b - a for a, b in zip(self._last, now, strict=True))
        self._last = now
        return max(0.0, busy - own) / passed if passed > 0 else 0.0


# ---- pairs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Medians of both sides, and the ratio of the first to the second."""

    ours: float
    theirs: float
    ratio: Estimate


@dataclass(frozen=True)
class _Pair:
    ours: float
    theirs: float
    noise: float


def compare(
    ours: Callable[[], float],
    theirs: Callable[[], float],
    *,
    pairs: int,
    neighbours: Neighbours | None = None,
) -> Comparison:
    """Measure A B B A ... until `pairs` quiet pairs are there, after one unmeasured run of each.

    At most as many are repeated; then the quietest are kept, and counted as noisy.
    """
    neighbours = neighbours or Neighbours()
    ours()
    theirs()
    taken: list[_Pair] = []
    while sum(pair.noise <= NOISE_SHARE for pair in taken) < pairs and len(taken) < 2 * pairs:
        neighbours.share()
        if len(taken) % 2:
            b, a = theirs(), ours()
        else:
            a, b = ours(), theirs()
        taken.append(_Pair(a, b, neighbours.share()))
    kept = sorted(taken, key=lambda pair: pair.noise)[:pairs]
    ratios = [pair.ours / pair.theirs for pair in kept]
    noisy = sum(pair.noise > NOISE_SHARE for pair in kept)
    ratio = estimate(ratios, repeats=len(taken) - len(kept), noisy=noisy)
    return Comparison(
        statistics.median(pair.ours for pair in kept), statistics.median(pair.theirs for pair in kept), ratio
    )


def sample(measure: Callable[[], float], *, count: int, neighbours: Neighbours | None = None) -> Estimate:
    """The median of `count` quiet measurements of one thing, repeated like pairs."""
    neighbours = neighbours or Neighbours()
    taken: list[tuple[float, float]] = []
    while sum(noise <= NOISE_SHARE for noise, _ in taken) < count and len(taken) < 2 * count:
        neighbours.share()
        value = measure()
        taken.append((neighbours.share(), value))
    kept = sorted(taken, key=lambda one: one[0])[:count]
    noisy = sum(noise > NOISE_SHARE for noise, _ in kept)
    return estimate([value for _, value in kept], repeats=len(taken) - len(kept), noisy=noisy)
