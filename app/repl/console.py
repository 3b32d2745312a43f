"""What the chat loop asks of whatever reads lines, and the plain kind: lines as the terminal gives them."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import select
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import IO, Any, Protocol

from app.files.text import marked_encoding, unmarked_wide
from app.frontend.draft import with_double
from app.markdown.sgr import Span
from app.terminal.output import is_terminal, sanitize

ARM_S = 0.5
"""How long after a question appears keys do nothing: what was typed ahead answers no question."""
BURST_S = 0.03
"""Lines that come closer together than this are one paste."""
MOST_BURST_S = 0.5
PROMPT = "you: "


class Ended(Enum):
    """Why reading ended without a line."""

    WOKEN = "woken"
    EDIT = "edit"
    LEAVE = "leave"


@dataclass(frozen=True)
class Line:
    """What was submitted: the whole text, and the draft as it was seen, pastes folded."""

    text: str
    shown: str
    blocks: tuple[dict[str, Any], ...] = ()
    """The text as a message's blocks, where parts of it are folded."""
    typed: bool = field(default=True, compare=False)
    """Whether keys wrote its first character: only then it may be a command."""


class Console(Protocol):
    """Reads lines and answers of a person."""

    status: str
    """A word about what goes on, shown where there is room."""
    lent: tuple[int, int] | None
    """The terminal for other programs, where it is behind others than the descriptors 1 and 2."""

    @property
    def piped(self) -> bool:
        """Whether no person is there: each line waits for the reply to the one before."""
        ...

    @property
    def draws(self) -> bool:
        """Whether edges are drawn."""
        ...

    @property
    def draft(self) -> str: ...
    async def read(self) -> Line | Ended:
        """The next line, or why there is none."""
        ...

    async def ask(self, message: Sequence[Span], default: str = "", *, armed: bool = False) -> str | None:
        """A line about something else than the chat. With `armed`, nothing typed ahead answers."""
        ...

    def cancel_ask(self) -> None:
        """End `ask` without an answer."""

    def insert(self, text: str, *, typed: bool = True) -> None:
        """Begin the next line with this text, as if keys had written it, or as if it was pasted."""

    def remember(self, text: str) -> bool:
        """Let the key up bring this text, as keys would write it; False where no key does."""
        ...

    def wake(self) -> None:
        """End `read` without a line."""

    def leave(self) -> None:
        """End `read` as Ctrl-D does."""

    def rest(self, busy: bool) -> None:
        """A reply began or ended."""

    def take_draft(self) -> Line:
        """The draft that reading ended with; the next line begins without it."""
        ...

    def interrupt(self) -> None:
        """What Ctrl-C does here."""

    def cooked(self) -> AbstractContextManager[tuple[int, int] | None]:
        """Within, the terminal is as other programs expect it; the descriptors for their output, where they
        are others than 1 and 2."""
        ...


class PlainConsole:
    """Lines from standard input, read by a thread of their own. Several that come at once on a terminal
    are a paste: it waits for one more line end before it is sent."""

    draws = False

    def __init__(self, out: IO[str]) -> None:
        self.status = ""
        self.lent: tuple[int, int] | None = None
        self._out = out
        self._is_terminal = is_terminal(sys.stdin)
        self._lines: deque[str | None] = deque()
        self._waiting: asyncio.Future[str | Ended | None] | None = None
        self._asking = False
        self._busy = False
        self._next = ""
        self._typed = True
        self._paste: list[str] = []
        self._deaf_until = 0.0
        self._ended = False
        self._prompted = False

    @property
    def piped(self) -> bool:
        return not self._is_terminal

    @property
    def draft(self) -> str:
        return ""

    def start(self) -> None:
        """Begin to read."""
        loop = asyncio.get_running_loop()

        def tell(line: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._arrived, line)

        threading.Thread(target=_read_lines, args=(tell, self._is_terminal), daemon=True).start()

    async def read(self) -> Line | Ended:
        self._prompt()
        while True:
            found = await self._one()
            if isinstance(found, Ended):
                return found
            if found is None:
                if self._paste:
                    found, self._paste = "\n".join(self._paste), []
                    self._ended = True
                    return Line(found, found, typed=self._typed)
                return Ended.LEAVE
            text = self._taken(found)
            if text is not None:
                return Line(text, text, typed=self._typed)

    async def ask(self, message: Sequence[Span], default: str = "", *, armed: bool = False) -> str | None:
        if armed and self._is_terminal:
            with contextlib.suppress(OSError, termios.error):
                termios.tcflush(0, termios.TCIFLUSH)
            self._deaf_until = time.monotonic() + ARM_S
        self.clear_row()
        shown = f" [{default}]" if default else ""
        self._out.write(sanitize("".join(text for text, _ in message) + shown) + " ")
        self._out.flush()
        self._asking = True
        ahead, self._lines = (
            (self._lines, deque[str | None]()) if armed else (deque[str | None](), self._lines)
        )
        try:
            found = await self._one()
        finally:
            self._asking = False
            self._lines.extendleft(reversed(ahead))
        if not isinstance(found, str):
            return None
        return found or default

    def cancel_ask(self) -> None:
        if self._asking:
            self._end(None)

    def insert(self, text: str, *, typed: bool = True) -> None:
        self._next = text if typed else with_double(text)

    def remember(self, text: str) -> bool:
        return False

    def take_draft(self) -> Line:
        text, self._next = self._next, ""
        return Line(text, text)

    def wake(self) -> None:
        if not self._asking:
            self._end(Ended.WOKEN)

    def leave(self) -> None:
        self._end(Ended.LEAVE)

    def rest(self, busy: bool) -> None:
        self._busy = busy
        if not busy and not self._asking and self._waiting is not None and not self._prompted:
            self._prompt()

    def clear_row(self) -> None:
        """Something else is about to be written: it does not go on the row of the prompt."""
        if self._prompted:
            self._prompted = False
            self._out.write("\n")

    def interrupt(self) -> None:
        """Ctrl-C at a question."""
        self.cancel_ask()

    def cooked(self) -> AbstractContextManager[tuple[int, int] | None]:
        return contextlib.nullcontext(self.lent)

    # ---- parts -----------------------------------------------------------------------------

    def _prompt(self) -> None:
        if self._is_terminal and not self._busy and not self._prompted:
            draft = f"(your draft: {sanitize(self._next)}) " if self._next else ""
            self._out.write(f"{PROMPT}{draft}")
            self._out.flush()
            self._prompted = True

    def _taken(self, line: str) -> str | None:
        """The message that a line completes; None while it goes on."""
        if not any(part.strip() for part in self._paste):
            self._typed = not (self._is_terminal and "\n" in line.strip("\n"))
        if self._is_terminal and line.endswith("\\"):
            self._paste.append(line[:-1])
            return None
        if self._is_terminal and line.strip("\n").count("\n"):
            self._paste += line.split("\n")
            count = len(self._paste)
            self._out.write(f"[pasted {count} lines] Enter sends, or write on: ")
            self._out.flush()
            return None
        parts, self._paste = [*self._paste, line], []
        text = "\n".join(parts).strip("\n")
        if not text.strip() and self._next:
            # An empty line sends the draft as it was.
            text = self._next
        if not text.strip():
            self._prompt()
            return None
        self._next = ""
        return text

    async def _one(self) -> str | Ended | None:
        if self._ended:
            return None
        if self._lines:
            found = self._lines.popleft()
            self._ended = found is None
            return found
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def _arrived(self, line: str | None) -> None:
        # The terminal has echoed its line end.
        self._prompted = False
        if line is not None and time.monotonic() < self._deaf_until:
            return
        if self._waiting is not None and not self._waiting.done() and not self._lines:
            self._ended = line is None
            self._waiting.set_result(line)
        else:
            self._lines.append(line)

    def _end(self, reason: Ended | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(reason)


def _read_lines(say: Callable[[str | None], None], is_terminal: bool) -> None:
    """Hand on each line; several at once of a terminal together; None at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending, is_first = "", True
    while True:
        try:
            data = os.read(0, 65536)
        except InterruptedError:
            continue
        except OSError:
            data = b""
        if data and is_terminal:
            deadline = time.monotonic() + MOST_BURST_S
            while (
                data.endswith(b"\n")
                and time.monotonic() < deadline
                and select.select([0], [], [], BURST_S)[0]
            ):
                more = os.read(0, 65536)
                if not more:
                    break
                data += more
        if is_first and data:
            encoding = marked_encoding(data) or unmarked_wide(data) or "utf-8-sig"
            decoder, is_first = codecs.getincrementaldecoder(encoding)("replace"), False
        pending += decoder.decode(data, final=not data)
        if is_terminal and pending.endswith("\n"):
            say(pending[:-1])
            pending = ""
        elif not is_terminal:
            *whole, pending = pending.split("\n")
            for line in whole:
                say(line.rstrip("\r"))
        if not data:
            if pending:
                say(pending)
            say(None)
            return
