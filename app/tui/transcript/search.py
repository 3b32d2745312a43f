"""Search within one chat: every occurrence in the sources, folded text included, and the one looked at."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from app.tui.transcript.entry import Entry
from app.tui.transcript.painter import Mark

_WORD = re.compile(r"[^\W_]+")
MOST_HITS = 10_000
"""Of more than these the latest are found."""


class Hit(NamedTuple):
    """One occurrence."""

    entry: Entry
    section: int
    start: int
    end: int


class Search:
    """What was found, and where the person stands in it. Letters match whatever their case."""

    def __init__(self, query: str, entries: Sequence[Entry], *, words: bool = False) -> None:
        """Look through `entries`; an empty query finds nothing, and so does what comes later.

        With `words` each word of the query counts, and those side by side as one.
        """
        self.query = query
        self.hits: list[Hit] = []
        self.at = -1
        """Index of the hit that is looked at; -1 for none."""
        self._of: dict[tuple[Entry, int], list[Hit]] = {}
        if query:
            pattern = of_words(query) if words else re.escape(query)
            self._look(re.compile(pattern, re.IGNORECASE), entries)

    def _look(self, pattern: re.Pattern[str], entries: Sequence[Entry]) -> None:
        for entry in reversed(entries):
            if entry.kind == "name":
                continue  # the model's name stands above every answer
            for section, text in reversed(list(enumerate(entry.parts))):
                found = [Hit(entry, section, *match.span()) for match in pattern.finditer(text)]
                if found:
                    self._of[entry, section] = found
                    self.hits += reversed(found)
            if len(self.hits) >= MOST_HITS:
                break
        self.hits.reverse()

    @property
    def current(self) -> Hit | None:
        return self.hits[self.at] if 0 <= self.at < len(self.hits) else None

    def step(self, by: int) -> Hit | None:
        """Go to the next (1) or the previous (-1) hit, round the ends."""
        if self.hits:
            self.at = (self.at + by) % len(self.hits)
        return self.current

    def marks(self, entry: Entry, section: int, start: int, end: int) -> list[Mark]:
        """Hits that touch a range of a section's text."""
        hits = self._of.get((entry, section))
        if not hits:
            return []
        here = self.current
        first = bisect_left(hits, start, key=lambda hit: hit.end)
        marks: list[Mark] = []
        for hit in hits[first:]:
            if hit.start >= end:
                break
            marks.append(Mark(hit.start, hit.end, "here" if hit is here else "hit"))
        return marks

    def best_in(self, entry: Entry) -> int | None:
        """The index of an entry's hit that has most of the query together; None where it has none."""
        found = [at for at, hit in enumerate(self.hits) if hit.entry is entry]
        return max(found, key=lambda at: self.hits[at].end - self.hits[at].start, default=None)


def of_words(query: str) -> str:
    """A pattern for the words of a query: as many as stand side by side, else each of them."""
    words = [re.escape(word) for word in _WORD.findall(query)]
    if not words:
        return re.escape(query)
    apart = sorted(set(words), key=len, reverse=True)
    return "|".join([r"[\W_]{0,8}".join(words), *apart] if len(words) > 1 else words)
