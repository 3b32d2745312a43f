"""Rows of a text that is written: a key costs what the rows around it do, however long its line is.

Textual wraps, measures and draws a whole line anew for each of its rows and at each key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from rich.cells import cell_len, get_character_cell_size
from rich.style import Style
from rich.text import Text
from textual.document._wrapped_document import WrappedDocument
from textual.expand_tabs import expand_tabs_inline
from textual.geometry import Offset, clamp
from textual.strip import Strip
from textual.widgets import TextArea

from textual._cells import cell_width_to_column_index  # isort: skip

Location = tuple[int, int]
_WIDENS = "\ufe0f"
"""Makes a picture of the sign before it, which is two cells wide."""


class SoftRows(WrappedDocument):
    """A document in rows of some width. Where a row ends depends on what follows its beginning only: behind
    an edit no more rows are found anew than until one begins where one did."""

    measured = 0
    """Characters that were looked at to find where rows end, so far."""

    def wrap(self, width: int, tab_width: int | None = None) -> None:
        """Find the rows of all lines."""
        self._width = width
        self._tab_width = tab_width or self._tab_width
        self._texts = list(self.document.lines)
        self._wrap_offsets = [self._breaks(text) for text in self._texts]
        self._number(0)

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        """Find the rows of the lines that an edit changed, from `start` to what its end was and is."""
        lines = self.document.lines
        top = clamp(min(start[0], old_end[0]), 0, min(len(self._texts), len(lines)) - 1)
        # Behind the edit stand as many lines as before.
        bottom = max(start[0], old_end[0])
        below = max(0, min(len(self._texts) - bottom - 1, len(lines) - top - 1))
        if len(lines) == len(self._texts) == top + 1 + below:
            before = len(self._wrap_offsets[top])
            self._wrap_offsets[top] = self._mended(top, lines[top], start[1], old_end[1])
            self._texts[top] = lines[top]
            if len(self._wrap_offsets[top]) != before:
                self._number(top)
            return
        new = lines[top : len(lines) - below]
        self._wrap_offsets[top : len(self._texts) - below] = [self._breaks(text) for text in new]
        self._texts[top : len(self._texts) - below] = new
        self._number(top)

    @property
    def height(self) -> int:
        """How many rows there are."""
        return len(self._offset_to_line_info)

    def row(self, number: int) -> tuple[int, int, int] | None:
        """A row's line, and the columns at which it begins and ends; None behind the last one."""
        if number >= self.height:
            return None
        line, section = self._offset_to_line_info[number]
        return line, *self._bounds(line, section)

    def get_sections(self, line_index: int) -> list[str]:
        text, offsets = self.document.get_line(line_index), self._wrap_offsets[line_index]
        return [text[a:b] for a, b in zip([0, *offsets], [*offsets, len(text)], strict=True)]

    def get_tab_widths(self, line_index: int) -> list[int]:
        """None: a tab's width is counted from where its row begins."""
        return []

    def location_to_offset(self, location: Location) -> Offset:
        """Where a place of the text stands, in cells and rows."""
        line, column = clamp(location[0], 0, len(self._texts) - 1), location[1]
        section = bisect_right(self._wrap_offsets[line], column)
        before = self.document.get_line(line)[self._bounds(line, section)[0] : column]
        self.measured += len(before)
        x = cell_len(expand_tabs_inline(before, self._tab_width))
        return Offset(x, self._line_index_to_offsets[line][0] + section)

    def get_target_document_column(self, line_index: int, x_offset: int, y_offset: int) -> int:
        """The column of a line that stands at some cell of one of its rows."""
        last = len(self._wrap_offsets[line_index])
        section = y_offset % (last + 1)
        start, end = self._bounds(line_index, section)
        piece = self.document.get_line(line_index)[start:end]
        column = start + cell_width_to_column_index(piece, x_offset, self._tab_width)
        return column if section == last else min(column, end - 1)

    # ---- parts -----------------------------------------------------------------------------

    def _bounds(self, line: int, section: int) -> tuple[int, int]:
        offsets = self._wrap_offsets[line]
        start = offsets[section - 1] if section else 0
        return start, offsets[section] if section < len(offsets) else len(self._texts[line])

    def _number(self, top: int) -> None:
        """Say which rows the lines from `top` on have."""
        row = self._line_index_to_offsets[top - 1][-1] + 1 if top else 0
        del self._offset_to_line_info[row:], self._line_index_to_offsets[top:]
        for line in range(top, len(self._texts)):
            count = len(self._wrap_offsets[line]) + 1
            self._line_index_to_offsets.append(list(range(row, row + count)))
            self._offset_to_line_info += [(line, section) for section in range(count)]
            row += count

    def _breaks(self, text: str) -> list[int]:
        """Where the rows of a line begin, but for the first."""
        found: list[int] = []
        place = self._next(text, 0)
        while place:
            found.append(place)
            place = self._next(text, place)
        return found

    def _mended(self, line: int, text: str, start: int, end: int) -> list[int]:
        """The beginnings of a changed line's rows, by those that it had."""
        before, old = self._texts[line], self._wrap_offsets[line]
        first, same = start, len(before) - end
        if before[:first] != text[:first] or same > len(text) - first or not text.endswith(before[end:]):
            return self._breaks(text)  # several edits at once
        # A row's end may look at the first character behind it, and the row before decides its beginning.
        found = old[: max(0, bisect_right(old, first) - 2)]
        grown = len(text) - len(before)
        place = self._next(text, found[-1] if found else 0)
        while place:
            found.append(place)
            if place >= len(text) - same:
                known = bisect_left(old, place - grown)
                if known < len(old) and old[known] == place - grown:
                    return found + ([at + grown for at in old[known + 1 :]] if grown else old[known + 1 :])
            place = self._next(text, place)
        return found

    def _next(self, text: str, start: int) -> int:
        """Where the row behind the one that begins at `start` does; 0 for none.

        It begins with the last word that does within the width, else where the width ends.
        """
        if not self._width:
            return 0
        end = self._reach(text, start)
        if end >= len(text):
            return 0
        if not text[end].isspace() and text[end - 1].isspace():
            return end
        words = text[start:end].rstrip()
        word = next((at for at in range(len(words) - 1, -1, -1) if words[at].isspace()), -1)
        return start + word + 1 if word >= 0 else end

    def _reach(self, text: str, start: int) -> int:
        """The first character behind `start` that the width has no cell for; one at least fits."""
        piece = text[start : start + self._width]
        self.measured += len(piece)
        if piece.isascii() and piece.isprintable():
            return start + max(1, len(piece))
        cells, last = 0, 0
        for at in range(start, len(text)):
            char = text[at]
            if char == "\t":
                size = self._tab_width - cells % self._tab_width
            else:
                size = int(last == 1) if char == _WIDENS else get_character_cell_size(char)
            if cells + size > self._width and at > start:
                return at
            cells, last = cells + size, size
            self.measured += at >= start + self._width
        return len(text)


class SoftArea(TextArea):
    """A text area whose lines are wrapped, and drawn row by row."""

    _rows: SoftRows

    @property
    def wrapped_document(self) -> SoftRows:
        """The text in rows; whatever the base class makes for them, these are used."""
        return self._rows

    @wrapped_document.setter
    def wrapped_document(self, made: WrappedDocument) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._rows = SoftRows(made.document, tab_width=self.indent_width)

    def dress(self, piece: Text, line: str, start: int) -> None:
        """Style a row, which begins at a column of its line."""

    def _render_line(self, y: int) -> Strip:
        theme = self._theme
        ground = theme.base_style or self.rich_style
        found = self._rows.row(y + self.scroll_offset.y)
        if found is None:
            return Strip.blank(self.size.width, ground)
        number, start, end = found
        line = self.document.get_line(number)
        is_last = end == len(line)
        piece = Text(line[start:end] + (" " if is_last else ""), end="", no_wrap=True)
        self.dress(piece, line, start)
        (top, bottom), caret = sorted(self.selection), self.selection.end
        if top != bottom and top[0] <= number <= bottom[0] and theme.selection_style is not None:
            if not line and number != caret[0]:
                piece = Text("▌", end="")
                piece.stylize(Style(color=theme.selection_style.bgcolor))
            else:
                first = top[1] if number == top[0] else 0
                last = bottom[1] if number == bottom[0] else len(line)
                _stylize(piece, theme.selection_style, first - start, min(last, end) - start)
        at = caret[1] - start
        is_here = caret[0] == number and at >= 0 and (caret[1] < end or is_last)
        if is_here and self._draw_cursor and theme.cursor_style is not None:
            piece.stylize(theme.cursor_style, at, at + 1)
        piece.expand_tabs(self.indent_width)
        console = self.app.console  # pyright: ignore[reportUnknownMemberType]
        strip = Strip(piece.render(console), cell_length=piece.cell_len)
        width = self.scrollable_content_region.size.width
        return strip.extend_cell_length(width, theme.base_style).apply_style(ground)


def _stylize(piece: Text, style: Any, start: int, end: int) -> None:
    if end > max(0, start):
        piece.stylize(style, max(0, start), end)
