"""Rows that are no body's: names, facts and labels, each in exactly one row of the measure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from app.markdown.rows import Row, Run
from app.terminal.output import sanitize
from app.tui.transcript.entry import Sheet
from app.tui.widgets.cells import MAX_LINE_CHARS, cut

GAP, GROUP_GAP = "  ", "   "
"""Between words of one group, and between groups."""


def one_line(text: str) -> str:
    """`text` as one line that may be shown; blanks stay."""
    return sanitize(text[:MAX_LINE_CHARS]).replace("\n", " ").replace("\t", " ")


def line(left: Sequence[Run], right: Sequence[Run], sheet: Sheet) -> Row:
    """One row: `left`, and `right` ending at the measure; `left` is cut where both do not fit."""
    size = sum([cell_len(run.text) for run in right])
    room = sheet.measure - (size + 2 if size else 0)
    runs: list[Run] = []
    for run in left:
        text = cut(run.text, room, sheet.glyphs.cut_right)
        room -= cell_len(text)
        runs.append(run._replace(text=text))
        if text != run.text:
            break
    if size:
        runs += [Run(" " * (room + 2)), *right]
    return Row(tuple([run for run in runs if run.text]))
