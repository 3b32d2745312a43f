"""Follows where a reply's thoughts begin and end, by the bytes of its tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThoughtMarks:
    """The markers around a thought, and whether the prompt left one open."""

    opener: str
    closer: str
    open: bool


@dataclass(frozen=True)
class ThoughtBudget:
    """Most tokens of thought, and the ids that close it when they are spent."""

    limit: int
    closer: tuple[int, ...]


class ThoughtTracker:
    """Knows whether the reply is inside a thought. Only what may become a marker is kept."""

    def __init__(self, marks: ThoughtMarks) -> None:
        self._opener, self._closer = marks.opener.encode(), marks.closer.encode()
        self.open = marks.open
        self._tail = b""

    def feed(self, piece: bytes) -> None:
        """Take the bytes of one token."""
        self._tail += piece
        while (marker := self._awaited) and marker in self._tail:
            self._tail = self._tail.split(marker, 1)[1]
            self.open = not self.open
        keep = len(self._awaited) - 1
        self._tail = self._tail[-keep:] if keep > 0 else b""

    @property
    def _awaited(self) -> bytes:
        return self._closer if self.open else self._opener


class ThoughtMeter:
    """Counts the tokens of thoughts, and says once when their budget is spent."""

    def __init__(self, marks: ThoughtMarks, budget: ThoughtBudget) -> None:
        self._tracker = ThoughtTracker(marks)
        self._limit = budget.limit
        self._end = b""
        self._spent = 0
        self._done = False

    def is_spent_at_once(self) -> bool:
        """Whether an open thought may have no token at all."""
        self._done = self._limit == 0 and self._tracker.open
        return self._done

    def feed(self, piece: bytes) -> bool:
        """Account for one token; True when the closer must be written now.

        Never inside a character of several tokens, which nothing else may follow, but four tokens on.
        """
        self._tracker.feed(piece)
        self._spent += self._tracker.open
        self._end = (self._end + piece)[-3:]
        if self._done or not self._tracker.open or self._spent < self._limit:
            return False
        if _is_cut(self._end) and self._spent < self._limit + 4:
            return False
        self._done = True
        return True


def _is_cut(end: bytes) -> bool:
    """Whether a text whose last bytes are these stops inside a character of UTF-8."""
    for back, byte in enumerate(reversed(end), 1):
        if byte < 0x80:
            return False
        if byte >= 0xC0:
            return back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
    return False
