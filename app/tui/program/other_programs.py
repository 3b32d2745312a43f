"""Programs of the person that take the terminal for a while: the editor and the pager."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app.frontend.draft import with_double
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.window import Window

if TYPE_CHECKING:
    from app.tui.shell import Program


class OtherPrograms:
    """Lends the terminal."""

    def __init__(self, program: Program, parts: Parts, window: Window, chats: OpenChats) -> None:
        self._program = program
        self._parts = parts
        self._window = window
        self._chats = chats

    def write_on(self) -> None:
        """Write the draft on in the editor."""
        self._program.start(self._write_on, group="editor")

    async def _write_on(self) -> None:
        draft = self._parts.draft
        before = draft.whole
        # What keys began before stays a command, or loses its mark; what the editor begins is text.
        typed = draft.begins_typed
        text = await self.edit(before)
        if text is None:
            return
        if draft.whole not in (before, ""):
            # A message that could not be sent came back meanwhile.
            draft.history_of_messages.add(draft.kept, keep=False)
        draft.folds.clear()
        draft.put(text, typed=typed and text.lstrip()[:1] == before.lstrip()[:1])

    async def edit(self, text: str) -> str | None:
        """`text` as the person left it; None where the editor cannot be used, which is told."""
        from app.frontend.editor import EditorError, edit

        private, saved = self._chats.current.private, ""

        def left(written: str) -> None:
            nonlocal saved
            saved = written
            self._parts.draft.history_of_messages.add(with_double(written), keep=not private)

        if self._window.is_lent:
            return None
        try:
            return await edit(text, self._window.lent, private=private, left=left)
        except EditorError as err:
            told = f"{err} Press up to find what was saved." if saved else str(err)
            self._parts.say(told, error=True)
            return None

    def page(self, text: str) -> None:
        """Show a text in the pager; it is handed over without a file."""
        self._program.start(partial(self._page, text), group="editor")

    async def _page(self, text: str) -> None:
        from app.frontend.editor import EditorError, page

        if self._window.is_lent:
            return
        try:
            await page(text, self._window.lent)
        except EditorError as err:
            self._parts.say(str(err), error=True)
