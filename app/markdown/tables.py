"""Rows of a table: columns by their widest whole cell, shared out when they are too wide together."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from app.markdown.inline import Text, read_inline
from app.markdown.layout import Layout, LayoutContext
from app.markdown.leaves import Leaf, SourceLine
from app.markdown.rows import Row, Run, add_attributes
from app.markdown.wrap import breaks, cells, clip_prefix, is_narrow, prefix_runs, run_starts, slice_runs

_GAP = 3
"""Blanks between columns."""
_MIN_COLUMN = 12
"""Cells a column needs on average, or the table is written as records."""

_TRIES = 8
_MIN_VALUE = 8
"""Cells a value needs beside its name, or it stands below."""


class Cell(NamedTuple):
    runs: list[Run]
    joined: str
    width: int
    """In cells, of its longest line."""


class Part(NamedTuple):
    """One row of a cell."""

    runs: list[Run]
    width: int


@dataclass(slots=True)
class TableLayout(Layout):
    texts: list[list[str]] = field(default_factory=list[list[str]])
    cells: list[list[Cell]] = field(default_factory=list[list[Cell]])
    naturals: list[int] = field(default_factory=list[int])
    measured: int = 0
    """Table rows whose cells count for `naturals`."""
    columns: list[int] | None = None
    """Widths in use; empty when the table is written as records."""
    ends: list[int] = field(default_factory=list[int])
    """Number of rows before each table row, and after the last."""


def lay_table(leaf: Leaf, page: LayoutContext) -> int:
    """Bring the rows of a table up to date; the first changed row."""
    key = (leaf.first, leaf.cont, leaf.offset, tuple(leaf.aligns))
    layout = leaf.laid if isinstance(leaf.laid, TableLayout) and leaf.laid.fits(page, key) else None
    fresh = layout is None
    if layout is None:
        layout = TableLayout(page.width, page.mode, key, naturals=[1] * len(leaf.aligns), ends=[0])
        leaf.laid = layout
    first = min(_read_cells(leaf, page, layout), len(layout.ends) - 1)
    whole = len(leaf.cells) if leaf.closed else max(1, len(leaf.cells) - 1)
    for row in layout.cells[layout.measured : whole]:
        layout.naturals = [max(width, cell.width) for width, cell in zip(layout.naturals, row, strict=True)]
    layout.measured = whole
    naturals = layout.naturals
    for row in layout.cells[whole:]:
        # The row that grows moves no column, but one sign of two cells must fit.
        needs = [1 if is_narrow(cell.joined) else 2 for cell in row]
        naturals = list(map(max, naturals, needs))
    columns = _share(naturals, page.width - len(clip_prefix(leaf.cont, page.width)))
    if columns != layout.columns:
        layout.columns = columns
        first = 0
    if not columns and first == 1:
        first = 0  # a header alone shows its names, which its first record then says
    keep = layout.ends[first]
    before = layout.rows[keep:]
    del layout.rows[keep:], layout.ends[first + 1 :]
    page.meter.characters += sum([len(cell.joined) + 8 for row in layout.cells[first:] for cell in row])
    _Painter(leaf, page, layout).add_rows(first)
    new = layout.rows[keep:]
    same = 0
    while same < min(len(before), len(new)) and before[same] == new[same]:
        same += 1
    return 0 if fresh else keep + same


def _read_cells(leaf: Leaf, page: LayoutContext, layout: TableLayout) -> int:
    """Read the cells that are new; the first table row that changed."""
    # Rows before the last were complete when they were read.
    start = max(0, len(layout.texts) - 1)
    changed = len(leaf.cells)
    del layout.texts[len(leaf.cells) :], layout.cells[len(leaf.cells) :]
    for number in range(start, len(leaf.cells)):
        row = leaf.cells[number]
        if number < len(layout.texts) and layout.texts[number] == row:
            continue
        changed = min(changed, number)
        del layout.texts[number:], layout.cells[number:]
        layout.texts.append(row)
        style = "text" if number else "text:b"
        layout.cells.append(_read_row(row, leaf.cell_lines[number], page, style))
    return changed


def _read_row(row: list[str], line: SourceLine, page: LayoutContext, style: str) -> list[Cell]:
    found: list[Cell] = []
    at = 0
    for text in row:
        found_at = line.text.find(text, at) if "|" not in text else _find_with_pipes(line.text, text, at)
        position = max(at, found_at)
        origin = [(0, line.offset + position)]
        for index, char in enumerate(text):
            if char == "|" and line.text[position : position + 1] == "\\":
                position += 1
                origin.append((index, line.offset + position))
            position += 1
        at = position
        inline = read_inline(Text(text, origin, page.cleaner, page.references, page.mode, style, page.meter))
        width = max(map(cells, inline.joined.split("\n")))
        found.append(Cell(inline.runs, inline.joined, width))
    return found


def _find_with_pipes(line: str, text: str, start: int) -> int:
    """Where a cell that holds pipes stands, escaped or too many; -1 where a few tries find nothing."""
    pieces = text.split("|")
    at = start
    for _ in range(_TRIES):
        if pieces[0]:
            at = line.find(pieces[0], at)
        elif (at := line.find("|", at)) > start and line[at - 1] == "\\":
            at -= 1
        if at < 0:
            break
        if _stand_at(line, pieces, at):
            return at
        at += 1 + line.startswith("\\|", at)
    return -1


def _stand_at(line: str, pieces: list[str], at: int) -> bool:
    """Whether the pieces stand there, a pipe between each two, with a backslash or without."""
    for number, piece in enumerate(pieces):
        if number:
            at += line.startswith("\\|", at)
            if not line.startswith("|", at):
                return False
            at += 1
        if not line.startswith(piece, at):
            return False
        at += len(piece)
    return True


def _share(naturals: list[int], width: int) -> list[int]:
    """Widths of the columns in `width` cells: narrow ones keep theirs; none where records are better."""
    count = len(naturals)
    room = width - _GAP * (count - 1)
    if sum(naturals) <= room:
        return list(naturals)
    if room < _MIN_COLUMN * count:
        return []
    widths = [0] * count
    left = room
    for place, column in enumerate(sorted(range(count), key=lambda at: naturals[at])):
        widths[column] = min(naturals[column], left // (count - place))
        left -= widths[column]
    return widths


class _Painter:
    """Adds rows to a layout."""

    def __init__(self, leaf: Leaf, page: LayoutContext, layout: TableLayout) -> None:
        self._leaf = leaf
        self._page = page
        self._layout = layout
        self._first = clip_prefix(leaf.first, page.width)
        self._cont = clip_prefix(leaf.cont, page.width)
        self._columns = layout.columns or []

    def add_rows(self, start: int) -> None:
        for number in range(start, len(self._layout.cells)):
            if self._columns:
                self._add_table_row(number)
            else:
                self._add_record(number)
            self._layout.ends.append(len(self._layout.rows))

    def _add(self, runs: list[Run], offset: int) -> None:
        rows = self._layout.rows
        head = prefix_runs(self._cont if rows else self._first, self._page.mode)
        offset = max(offset, rows[-1].offset) if rows else offset
        rows.append(Row((*head, *runs), offset, "page", len(self._cont)))

    def _offset(self, number: int) -> int:
        return self._page.cleaner.source_offset(self._leaf.cell_lines[number].offset)

    def _add_table_row(self, number: int) -> None:
        row = self._layout.cells[number]
        parts = [_parts(cell, width) for cell, width in zip(row, self._columns, strict=True)]
        for pieces in zip_longest(*parts, fillvalue=Part([], 0)):
            runs: list[Run] = []
            for column, piece in enumerate(pieces):
                if column:
                    runs.append(Run(" " * _GAP))
                runs += self._aligned(column, piece)
            while runs and runs[-1].offset < 0 and not runs[-1].text.strip():
                runs.pop()
            self._add(runs, self._offset(number))
        if number == 0:
            width = sum(self._columns) + _GAP * (len(self._columns) - 1)
            self._add([Run(self._page.rule(width), "faint")], self._offset(number))

    def _aligned(self, column: int, piece: Part) -> list[Run]:
        blanks = max(0, self._columns[column] - piece.width)
        align = self._leaf.aligns[column]
        before = blanks if align == "right" else blanks // 2 if align == "center" else 0
        runs = [Run(" " * before)] if before else []
        runs += piece.runs
        if blanks > before:
            runs.append(Run(" " * (blanks - before)))
        return runs

    def _add_record(self, number: int) -> None:
        """One line a cell: the column's name, then what stands there."""
        header = self._layout.cells[0]
        room = max(1, self._page.width - len(self._cont))
        name_width = max(1, min(max(cell.width for cell in header), room // 3))
        if number == 0:
            if len(self._layout.cells) == 1:
                for cell in header:
                    for part in _parts(cell, room):
                        self._add(part.runs, self._offset(0))
            return
        if number > 1:
            self._add([Run(self._page.rule(min(3, room)), "faint")], self._offset(number))
        value_width = room - name_width - 2
        if value_width < _MIN_VALUE:
            name_width, value_width = 0, room
        for name, cell in zip(header, self._layout.cells[number], strict=True):
            names = [part._replace(runs=_muted(part.runs)) for part in _parts(name, name_width or room)]
            values = _parts(cell, value_width)
            if not name_width:
                for part in (*names, *values):
                    self._add(part.runs, self._offset(number))
                continue
            for left, right in zip_longest(names, values, fillvalue=Part([], 0)):
                runs = [*left.runs]
                if right.runs:
                    runs += [Run(" " * (name_width - left.width + 2)), *right.runs]
                self._add(runs, self._offset(number))


def _parts(cell: Cell, width: int) -> list[Part]:
    starts = run_starts(cell.runs)
    found: list[Part] = []
    for start, end in breaks(cell.joined, max(1, width)):
        found.append(Part(slice_runs(cell.runs, starts, start, end), cells(cell.joined[start:end])))
    return found


def _muted(runs: list[Run]) -> list[Run]:
    """A column's name beside a value: it is not the source of that row."""
    return [Run(run.text, add_attributes("muted", run.style.partition(":")[2])) for run in runs]
