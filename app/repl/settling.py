"""A reply while it is written, on a screen where nothing above the last row changes any more.

Rows are given out once, as soon as no further text can change them; what is left is one live row.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

from rich.cells import cell_len, set_cell_size

from app.markdown.markdown import MarkdownText
from app.markdown.rows import Mode, Row, Run
from app.terminal.output import squeezed

MOST_HELD_ROWS = 8
"""Rows of one block that wait for the end of a mark; more are shown as they stand."""
TAIL_CHARS = 600
SLOW_S = 0.005
"""A layout that takes longer is not made for each token."""
LAYOUT_SHARE = 5
_OPENERS = re.compile(r"[*_`\[<~(]|\$(?![\d\s])|&(?=[\w#])")
_DASHES = re.compile(r":?-+:?")
_FENCE = re.compile(r" {0,3}(`{3}|~{3})")
_row_offset = attrgetter("offset")


class SettlingText:
    """One Markdown text. `append`, then `take` the rows that are final, then show `tail`."""

    def __init__(self, width: int, mode: Mode, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before = 0.0
        self._passed_over = False
        """Whether text came that the last layouts were not made for."""
        self._text = MarkdownText()
        self._width = self._laid = max(1, width)
        self._mode = mode
        self._given = 0
        """Rows that were given out, as the layout counts them now."""
        self._cut: int | None = None
        """Where in the source the next row begins to be new; None: all of it is."""
        self._from = 0
        """How far in the source the rows go that were given out."""

    @property
    def source(self) -> str:
        return self._text.source

    def append(self, text: str) -> None:
        self._text.append(text)

    def resize(self, width: int) -> None:
        """Rows from now on have this width; those given out stay as they are."""
        self._width = max(1, width)

    def take(self) -> list[Row]:
        """The rows that became final since the last time.

        Where a layout takes long, most calls do none: the time for it stays a small share of all.
        """
        self._passed_over = self._clock() < self._not_before
        if self._passed_over:
            return []
        began = self._clock()
        rows = self._give(final=False)
        took = self._clock() - began
        if took > SLOW_S:
            self._not_before = began + took * LAYOUT_SHARE
        return rows

    @property
    def wait_s(self) -> float:
        """Seconds until `take` gives what it passed over; 0 where nothing was."""
        return max(0.001, self._not_before - self._clock()) if self._passed_over else 0.0

    def finish(self) -> list[Row]:
        """All rows that are left: nothing more comes."""
        self._text.finish()
        while self._text.settle(1.0):
            pass
        return self._give(final=True)

    def tail(self, cells: int) -> str:
        """The text that is in no row yet, on one row of `cells` cells: its end, as it is written."""
        source = self._text.source[self._from :]
        is_cut = len(source) > TAIL_CHARS
        line = squeezed(source[-TAIL_CHARS:])
        while cell_len(line) > cells:
            is_cut = True
            line = line[max(1, (cell_len(line) - cells) // 2) :]
        return f"\u2039{line[1:]}" if is_cut and line else line

    def _give(self, *, final: bool) -> list[Row]:
        changed = self._text.layout(self._width, self._mode)
        rows = self._text.rows
        if changed < self._given or self._cut is not None or self._width != self._laid:
            self._find_place(rows)
        self._laid = self._width
        end = len(rows) if final else self._final_rows(rows)
        while end > self._given and not rows[end - 1].text.strip() and (final or not rows[end - 1].runs):
            # An empty row is given out with what follows it.
            end -= 1
        given = rows[self._given : end]
        if given and self._cut is not None:
            rest = _rest_of(given[0], self._cut)
            given = [rest, *given[1:]] if rest is not None else given[1:]
        if end > self._given:
            self._given, self._cut = end, None
            last = rows[end - 1]
            self._from = max(self._from, _end_of(last))
            if end < len(rows) and rows[end].offset > last.offset:
                self._from = max(self._from, rows[end].offset)
        return given

    def _find_place(self, rows: list[Row]) -> None:
        """A row that was given out would come out otherwise, or the width did: go on by the source."""
        self._given = bisect_left(rows, self._from, key=_row_offset)
        self._cut = None
        if self._given and _rest_of(rows[self._given - 1], self._from) is not None:
            self._given -= 1
            self._cut = self._from

    def _final_rows(self, rows: list[Row]) -> int:
        source = self._text.source
        if not rows or not source.strip():
            return 0
        start = self._open_block(source)
        block = source[start:]
        first = bisect_left(rows, start, key=_row_offset)
        end = max(first, self._given)
        if _FENCE.match(block) is not None or (first < len(rows) and _is_code(rows[first])):
            return _end_of_code(rows, end, source.rfind("\n") + 1)
        if _may_be_table(block):
            return end
        last = len(rows) - 1
        while end < last:
            held = last - end <= MOST_HELD_ROWS
            if held and (_is_open(rows[end], source) or _may_move_up(rows[end + 1], source)):
                break
            end += 1
        return end

    def _open_block(self, source: str) -> int:
        """Where the block begins that the next characters may still change."""
        start, _ = self._text.block_at(len(source.rstrip()) - 1)
        whole = source[: source.rfind("\n") + 1]
        lines = whole.rstrip()
        if lines and "\n" not in whole[len(lines) + 1 :]:
            # A line that is not whole may seem to end the block of the line above, and join it then.
            start = min(start, self._text.block_at(len(lines) - 1)[0])
        return start


def _end_of_code(rows: list[Row], end: int, last_line: int) -> int:
    """Lines of code are final with their line ends; of what frames the code only the first row is."""
    while end < len(rows):
        row = rows[end]
        if row.offset >= last_line or (
            _is_frame(row) and end and rows[end - 1].runs and end == len(rows) - 1
        ):
            break
        end += 1
    return end


def _end_of(row: Row) -> int:
    """Where the source that a row shows ends."""
    ends = [run.offset + (run.stands_for or len(run.text)) for run in row.runs if run.offset >= 0]
    return max(ends, default=row.offset)


def _is_frame(row: Row) -> bool:
    return bool(row.text.strip()) and all(run.offset < 0 for run in row.runs)


def _is_code(row: Row) -> bool:
    """Whether a block that begins with this row is code, or framed like it."""
    return row.ground == "code" or _is_frame(row)


def _is_open(row: Row, source: str) -> bool:
    """Whether a mark in a row may still turn out to open something."""
    return any(_opens(run, run.text, source) for run in row.runs if _is_words(run))


def _may_move_up(row: Row, source: str) -> bool:
    """Whether a row begins with a word that may become shorter, and then fit at the end of the one above."""
    for run in row.runs:
        if run.offset < 0:
            continue
        word, space, _ = run.text.partition(" ")
        if _is_words(run) and _opens(run, word, source):
            return True
        if space:
            return False
    return False


def _is_words(run: Run) -> bool:
    return run.offset >= 0 and run.style.partition(":")[0] not in ("chip", "code")


def _opens(run: Run, text: str, source: str) -> bool:
    """Whether `text`, with which a run begins, has a mark that is shown as it stands."""
    for found in _OPENERS.finditer(text):
        after = text[found.end() : found.end() + 1]
        before = text[: found.start()][-1:]
        if found[0] == "(" or (found[0] == "[" and not run.stands_for):
            place = run.offset + found.start()
            if source[place - 1 : place] == "\\":
                return True  # an escaped bracket, or a formula that is not whole
            if found[0] == "(":
                continue
        if found[0] == "_" and before.isalnum() and after.isalnum():
            continue
        if after.isspace() and (found[0] != "*" or before.isspace()):
            continue
        return True
    return False


def _may_be_table(block: str) -> bool:
    """Whether a block is a table, or may become one with its second line."""
    head, newline, rest = block.partition("\n")
    if "|" not in head:
        return False
    second, closed, _ = rest.partition("\n")
    if not newline or not closed:
        return not second.strip(" \t>|:-")
    cells = second.lstrip(" \t>").rstrip(" \t").removeprefix("|").removesuffix("|").split("|")
    return all(_DASHES.fullmatch(cell.strip(" \t")) for cell in cells)


def _rest_of(row: Row, offset: int) -> Row | None:
    """The part of a row that shows the source from `offset` on."""
    runs: list[Run] = []
    for run in row.runs:
        if run.offset < 0:
            continue
        if run.offset >= offset:
            runs.append(run)
        elif run.offset + (run.stands_for or len(run.text)) > offset:
            cut = 0 if run.stands_for else offset - run.offset
            runs.append(run._replace(text=run.text[cut:], offset=run.offset + cut))
    if not any(run.text.strip() for run in runs):
        return None
    return row._replace(runs=tuple(runs), offset=offset)


def shortened(text: str, cells: int, mark: str) -> str:
    """`text` on one row of at most `cells` cells."""
    line = squeezed(text)
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, max(0, cells - cell_len(mark))).rstrip() + mark
