"""From token ids to text, one token at a time: UTF-8 assembly and stop strings.

Every cost here is per token and does not grow with the reply.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

_utf8 = codecs.getincrementaldecoder("utf-8")


class StopMatcher:
    """Finds the first stop string in a text that arrives in pieces of any size.

    The string that is complete first wins, the longest of those that end together; the result
    does not depend on how the text was cut. Only what may still begin a stop string is held.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = sorted(set(stops), key=len, reverse=True)
        self._longest = len(self._stops[0]) if self._stops else 0
        self._held = ""
        self.match: str | None = None

    def feed(self, text: str) -> str:
        """The text that is certain not to belong to a stop string. Nothing after a match."""
        if self.match is not None:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        found = min(
            ((text.find(stop) + len(stop), -len(stop), stop) for stop in self._stops if stop in text),
            default=None,
        )
        if found:
            end, _, self.match = found
            self._held = ""
            return text[: end - len(self.match)]
        held = self._undecided(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        """What was held when the reply ended."""
        held, self._held = self._held, ""
        return held

    def _undecided(self, text: str) -> int:
        """Length of the longest tail that is a proper beginning of some stop string."""
        for size in range(min(len(text), self._longest - 1), 0, -1):
            tail = text[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0


class Detokenizer:
    """Bytes of tokens to text. A character comes out with its last byte; bad bytes are replaced."""

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._decoder = _utf8("replace")

    def push(self, token: int) -> str:
        return self._decoder.decode(self._piece(token))

    def flush(self) -> str:
        """An unfinished character at the end becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)


class TextStream:
    """The text of one reply: detokenized, cut before a stop string."""

    def __init__(self, piece: Callable[[int], bytes], stops: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(piece)
        self._matcher = StopMatcher(stops)

    @property
    def match(self) -> str | None:
        """The stop string that was found."""
        return self._matcher.match

    def push(self, token: int) -> str:
        """Text that became certain with this token."""
        return self._matcher.feed(self._detokenizer.push(token))

    def flush(self) -> str:
        """Everything still held; for a reply that ended without a stop string."""
        return self._matcher.feed(self._detokenizer.flush()) + self._matcher.flush()
