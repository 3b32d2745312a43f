"""Two small dialogs that commands need: something to read, and one line to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from app.terminal.text_rows import wrapped
from app.tui.screens.dialog import Dialog, spread
from app.tui.shell import Shell
from app.tui.widgets.cells import Span, fitted, plain
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import BLANK, ListRow, RowList

MOST_CHARS = 1_000_000


class TextDialog(Dialog[None]):
    """A text, or rows of columns, to read. Its keys scroll; esc closes."""

    WIDTH = 104
    BINDINGS: ClassVar[Any] = [
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup,ctrl+u", "page(-1)", show=False),
        Binding("pagedown,space,ctrl+d", "page(1)", show=False),
        Binding("home,g", "jump(False)", show=False),
        Binding("end,G", "jump(True)", show=False),
        Binding("enter,q", "close", show=False),
    ]

    def __init__(self, shell: Shell, title: str, body: Sequence[tuple[str, ...]] | str) -> None:
        super().__init__(shell, plain(title), (("esc", "closes"),))
        self._text = body
        self._list = RowList(id="text")
        self._list.can_focus = True

    def body(self) -> Iterable[Widget]:
        yield spread(self._list, hanging=True, bottom=1)

    def resized(self) -> None:
        """Wrap for the width there is."""
        room = max(10, self.inner_width - 2)
        if isinstance(self._text, str):
            rows = [
                ListRow((Span(line),))
                for line in wrapped(self._text[:MOST_CHARS].replace("\t", "    "), room)
            ]
        else:
            rows = self._columns(self._text, room)
        self._list.show(rows or [BLANK])

    def _columns(self, table: Sequence[tuple[str, ...]], room: int) -> list[ListRow]:
        width = min(room // 3, max((cell_len(cells[0]) for cells in table if cells), default=0))
        rows: list[ListRow] = []
        for cells in table:
            first, rest = (cells[0], "   ".join(cells[1:])) if cells else ("", "")
            lines = wrapped(rest, max(10, room - width - 3))
            for place, line in enumerate(lines):
                name = (Span(first if place == 0 else "", bold=True),)
                cells = fitted(name, width, self.ink.glyphs.cut_right)
                rows.append(ListRow((*cells, Span("   "), Span(line, "muted"))))
        return rows

    def action_scroll(self, step: int) -> None:
        self._list.move(step)

    def action_page(self, direction: int) -> None:
        self._list.page(direction)

    def action_jump(self, end: bool) -> None:
        self._list.jump(end=end)


class LineDialog(Dialog[str | None]):
    """One line to write. Gives it back, None for esc."""

    ROWS = 6

    def __init__(self, shell: Shell, title: str, default: str = "") -> None:
        super().__init__(shell, plain(title), (("enter", "confirms"), ("esc", "closes")))
        self._filter = Filter("", default)

    def body(self) -> Iterable[Widget]:
        yield spread(self._filter)

    def on_mount(self) -> None:
        super().on_mount()
        self._filter.input.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)
