"""A list on the line API: thousands of rows cost one widget. Some rows can be selected, some only read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from textual.events import Click, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from app.tui.widgets.cells import Line, Span, joined, width_of
from app.tui.widgets.style import WidgetStyle, style_of
from app.tui.widgets.wheel import Wheel

_KEPT_ON_SELECTION = frozenset(("success", "warning", "error"))


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row: `left` is cut where `right` needs the room. Without a key it cannot be selected."""

    left: Line = ()
    right: Line = ()
    key: str | None = None
    indent: int = 2
    named: int = 0
    """Spans at the start that are its name: bold while it is selected."""
    ground: str = ""
    """A tone, where it is not that of the widget."""


BLANK = ListRow()


class Lines(Widget):
    """A few rows that are only read."""

    DEFAULT_CSS = "Lines { height: auto; width: 1fr; background: $panel; }"

    def __init__(self, rows: Iterable[ListRow] = (), *, ground: str = "panel", id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = list(rows)
        self._ground = ground

    @property
    def rows(self) -> Sequence[ListRow]:
        return self._rows

    def show(self, rows: Iterable[ListRow]) -> None:
        rows = list(rows)
        if rows != self._rows:
            grown = len(rows) != len(self._rows)
            self._rows = rows
            self.refresh(layout=grown)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self._rows)

    def get_content_width(self, container: object, viewport: object) -> int:
        return max((row.indent + width_of(row.left) + width_of(row.right) for row in self._rows), default=0)

    def render_line(self, y: int) -> Strip:
        width, ink = self.size.width, style_of(self)
        if y >= len(self._rows):
            return ink.strip([Span(" " * width)], self._ground)
        row = self._rows[y]
        return ink.strip(laid_out(row, width, ink), row.ground or self._ground)


def laid_out(row: ListRow, width: int, ink: WidgetStyle) -> list[Span]:
    """A row in exactly `width` cells."""
    inner = joined(row.left, row.right, max(0, width - row.indent), mark=ink.glyphs.cut_right)
    return [Span(" " * min(row.indent, width)), *inner]


class RowList(Wheel, Widget, can_focus=False):
    """Rows with a selection; the first column holds its mark, the last one the thumb of a long list,
    with a column of air before it.

    It takes no keys: who holds the prompt calls `move`, `page` and `jump`.
    """

    DEFAULT_CSS = "RowList { height: 1fr; width: 1fr; background: $panel; }"

    class Selected(Message):
        """Another row is selected."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Chosen(Message):
        """A row was clicked while it was selected, or where one click is enough."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(
        self,
        rows: Iterable[ListRow] = (),
        *,
        selected: str | None = None,
        ground: str = "panel",
        to_the_end: bool = False,
        one_click: bool = False,
        id: str | None = None,
    ) -> None:
        """`to_the_end`: the selection takes the thumb's column too, where there is no thumb.

        `one_click`: a click chooses a row at once, where it needs no second thought.
        """
        super().__init__(id=id)
        self._to_the_end = to_the_end
        self._one_click = one_click
        self._rows: list[ListRow] = []
        self._places: dict[str, int] = {}
        self._order: list[int] = []
        self._selected: str | None = None
        self._first = 0
        self._ground = ground
        self._active = True
        self._marks = True
        self._take(list(rows), selected)

    # ---- what is shown ---------------------------------------------------------------------

    @property
    def rows(self) -> Sequence[ListRow]:
        """All rows, shown or not."""
        return self._rows

    @property
    def selected(self) -> str | None:
        """The key of the selected row; None where no row can be selected."""
        return self._selected

    @property
    def active(self) -> bool:
        """Whether keys go here, so that the selection may glow."""
        return self._active

    @active.setter
    def active(self, active: bool) -> None:
        if active != self._active:
            self._active = active
            self.refresh()

    @property
    def marks(self) -> bool:
        """Whether the selected row is told from the others at all."""
        return self._marks

    @marks.setter
    def marks(self, marks: bool) -> None:
        if marks != self._marks:
            self._marks = marks
            self.refresh()

    def show(self, rows: Iterable[ListRow], selected: str | None = None) -> None:
        """Show other rows. The selection stays on its key where that is still there."""
        before = self._selected
        rows = list(rows)
        self._take(rows, selected if selected is not None else before)
        self.refresh()
        self._reveal()
        if self._selected is not None and self._selected != before:
            self.post_message(self.Selected(self._selected))

    def change(self, row: ListRow) -> None:
        """Replace the row of the same key, where there is one."""
        place = self._places.get(row.key or "")
        if place is None or self._rows[place] == row:
            return
        self._rows[place] = row
        if 0 <= (y := place - self._first) < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _take(self, rows: list[ListRow], selected: str | None) -> None:
        self._rows = rows
        self._places = {row.key: index for index, row in enumerate(rows) if row.key is not None}
        self._order = sorted(self._places.values())
        if selected not in self._places:
            selected = rows[self._order[0]].key if self._order else None
        self._selected = selected
        self._first = min(self._first, max(0, len(rows) - 1))

    # ---- moving ----------------------------------------------------------------------------

    def select(self, key: str) -> None:
        """Select a row by its key; nothing happens where there is none."""
        if key not in self._places or key == self._selected:
            return
        self._selected = key
        self._reveal()
        self.refresh()
        self.post_message(self.Selected(key))

    def move(self, step: int, *, around: bool = False) -> None:
        """Go `step` selectable rows on; at an end it stays, or goes around."""
        if not self._order:
            self.roll(step)
            return
        here = self._place_in_order()
        there = here + step
        there = there % len(self._order) if around else min(max(there, 0), len(self._order) - 1)
        self._select_at(there)
        if there == 0:
            # The heading above the first row belongs to it.
            self.roll(-len(self._rows))

    def page(self, direction: int) -> None:
        """A screenful up (-1) or down (1)."""
        rows = max(1, self.size.height - 1)
        if not self._order:
            self.roll(direction * rows)
            return
        target = self._order[self._place_in_order()] + direction * rows
        near = min(range(len(self._order)), key=lambda index: abs(self._order[index] - target))
        self._select_at(near)

    def jump(self, *, end: bool) -> None:
        """To the first or the last row."""
        if not self._order:
            self.roll(len(self._rows) if end else -len(self._rows))
            return
        self._select_at(len(self._order) - 1 if end else 0)
        if not end:
            self.roll(-len(self._rows))

    def _place_in_order(self) -> int:
        return self._order.index(self._places[self._selected]) if self._selected else 0

    def _select_at(self, index: int) -> None:
        key = self._rows[self._order[index]].key
        if key is not None:
            self.select(key)

    def _reveal(self) -> None:
        height = self.size.height
        if self._selected is None or not height:
            return
        place = self._places[self._selected]
        last = self._order[-1] == place
        low = len(self._rows) - height if last else place - height + 1
        self._first = max(0, min(max(self._first, low), place))

    def roll(self, rows: int) -> None:
        first = max(0, min(self._first + rows, len(self._rows) - self.size.height))
        if first != self._first:
            self._first = first
            self.refresh()

    # ---- the mouse and the size ------------------------------------------------------------

    def on_click(self, event: Click) -> None:
        place = event.y + self._first
        if place >= len(self._rows) or (key := self._rows[place].key) is None:
            return
        event.stop()
        chosen = self._one_click or key == self._selected
        self.select(key)
        if chosen:
            self.post_message(self.Chosen(key))

    def on_resize(self, event: Resize) -> None:
        self.roll(0)
        self._reveal()
        self.refresh()

    # ---- drawing ---------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        ink, width = style_of(self), self.size.width
        place = y + self._first
        if place >= len(self._rows) or width < 3:
            return ink.strip([Span(" " * width)], self._ground)
        row = self._rows[place]
        thumb = self._thumb(y, ink)
        if row.key is None or row.key != self._selected or not self._marks:
            return ink.strip([Span(" "), *laid_out(row, width - 3, ink), Span(" "), thumb], self._ground)
        named = [replace(span, bold=True) for span in row.left[: row.named]]
        inner = laid_out(replace(row, left=(*named, *row.left[row.named :])), width - 3, ink)
        if self._to_the_end and not thumb.text.strip():
            return selected_strip([*inner, Span("  ")], ink, self._ground, active=self._active)
        selected = selected_strip([*inner, Span(" ")], ink, self._ground, active=self._active)
        return Strip.join([selected, ink.strip([thumb], self._ground)])

    def _thumb(self, y: int, ink: WidgetStyle) -> Span:
        height, total = self.size.height, len(self._rows)
        if total <= height:
            return Span(" ")
        size = max(1, height * height // total)
        top = round(self._first / max(1, total - height) * (height - size))
        return Span(ink.glyphs.edge if top <= y < top + size else " ", "scrollbar")


def selected_strip(inner: Line, ink: WidgetStyle, ground: str, *, active: bool) -> Strip:
    """The selected row: its mark, its own ground, quiet words as loud as the others."""
    if not active:
        # What has no focus keeps its place, not its glow.
        mark = ink.strip([Span(ink.glyphs.edge, "faint", bold=ink.plain)], ground)
        return Strip.join([mark, ink.strip(inner, "panel" if ground != "panel" else "surface")])
    mark = ink.strip([Span(ink.glyphs.edge, "primary", bold=ink.plain)], ground)
    spans = [span if span.role in _KEPT_ON_SELECTION else replace(span, role="text") for span in inner]
    return Strip.join([mark, ink.strip(spans, "selection")])


def heading(text: str, right: Line = ()) -> ListRow:
    """A group's heading."""
    return ListRow((Span(text, "muted"),), right)


def lines(texts: Iterable[str], role: str = "text", indent: int = 2) -> list[ListRow]:
    """Rows that are only read."""
    return [ListRow((Span(text, role),), indent=indent) for text in texts]
