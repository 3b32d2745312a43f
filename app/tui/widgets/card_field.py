"""The text field of a card: it takes a reason, arguments or an answer, and decides nothing itself."""

from __future__ import annotations

import time
from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.timer import Timer

from app.frontend.paste import normalized
from app.terminal.output import sanitize
from app.tui.widgets.key_order import KeysInOrder
from app.tui.widgets.soft_rows import SoftArea

SETTLE_S = 0.04
"""How long an enter waits for what comes together with it, in seconds."""
PASTE_S = 0.5
"""A line end so soon after lines that came together is the rest of their paste."""


class CardField(KeysInOrder, SoftArea):
    """A text in the card: a reason, arguments, an answer. Enter is done, ctrl+j breaks the line."""

    @dataclass
    class Done(Message):
        text: str

    @dataclass
    class Left(Message):
        pass

    def __init__(self) -> None:
        super().__init__(soft_wrap=True, tab_behavior="focus", compact=True, highlight_cursor_line=False)
        self.cursor_blink = False
        self._ending: Timer | None = None
        """Enter, which waits a moment: with more behind it, it is the line end of a paste."""
        self._pasted_at = float("-inf")

    def load_text(self, text: str) -> None:
        """Show another text, without what a terminal must not be sent."""
        super().load_text(sanitize(normalized(text)))

    def _on_resize(self) -> None:
        super()._on_resize()
        self.scroll_cursor_visible()  # the caret stands elsewhere in other rows

    def _enter(self) -> None:
        self._ending = None
        if time.monotonic() - self._pasted_at < PASTE_S:
            self._replace_via_keyboard("\n", *self.selection)
        else:
            self.post_message(self.Done(self.text))

    def _is_pasted(self) -> None:
        """More came right behind an enter."""
        if self._ending is not None:
            self._ending.stop()
            self._ending, self._pasted_at = None, time.monotonic()
            self._replace_via_keyboard("\n", *self.selection)

    async def _on_key(self, event: events.Key) -> None:
        self._is_pasted()
        match event.key:
            case "enter":
                event.prevent_default()
                event.stop()
                self._ending = self.set_timer(SETTLE_S, self._enter)
            case "escape":
                event.prevent_default()
                event.stop()
                self.post_message(self.Left())
            case "ctrl+j" | "alt+enter" | "shift+enter":
                event.prevent_default()
                event.stop()
                self._replace_via_keyboard("\n", *self.selection)
            case _:
                pass

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        result = self._replace_via_keyboard(sanitize(normalized(event.text)), *self.selection)
        if result is not None:
            self.move_cursor(result.end_location)
