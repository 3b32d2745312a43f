"""The clipboard: what is put on it, which way that went, and what is read from it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from app.terminal.clipboard import ClipboardError, Copied, copy, paste, save
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.window import Window
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from app.tui.shell import Program

SAVES: Hint = ("save_copy", "saves them to a file")


class Copying:
    """Copies for the chat on the screen; nothing of a private one goes to the disk."""

    def __init__(self, program: Program, parts: Parts, window: Window, chats: OpenChats) -> None:
        self._program = program
        self._parts = parts
        self._window = window
        self._chats = chats
        self._copied = ""

    def copy(self, text: str) -> None:
        """Put text on the clipboard, and tell which way it went."""
        self._copied = text
        self._program.start(partial(self._copy, text), group="copy", exclusive=True)

    async def _copy(self, text: str) -> None:
        private = self._chats.current.private

        def work() -> Copied:
            return copy(text, self._send_sequence, keep_off_disk=private)

        try:
            copied = await asyncio.to_thread(work)
        except ClipboardError as err:
            self._parts.say(str(err), error=True)
            return
        if copied.way == "tool":
            self._parts.seam.say(News(copied.notice(), mark=self._parts.glyphs.done))
        elif copied.way == "terminal" and not self._chats.current.private:
            self._parts.seam.say(News(copied.notice(), hints=(SAVES,)))
        else:
            self._parts.say(copied.notice())

    def _send_sequence(self, sequence: str) -> None:
        self._program.call_from_thread(self._window.write, sequence)

    def save(self) -> None:
        """Save what was copied last to a file."""
        try:
            self._parts.say(save(self._copied).notice())
        except ClipboardError as err:
            self._parts.say(str(err), error=True)

    async def read(self) -> str | None:
        """The clipboard's text; None where it cannot be read, which is told."""
        try:
            return await asyncio.to_thread(paste)
        except ClipboardError as err:
            self._parts.say(str(err), error=True)
            return None
