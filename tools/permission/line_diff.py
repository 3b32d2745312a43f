"""Which lines of a text became which of another, in a time near their length whatever they hold.

A short way from one to the other is looked for with a bounded number of steps; without one, lines that
are unique in both divide the text, and what is left is told as wholly replaced.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Hashable, Sequence

Change = tuple[int, int, int, int]
"""Lines `[first, last)` of the old text, then of the new one."""
_MOST_EDITS = 120
_MOST_DEPTH = 8


def changes(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Change]:
    """The parts that differ, in order; what stands between them is equal on both sides."""
    numbers: dict[Hashable, int] = {}
    old = [numbers.setdefault(line, len(numbers)) for line in before]
    new = [numbers.setdefault(line, len(numbers)) for line in after]
    found: list[Change] = []
    waiting = [(0, len(old), 0, len(new), 0)]
    while waiting:
        first, last, start, end, depth = waiting.pop()
        while first < last and start < end and old[first] == new[start]:
            first, start = first + 1, start + 1
        while first < last and start < end and old[last - 1] == new[end - 1]:
            last, end = last - 1, end - 1
        if first == last or start == end:
            _add(found, (first, last, start, end))
            continue
        near = _shortest(old[first:last], new[start:end])
        if near is not None:
            for a, b, c, d in near:
                _add(found, (first + a, first + b, start + c, start + d))
            continue
        anchors = _anchors(old, new, (first, last, start, end)) if depth < _MOST_DEPTH else []
        if not anchors:
            _add(found, (first, last, start, end))
            continue
        edges = [(first - 1, start - 1), *anchors, (last, end)]
        gaps = itertools.pairwise(edges)
        waiting += reversed([(a + 1, c, b + 1, d, depth + 1) for (a, b), (c, d) in gaps])
    return found


def _add(found: list[Change], change: Change) -> None:
    first, last, start, end = change
    if first == last and start == end:
        return
    if found and found[-1][1] == first and found[-1][3] == start:
        found[-1] = (found[-1][0], last, found[-1][2], end)
    else:
        found.append(change)


def _anchors(old: Sequence[int], new: Sequence[int], part: Change) -> list[tuple[int, int]]:
    """Lines that are there once on each side, as many as come in the same order on both."""
    first, last, start, end = part
    there = _once(new, start, end)
    pairs = [(at, there[line]) for line, at in _once(old, first, last).items() if line in there]
    ends: list[int] = []
    chain: list[int] = []
    back = [-1] * len(pairs)
    for number, (_, place) in enumerate(pairs):
        depth = bisect_left(ends, place)
        back[number] = chain[depth - 1] if depth else -1
        if depth == len(ends):
            ends.append(place)
            chain.append(number)
        else:
            ends[depth], chain[depth] = place, number
    found: list[tuple[int, int]] = []
    number = chain[-1] if chain else -1
    while number >= 0:
        found.append(pairs[number])
        number = back[number]
    return found[::-1]


def _once(lines: Sequence[int], first: int, last: int) -> dict[int, int]:
    places: dict[int, int] = {}
    for at in range(first, last):
        places[lines[at]] = -1 if lines[at] in places else at
    return {line: at for line, at in places.items() if at >= 0}


def _shortest(old: Sequence[int], new: Sequence[int]) -> list[Change] | None:
    """The fewest edits (Myers), where few steps find them; else None."""
    room = 4 * (len(old) + len(new)) + 20_000
    reach = {1: 0}
    steps: list[dict[int, int]] = []
    for edits in range(_MOST_EDITS + 1):
        steps.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            begun = x
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            room -= x - begun + 1
            reach[diagonal] = x
            if x >= len(old) and y >= len(new):
                return _walked(steps, len(old), len(new))
            if room < 0:
                return None
    return None


def _walked(steps: Sequence[dict[int, int]], x: int, y: int) -> list[Change]:
    """The edits of a way that was found, from its end to its beginning."""
    found: list[Change] = []
    for edits in range(len(steps) - 1, 0, -1):
        reach, diagonal = steps[edits], x - y
        down = diagonal == -edits or (
            diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        x = reach[before]
        y = x - before
        found.append((x, x, y, y + 1) if down else (x, x + 1, y, y))
    merged: list[Change] = []
    for change in reversed(found):
        _add(merged, change)
    return merged
