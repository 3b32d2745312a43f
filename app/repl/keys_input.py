"""The terminal's keys for prompt_toolkit, with pastes that cannot go wrong.

A paste arrives as one key, with its marks or without; one whose end mark got lost is delivered
after a moment instead of swallowing every later key.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from app.characters import clean_text
from app.terminal.reports import ReportFilter

START, END = "\x1b[200~", "\x1b[201~"
LOST_END_S = 2.0
"""Silence after which a paste without its end mark counts as whole."""
BURST_CHARS = 12
"""Characters with a line end among them that come in one read: nobody types that fast."""
MOST_PASTE_CHARS = 32 << 20
# A line end with more text behind it, in what one read brought.
_INNER_LINE = re.compile(r"[\r\n](?=[^\r\n\x1b\x00-\x08])")
# A key in the form that names it by its number, and every other sequence a key may have.
_NUMBERED = re.compile(r"\x1b\[([0-9]+)(?:;([0-9]*)(?:;[0-9:]*)?)?u")
_SEQUENCE = re.compile(
    r"\x1b\[[0-9;]*[@-LN-QS-Z^-~]"
)  # without the cursor's place, the mouse and the console
_SHIFT, _ALT, _CTRL = 1, 2, 4
_ENTER, _LINE_BREAK = 13, "\x1b\r"
_LINE_ENDS = (Keys.ControlM, Keys.ControlJ)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class PasteParser:
    """Splits what a terminal sends into pastes and keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys: list[KeyPress] = []
        self._parser = Vt100Parser(self._keys.append)
        self._clock = clock
        self._reports = ReportFilter(events=True, clock=clock)
        self._held = ""
        self._paste: list[str] | None = None
        self._last = 0.0

    @property
    def in_paste(self) -> bool:
        """Whether a paste has begun and not ended."""
        return self._paste is not None

    def feed(self, data: str) -> list[KeyPress]:
        """The keys in `data`; what is not whole waits for more."""
        self._last = self._clock()
        data, self._held = self._held + data, ""
        while data:
            data = self._in_paste(data) if self._paste is not None else self._outside(data)
        return self._taken()

    def flush(self) -> list[KeyPress]:
        """A lone Escape is a key when nothing follows it."""
        if self._paste is None:
            held, self._held = self._held, ""
            self._parser.feed(self._reports.expire() + held)
            self._parser.flush()
        return self._taken()

    def expire(self) -> list[KeyPress]:
        """The paste whose end mark did not come, once it is due; else nothing."""
        if self._paste is not None and self._clock() - self._last >= LOST_END_S:
            self._paste.append(self._held)
            self._held = ""
            self._end_paste()
        return self._taken()

    def _outside(self, data: str) -> str:
        place = data.find(START)
        if place < 0:
            cut = len(data) - _partial(data, START)
            self._held = data[cut:]
            self._typed(data[:cut])
            return ""
        self._typed(data[:place])
        self._parser.flush()
        self._paste = []
        return data[place + len(START) :]

    def _in_paste(self, data: str) -> str:
        assert self._paste is not None
        place = data.find(END)
        if place < 0:
            cut = len(data) - _partial(data, END)
            self._held = data[cut:]
            self._paste.append(data[:cut])
            if sum(map(len, self._paste)) > MOST_PASTE_CHARS:
                self._end_paste()
            return ""
        self._paste.append(data[:place])
        self._end_paste()
        return data[place + len(END) :]

    def _end_paste(self) -> None:
        text = "".join(self._paste or ())
        self._paste = None
        self._keys.append(KeyPress(Keys.BracketedPaste, text))

    def _typed(self, data: str) -> None:
        data = _SEQUENCE.sub(_known, _NUMBERED.sub(_key_of, self._reports.take(data)))
        if len(data) >= BURST_CHARS and _INNER_LINE.search(data) and not _CONTROLS.search(data):
            self._keys.append(KeyPress(Keys.BracketedPaste, data))
        else:
            self._parser.feed(data)

    def _taken(self) -> list[KeyPress]:
        found = list(self._keys)
        self._keys.clear()
        return found


class KeysInput(Vt100Input):
    """A terminal's input that gives pastes whole. `deaf_until` drops what was typed too early."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.parser = PasteParser()
        self.deaf_until = 0.0
        """`time.monotonic()` before which keys are dropped, Ctrl-C apart."""
        self.whole = False
        """Whether keys that come together with a line end are a paste: so it is while a question waits."""
        self._waiting: list[KeyPress] = []
        self._ready: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        self._ready = input_ready_callback
        return super().attach(input_ready_callback)

    def read_keys(self) -> list[KeyPress]:
        waiting, self._waiting = self._waiting, []
        found = waiting or self.parser.feed(clean_text(self.stdin_reader.read()))
        self._watch_paste()
        if time.monotonic() < self.deaf_until:
            return [key for key in found if key.key == Keys.ControlC]
        return _together(found) if self.whole else found

    def flush_keys(self) -> list[KeyPress]:
        return self.parser.flush()

    def _watch_paste(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.parser.in_paste:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOST_END_S + 0.05, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._waiting = self.parser.expire()
        if self._waiting and self._ready is not None:
            self._ready()
        elif self.parser.in_paste:
            self._watch_paste()


def _together(keys: list[KeyPress]) -> list[KeyPress]:
    """Keys of one read as the paste that they are, where one of several of them ends a line."""
    texts = ["\n" if key.key in _LINE_ENDS else key.data for key in keys]
    if (
        len(keys) < 2
        or "\n" not in texts
        or any(
            (len(text) > 1 and key.key != Keys.BracketedPaste) or (text < " " and text != "\n")
            for text, key in zip(texts, keys, strict=True)
        )
    ):
        return keys
    return [KeyPress(Keys.BracketedPaste, "".join(texts))]


def _key_of(found: re.Match[str]) -> str:
    """The bytes older terminals send for a numbered key; none for one they have no bytes for."""
    number, pressed = int(found[1]), max(int(found[2] or 1) - 1, 0)
    if 0xE000 <= number < 0xF900:
        return ""
    if number == _ENTER:
        return _LINE_BREAK if pressed & (_SHIFT | _ALT | _CTRL) else "\r"
    char = chr(number)
    if number == 9 and pressed & _SHIFT:
        return "\x1b[Z"
    if pressed & _SHIFT:
        char = char.upper()
    if pressed & _CTRL and "@" <= char.upper() <= "_":
        char = chr(ord(char.upper()) & 0x1F)
    return f"\x1b{char}" if pressed & _ALT else char


def _known(found: re.Match[str]) -> str:
    return found[0] if found[0] in ANSI_SEQUENCES else ""


def _partial(data: str, mark: str) -> int:
    """How many characters at the end of `data` may be the beginning of `mark`."""
    return next((size for size in range(len(mark) - 1, 0, -1) if data.endswith(mark[:size])), 0)
