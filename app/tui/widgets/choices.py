"""Facts and choices on the page itself, with keys: what the first run is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding
from textual.events import Click, Key, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from app.tui.grid import Grid, grid_of
from app.tui.transcript.entries import KeyChoice
from app.tui.widgets.cells import Line, Span, fitted, width_of
from app.tui.widgets.rows import ListRow, laid_out
from app.tui.widgets.style import WidgetStyle, style_of
from app.tui.widgets.wheel import Wheel

_KEY_WIDTH = 9
DETAIL_AT = 36
_GAP = 3


@dataclass(frozen=True)
class PageRow:
    """A row of the page: cells from the edge on; a choice where it stands for one."""

    edge: Span
    line: Line
    choice: int | None = None


class ChoicePage(Wheel, Widget, can_focus=True):
    """Rows in the column of the page, some of them choices. It has the prompt while it has the focus."""

    DEFAULT_CSS = "ChoicePage { height: 1fr; width: 1fr; background: $background; }"
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

    def __init__(self, choices: Iterable[KeyChoice], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.choices = tuple(choices)
        self._at = 0
        self._first = 0
        self._drawn: list[PageRow] | None = None

    # ---- for what derives from it ----------------------------------------------------------

    def page(self, grid: Grid, ink: WidgetStyle, height: int) -> list[PageRow]:
        """The rows in these columns; `height` of them are seen at once."""
        return self.choice_rows(grid, ink)

    def choice_rows(self, grid: Grid, ink: WidgetStyle) -> list[PageRow]:
        return [row for number in range(len(self.choices)) for row in self._choice_rows(number, grid, ink)]

    def _choice_rows(self, number: int, grid: Grid, ink: WidgetStyle) -> list[PageRow]:
        """A choice; the likely one has the prompt at its edge, and what it costs below where it is narrow."""
        choice = self.choices[number]
        here = number == self._at
        focused = here and self.has_focus
        edge = Span(ink.glyphs.prompt if focused else " ", "primary", bold=True)
        key = Span(ink.key(choice.key), bold=True)
        label = Span(choice.label, bold=here)
        left = [*fitted((key,), _KEY_WIDTH), label]
        detail_at = max(DETAIL_AT, width_of(left) + _GAP)
        cost = Span(choice.cost, "text" if focused else "muted")
        if detail_at + width_of([cost]) <= grid.measure:
            return [PageRow(edge, [*fitted(left, detail_at), cost], number)]
        rows = [PageRow(edge, left, number)]
        if here and choice.cost:
            rows.append(PageRow(Span(" "), [Span(" " * _KEY_WIDTH), cost], number))
        return rows

    # ---- drawing ---------------------------------------------------------------------------

    @property
    def grid(self) -> Grid:
        """The columns of the page now."""
        return grid_of(max(1, self.size.width))

    def show(self, choices: Iterable[KeyChoice] | None = None) -> None:
        """Draw anew, with other choices where they are given."""
        if choices is not None:
            self.choices = tuple(choices)
            self._at = min(self._at, max(0, len(self.choices) - 1))
        self._drawn = None
        self.refresh()

    def _rows(self) -> list[PageRow]:
        if self._drawn is None:
            width, height = self.size
            self._drawn = self.page(grid_of(max(1, width)), style_of(self), height)
            self._reveal(self._drawn, height)
        return self._drawn

    def _reveal(self, rows: Sequence[PageRow], height: int) -> None:
        """Scroll to the choice that the prompt is at, where not all rows fit."""
        here = [y for y, row in enumerate(rows) if row.choice == self._at]
        low, high = (here[-1] - height + 1, here[0]) if here else (0, 0)
        self._go_to(max(low, min(self._first, high)), len(rows) - height)

    def _go_to(self, first: int, most: int) -> None:
        self._first = max(0, min(first, most))

    def render_line(self, y: int) -> Strip:
        width, ink = self.size.width, style_of(self)
        grid, rows = grid_of(max(1, width)), self._rows()
        y += self._first
        if y >= len(rows):
            return ink.strip([Span(" " * width)], "background")
        row = rows[y]
        chosen = row.choice is not None and row.choice == self._at and self.has_focus
        ground = "selection" if chosen else "background"
        before = ink.strip([Span(" " * grid.edge), row.edge], "background")
        inner = laid_out(ListRow(row.line, indent=grid.text - grid.edge - 1), grid.column - 1, ink)
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
        rows, y = self._rows(), event.y + self._first
        if y < len(rows) and (number := rows[y].choice) is not None:
            if number == self._at:
                self.action_choose()
            else:
                self._at = number
                self.show()

    def on_focus(self) -> None:
        self.show()

    def on_blur(self) -> None:
        self.show()

    def roll(self, rows: int) -> None:
        self._go_to(self._first + rows, len(self._rows()) - self.size.height)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self.show()
