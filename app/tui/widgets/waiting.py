"""The messages that wait for the running reply: shown above the seam, editable, removable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.terminal.glyphs import Glyphs
from app.terminal.output import squeezed
from app.terminal.text_rows import Span, cut, spread
from app.tui.grid import Grid, grid_of
from app.tui.keys import key_name, keys_at

MOST_ROWS = 4


class WaitingList(Static, can_focus=True):
    """One row a message. Its own keys edit and remove; alt+up and up go on upwards."""

    DEFAULT_CSS = "WaitingList { height: auto; width: 1fr; background: $background; display: none; }"

    @dataclass
    class Edit(Message):
        """The message of `item_id` is to be changed."""

        item_id: str
        text: str

    @dataclass
    class Remove(Message):
        item_id: str

    @dataclass
    class Leave(Message):
        """The cursor leaves: `up` to the conversation, else to the draft."""

        up: bool

    def __init__(self, glyphs: Glyphs, keymap: Mapping[str, str]) -> None:
        super().__init__("", id="waiting", markup=False)
        self._glyphs = glyphs
        self._grid = grid_of(80)
        self._names = keys_at("queue", keymap)
        self._messages: Sequence[tuple[str, str]] = ()
        self._cursor = -1

    @property
    def messages(self) -> Sequence[tuple[str, str]]:
        """(item id, text) of each, oldest first."""
        return self._messages

    def show(self, messages: Sequence[tuple[str, str]]) -> None:
        """Tell what waits."""
        if tuple(messages) == self._messages:
            return
        self._messages = tuple(messages)
        self._cursor = min(self._cursor, len(messages) - 1)
        self.display = bool(messages)
        if not messages and self.has_focus:
            self.post_message(self.Leave(False))
        self._draw()

    def place(self, grid: Grid) -> None:
        """Stand in the columns of `grid`."""
        self._grid = grid
        self._draw()

    def on_focus(self) -> None:
        """The cursor comes in from below."""
        self._cursor = len(self._messages) - 1
        self._draw()

    def on_blur(self) -> None:
        """The cursor is elsewhere."""
        self._cursor = -1
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """Move, edit, remove."""
        if not 0 <= self._cursor < len(self._messages):
            return
        item_id, text = self._messages[self._cursor]
        match self._names.get(key_name(event.key), event.key):
            case "queue_edit":
                self.post_message(self.Edit(item_id, text))
            case "queue_remove":
                self.post_message(self.Remove(item_id))
            case "up" | "k":
                self.move(-1)
            case "down" | "j":
                self.move(1)
            case _:
                return
        event.stop()

    def move(self, step: int) -> None:
        """To the message above or below; beyond the ends out of the list."""
        place = self._cursor + step
        if 0 <= place < len(self._messages):
            self._cursor = place
            self._draw()
        else:
            self.post_message(self.Leave(step < 0))

    def _draw(self) -> None:
        grid, glyphs = self._grid, self._glyphs
        lines: list[Span] = []
        hidden = max(0, len(self._messages) - MOST_ROWS)
        first = hidden if self._cursor < 0 else max(0, min(hidden, self._cursor))
        for place in range(first, min(len(self._messages), first + MOST_ROWS)):
            pointed = place == self._cursor
            edge: Span = (glyphs.prompt, "bold $primary") if pointed else (glyphs.edge, "$faint")
            text = squeezed(self._messages[place][1])
            word = "queued" if place > first or not first else f"queued, {first} more above"
            shown = cut(text, grid.measure - len(word) - 3, glyphs.cut_right)
            row = spread([(shown, "bold" if pointed else "$muted")], [(word, "$muted")], grid.measure)
            lines += [("\n", "")] if lines else []
            lines += [(" " * grid.edge, ""), edge, (" ", ""), *row]
        self.update(Content.assemble(*lines))
