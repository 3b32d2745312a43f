"""The text field of a card: it takes a reason, arguments or an answer, and decides nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from app.terminal import sanitize
from app.tui.widgets.key_order import KeysInOrder
from app.tui.widgets.paste import normalized


class CardField(KeysInOrder, TextArea):
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

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "enter":
                event.prevent_default()
                event.stop()
                self.post_message(self.Done(self.text))
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
