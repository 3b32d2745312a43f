"""Texts that look like a wanted one, found in a time that grows with their number alone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice, pairwise

_MOST_CANDIDATES = 5_000
_LEAST = 0.5
"""How alike two texts are at least."""
_MOST_CHARACTERS = 200
"""Of each text; what comes behind them is not compared."""


def nearest(wanted: str, candidates: Iterable[str], *, most: int = 1) -> list[str]:
    """Of the first 5,000 candidates up to `most` that look like `wanted`, the best first.

    Two texts are alike by the pairs of characters they share: 1.0 where all are, 0.0 where none is.
    """
    pairs = _pairs(wanted)
    scored = ((_likeness(pairs, _pairs(text)), text) for text in islice(candidates, _MOST_CANDIDATES))
    best = heapq.nlargest(most, (item for item in scored if item[0] >= _LEAST), key=lambda item: item[0])
    return [text for _, text in best]


def _pairs(text: str) -> set[tuple[str, str]]:
    # The frame makes pairs of a single character too, and lets a beginning and an end count.
    return set(pairwise(f"\n{text[:_MOST_CHARACTERS]}\n"))


def _likeness(one: set[tuple[str, str]], other: set[tuple[str, str]]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))
