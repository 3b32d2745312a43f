"""What a terminal sends, byte by byte, as Textual's messages. No byte can end it.

Bytes that are no UTF-8 are replaced, as in every text that Fireside reads.
"""

from __future__ import annotations

import codecs
import time
import unicodedata
from collections.abc import Callable, Iterator

from textual import events
from textual.message import Message

from app.terminal.output import sanitize
from app.tui.input_parser import PatientParser

CUT_S = 1.0
"""How long the beginning of a character waits for its rest, in seconds; a read may end within one."""
MOST_HELD = 16
"""Characters that wait with it: more are a paste."""


def is_text(character: str | None) -> bool:
    """Whether a key's character is one to write: Python calls a wide space and a joiner not printable."""
    if character is None or len(character) != 1:
        return False
    return character.isprintable() or (
        unicodedata.category(character) in ("Zs", "Cf", "Co", "Cn") and bool(sanitize(character))
    )


# Whoever asks a key whether it writes asks this, Textual's own fields too.
events.Key.is_printable = property(lambda key: is_text(key.character))  # pyright: ignore


class KeyReader:
    """Turns reads into messages."""

    def __init__(self, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._debug = debug
        self._clock = clock
        self._last = 0.0
        self._start()

    def _start(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = PatientParser(self._debug, clock=self._clock)
        self._held = ""

    def read(self, data: bytes) -> Iterator[Message]:
        """What `data` says; empty data is a look at the clock only."""
        if data:
            self._last = self._clock()
            text = self._held + self._decoder.decode(data)
            # A letter that came together with the beginning of another is not alone: it answers nothing.
            waits = bool(self._decoder.getstate()[0]) and len(text) <= MOST_HELD
            text, self._held = ("", text) if waits else (text, "")
        else:
            text = self._late()
        if text:
            yield from self._parser.feed(text)
        yield from self._parser.tick()

    def _late(self) -> str:
        """The beginning of a character whose rest does not come."""
        if not self._decoder.getstate()[0] or self._clock() - self._last < CUT_S:
            return ""
        held, self._held = self._held, ""
        return held + self._decoder.decode(b"", final=True)

    def recover(self) -> None:
        """Go on after a failure: what was not whole is forgotten."""
        self._start()
