"""Facts and choices on the page itself, with keys: what the first run is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding
from textual.events import Click, Key, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from app.tui.grid import Grid, grid_of
from app.tui.widgets.cells import Line, Span, fitted, width_of
from app.tui.widgets.ink import Ink, ink_of
from app.tui.widgets.rows import Row, laid_out

_KEY_WIDTH = 9
DETAIL_AT = 36
_GAP = 3


@dataclass(frozen=True)
class Choice:
    """One way on: a letter or `enter`, what it does, and what that costs."""

    key: str
    label: str
    cost: str = ""


@dataclass(frozen=True)
class PageRow:
    """A row of the page: cells from the edge on; a choice where it stands for one."""

    edge: Span
    line: Line
    choice: int | None = None


class ChoicePage(Widget, can_focus=True):
    """Rows in the column of the page, some of them choices. It has the prompt while it has the focus."""

    DEFAULT_CSS = "ChoicePage { height: auto; width: 1fr; background: $background; }"
    BINDINGS: ClassVar[Any] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """A person chose a way on."""

        def __init__(self, page: ChoicePage, key: str) -> None:
            super().__init__()
            self.page = page
            self.key = key

        @property
        def control(self) -> ChoicePage:
            return self.page

    def __init__(self, choices: Iterable[Choice], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.choices = tuple(choices)
        self._at = 0
        self._drawn: tuple[int, list[PageRow]] = (0, [])

    # ---- for what derives from it ----------------------------------------------------------

    def page(self, grid: Grid, ink: Ink) -> list[PageRow]:
        """The rows in these columns."""
        return [self.choice_row(number, grid, ink) for number in range(len(self.choices))]

    def choice_row(self, number: int, grid: Grid, ink: Ink, key_width: int = _KEY_WIDTH) -> PageRow:
        """The row of one choice; the likely one has the prompt at its edge."""
        choice = self.choices[number]
        here = number == self._at
        focused = here and self.has_focus
        edge = Span(ink.glyphs.prompt if focused else " ", "primary", bold=ink.plain)
        key = Span(ink.key(choice.key), bold=True)
        label = Span(choice.label, bold=here)
        left = [*fitted((key,), key_width), label]
        detail_at = max(DETAIL_AT, width_of(left) + _GAP)
        line = [*fitted(left, detail_at), Span(choice.cost, "text" if focused else "muted")]
        return PageRow(edge, line, number)

    # ---- drawing ---------------------------------------------------------------------------

    @property
    def grid(self) -> Grid:
        """The columns of the page now."""
        return grid_of(max(1, self.size.width))

    def show(self, choices: Iterable[Choice] | None = None) -> None:
        """Draw anew, with other choices where they are given."""
        if choices is not None:
            self.choices = tuple(choices)
            self._at = min(self._at, max(0, len(self.choices) - 1))
        self._drawn = (0, [])
        self.refresh(layout=True)

    def _rows(self, width: int) -> list[PageRow]:
        if self._drawn[0] != width:
            self._drawn = (width, self.page(grid_of(max(1, width)), ink_of(self)))
        return self._drawn[1]

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self._rows(width))

    def render_line(self, y: int) -> Strip:
        width, ink = self.size.width, ink_of(self)
        grid, rows = grid_of(max(1, width)), self._rows(width)
        if y >= len(rows):
            return ink.strip([Span(" " * width)], "background")
        row = rows[y]
        chosen = row.choice is not None and row.choice == self._at and self.has_focus
        ground = "selection" if chosen else "background"
        before = ink.strip([Span(" " * grid.edge), row.edge], "background")
        inner = laid_out(Row(row.line, indent=grid.text - grid.edge - 1), grid.column - 1, ink)
        after = Span(" " * max(0, width - grid.edge - grid.column))
        return Strip.join([before, ink.strip(inner, ground), ink.strip([after], "background")])

    # ---- keys ------------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        for choice in self.choices:
            if event.character is not None and event.character == choice.key:
                event.stop()
                event.prevent_default()
                self.post_message(self.Chosen(self, choice.key))
                return

    def action_move(self, step: int) -> None:
        if self.choices:
            self._at = max(0, min(self._at + step, len(self.choices) - 1))
            self.show()

    def action_choose(self) -> None:
        if self.choices:
            self.post_message(self.Chosen(self, self.choices[self._at].key))

    def on_click(self, event: Click) -> None:
        rows = self._rows(self.size.width)
        if event.y < len(rows) and (number := rows[event.y].choice) is not None:
            if number == self._at:
                self.action_choose()
            else:
                self._at = number
                self.show()

    def on_focus(self) -> None:
        self.show()

    def on_blur(self) -> None:
        self.show()

    def on_resize(self, event: Resize) -> None:
        self._drawn = (0, [])
