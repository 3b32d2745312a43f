"""Fuzzy matching for pickers: all typed characters in order, the best places first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

MAX_QUERY_CHARS = 100
_MAX_TEXT_CHARS = 400
_START, _WORD, _RUN, _PLAIN = 8, 7, 6, 1
_BREAKS = frozenset(" /-_.:")


@dataclass(frozen=True, slots=True)
class Match:
    """How well a text fits, and the characters that fitted, as sorted `(start, end)`."""

    score: int
    places: tuple[tuple[int, int], ...]


def match(query: str, text: str, loose: int = _MAX_TEXT_CHARS) -> Match | None:
    """The match of `query` in `text`, None where it does not fit. Words of the query fit in any order.

    A word that occurs as it is beats one whose characters are scattered, which they may be within
    the first `loose` characters only; both are blind to case.
    """
    text = text[:_MAX_TEXT_CHARS]
    # A character whose lower case is longer than itself would shift all places behind it.
    folded = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    score, hits = 0, set[int]()
    for word in query[:MAX_QUERY_CHARS].lower().split():
        found = _whole(word, folded) or _scattered(word, folded[:loose])
        if found is None:
            return None
        hits.update(found)
        score += _score(found, folded)
    return Match(score - len(text) // 16, _runs(sorted(hits)))


def ranked(
    query: str, items: Sequence[T], text_of: Callable[[T], str], loose_of: Callable[[T], int] | None = None
) -> list[tuple[T, Match]]:
    """The items that fit, best first; in their own order where the query is empty or scores tie."""
    found: list[tuple[T, Match]] = []
    for item in items:
        loose = _MAX_TEXT_CHARS if loose_of is None else loose_of(item)
        if fit := match(query, text_of(item), loose):
            found.append((item, fit))
    if query.split():
        found.sort(key=lambda pair: -pair[1].score)
    return found


def _whole(word: str, text: str) -> list[int] | None:
    """The occurrence of `word`, at the beginning of a word where there is one."""
    start = first = text.find(word)
    while start > 0 and text[start - 1] not in _BREAKS:
        start = text.find(word, start + 1)
    start = first if start < 0 else start
    return None if start < 0 else list(range(start, start + len(word)))


def _scattered(word: str, text: str) -> list[int] | None:
    places: list[int] = []
    start = 0
    for char in word:
        place = text.find(char, start)
        if place < 0:
            return None
        places.append(place)
        start = place + 1
    return places


def _score(places: Sequence[int], text: str) -> int:
    score = 0
    for index, place in enumerate(places):
        if place == 0:
            score += _START
        elif text[place - 1] in _BREAKS:
            score += _WORD
        elif index and places[index - 1] == place - 1:
            score += _RUN
        else:
            score += _PLAIN
    return score


def _runs(places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return tuple(runs)
