"""The one door between a message's source and everything that parses or shows it.

Removes what a terminal must not get and unifies line ends, however the pieces are split, and leads
every position of the cleaned text back to the source, which stays as it was.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

_JOINER = "\u200d"
_HOSTILE = re.compile(
    "\r\n?|\u200d"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_JOINED = re.compile("[\u2190-\u2bff\u3030\u303d\ufe0f\U0001f000-\U0001faff]")
"""What a joiner may stand between: where it joins letters, terminals and width tables disagree."""
_SPACES = "\x0b\x0c\x85\u2028\u2029"


class Cleaner:
    """Cleans one source piece by piece."""

    __slots__ = ("_at", "_before", "_held", "_length", "_shift")

    def __init__(self) -> None:
        self._before = ""
        self._held = ""
        self._length = 0
        self._at = [0]
        self._shift = [0]

    def feed(self, text: str, *, last: bool = False) -> str:
        """The cleaned form of `text`.

        A carriage return or a joiner at its end waits for the next piece, or for `last`.
        """
        text = self._held + text
        self._held = ""
        if text.endswith(("\r", _JOINER)) and not last:
            text, self._held = text[:-1], text[-1]
        if _HOSTILE.search(text):
            text = self._clean(text)
        self._before = text[-1:] or self._before
        self._length += len(text)
        return text

    def cut(self, offset: int) -> None:
        """What was fed ends at `offset` of the cleaned text, the beginning of a line, and goes on there."""
        self._before, self._held, self._length = "\n" if offset else "", "", offset
        while len(self._at) > 1 and self._at[-1] > offset:
            del self._at[-1], self._shift[-1]

    def source_offset(self, offset: int) -> int:
        """Where the character at `offset` of the cleaned text stands in the source."""
        if not self._shift[-1]:
            return offset
        return offset + self._shift[bisect_right(self._at, offset) - 1]

    def pieces(self, text: str, offset: int) -> list[tuple[str, int]]:
        """`text`, cleaned and starting at `offset`, as pieces that run parallel to the source."""
        if not self._shift[-1]:
            return [(text, offset)]
        first = bisect_right(self._at, offset)
        last = bisect_right(self._at, offset + len(text) - 1)
        bounds = [offset, *self._at[first:last], offset + len(text)]
        return [
            (text[start - offset : end - offset], self.source_offset(start))
            for start, end in pairwise(bounds)
        ]

    def _clean(self, text: str) -> str:
        parts: list[str] = []
        done = 0
        before = self._before
        length = self._length
        for match in _HOSTILE.finditer(text):
            parts.append(text[done : match.start()])
            before = parts[-1][-1:] or before
            length += match.start() - done
            done = match.end()
            found = match.group()
            if found == _JOINER:
                kept = found if _JOINED.match(before) and _JOINED.match(text, done) else ""
            else:
                kept = _replacement(found)
            if len(kept) < len(found):
                self._skip_at(length)
            parts.append(kept)
            before = kept or before
            length += len(kept)
        parts.append(text[done:])
        return "".join(parts)

    def _skip_at(self, position: int) -> None:
        """From `position` of the cleaned text on, the source is one character further."""
        if self._at[-1] == position:
            self._shift[-1] += 1
        else:
            self._at.append(position)
            self._shift.append(self._shift[-1] + 1)


def clean(text: str) -> str:
    """The cleaned form of a whole source."""
    return Cleaner().feed(text, last=True)


def _replacement(found: str) -> str:
    if found[0] == "\r":
        return "\n"
    if found in _SPACES:
        return " "
    return "\ufffd" if found == "\0" or found >= "\ud800" else ""
