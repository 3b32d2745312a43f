"""Textual's parser of keys, with pastes that cannot go wrong and without a terminal's late answers.

A paste whose end mark got lost is delivered after a moment instead of swallowing every later key,
and a large one is taken as it is, not character by character.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from textual import events
from textual._xterm_parser import XTermParser  # pyright: ignore[reportPrivateUsage] # no public parser
from textual.message import Message

from app.terminal.reports import ReportFilter

START, END = "\x1b[200~", "\x1b[201~"
LOST_END_S = 2.0
"""Silence after which a paste without its end mark counts as whole, in seconds."""
HELD_S = 0.05
"""How long the beginning of a mark is held for its rest, in seconds."""
MOST_CHARS = 32 << 20
"""A paste longer than this is delivered in parts."""


class PatientParser(XTermParser):
    """Splits what a terminal sends into pastes, and the rest, which the base class reads."""

    def __init__(self, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(debug)
        self._clock = clock
        self._reports = ReportFilter(clock=clock)
        self._paste: list[str] | None = None
        self._size = 0
        self._held = ""
        """The beginning of a mark, whose rest may be in the next read."""
        self._last = 0.0

    @property
    def in_paste(self) -> bool:
        """Whether a paste has begun and not ended."""
        return self._paste is not None

    def feed(self, data: str) -> Iterable[Message]:
        """What `data` says; what is not whole waits for more. Empty data is the end."""
        if not data:
            yield from super().feed(data)
            return
        self._last = self._clock()
        data, self._held = self._held + data, ""
        while data:
            place = data.find(END if self.in_paste else START)
            cut = place if place >= 0 else len(data) - _partial(data, END if self.in_paste else START)
            piece, rest = data[:cut], data[cut:]
            if self._paste is None:
                if keys := self._reports.take(piece) if piece else "":
                    yield from super().feed(keys)
            else:
                self._paste.append(piece)
                self._size += len(piece)
            if place < 0:
                self._held = rest
                if self._size > MOST_CHARS:
                    yield from self._end_paste()
                    self._paste = []
                return
            if self._paste is None:
                self._paste = []
            else:
                yield from self._end_paste()
            data = rest[len(START) :]

    def tick(self) -> Iterable[Message]:
        """What time alone decides: a lone escape is a key, a paste without an end is over."""
        if self._paste is not None:
            if self._clock() - self._last >= LOST_END_S:
                self._paste.append(self._held)
                self._held = ""
                yield from self._end_paste()
            return
        if self._held and self._clock() - self._last >= HELD_S:
            held, self._held = self._held, ""
            yield from super().feed(held)
        if keys := self._reports.expire():
            yield from super().feed(keys)
        yield from super().tick()

    def _end_paste(self) -> Iterator[Message]:
        text = "".join(self._paste or ()).replace("\x00", "")
        self._paste, self._size = None, 0
        if text:
            yield events.Paste(text)


def _partial(data: str, mark: str) -> int:
    """How many characters at the end of `data` may begin `mark`; a lone escape is left to the keys."""
    return next((size for size in range(len(mark) - 1, 1, -1) if data.endswith(mark[:size])), 0)
