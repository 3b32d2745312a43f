"""Where rows end, in cells, and what runs they hold."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from rich.cells import cell_len, split_graphemes

from app.markdown.leaves import QUOTE_EDGE
from app.markdown.rows import Mode, Run

_NOT_NARROW = re.compile(
    "[^\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2070-\u209c\u2100-\u218b"
    "\u2190-\u2319\u2500-\u25fc\u2800-\u28ff]"
)
_MIN_TEXT = 8
"""Cells that prefixes leave to the text, where there are as many."""


def is_narrow(text: str) -> bool:
    """True if every character takes one cell, so that cells and characters count alike."""
    return text.isascii() or not _NOT_NARROW.search(text)


def cells(text: str) -> int:
    """Width of `text` on a screen."""
    return len(text) if text.isascii() else cell_len(text)


def breaks(text: str, width: int, start: int = 0, *, at_blanks: bool = True) -> list[tuple[int, int]]:
    """(start, end) of each row of `text` from `start` on; no row is wider than `width` cells.

    Newlines end a row. With `at_blanks` a row ends at a blank if it can, and the blank belongs to no row.
    """
    found: list[tuple[int, int]] = []
    while True:
        end = text.find("\n", start)
        line_end = len(text) if end < 0 else end
        line = text[start:line_end]
        if len(line) <= width and is_narrow(line):
            found.append((start, line_end))
        elif is_narrow(line):
            _break_narrow(text, start, line_end, width if at_blanks else -width, found)
        else:
            _break_wide(line, start, width, at_blanks, found)
        if end < 0:
            return found
        start = end + 1


def _break_narrow(text: str, start: int, end: int, width: int, found: list[tuple[int, int]]) -> None:
    """Break one line of narrow characters; a negative width breaks anywhere."""
    anywhere, width = width < 0, abs(width)
    while end - start > width:
        at = -1 if anywhere else text.rfind(" ", start, start + width + 1)
        stop = _without_blanks(text, start, at)
        if stop <= start:
            # blanks in front of a word that does not fit are no place to break
            found.append((start, start + width))
            start += width
            if anywhere:
                continue
        else:
            found.append((start, stop))
            start = at + 1
        while start < end and text[start] == " ":
            start += 1
        if start == end:
            return
    found.append((start, end))


def _without_blanks(text: str, start: int, end: int) -> int:
    """The end of `text[start:end]` without the blanks at its end."""
    while end > start and text[end - 1] == " ":
        end -= 1
    return end


def _break_wide(line: str, offset: int, width: int, at_blanks: bool, found: list[tuple[int, int]]) -> None:
    spans, _ = split_graphemes(line)
    widths = [span[2] for span in spans]
    columns = list(accumulate(widths, initial=0))
    edges = [span[0] for span in spans] + [len(line)]
    first, count = 0, len(spans)
    while True:
        last = max(bisect_right(columns, columns[first] + width) - 1, first + 1)
        if last >= count:
            found.append((offset + edges[first], offset + len(line)))
            return
        end = last
        if at_blanks and line[edges[last] : edges[last + 1]] != " ":
            while end > first and line[edges[end] - 1] != " " and widths[end - 1] < 2 and widths[end] < 2:
                end -= 1
        stop = _without_blanks(line, edges[first], edges[end]) if at_blanks else edges[end]
        if stop <= edges[first]:
            # blanks in front of a word that does not fit are no place to break
            end, stop = last, edges[last]
        found.append((offset + edges[first], offset + stop))
        while at_blanks and end < count and line[edges[end] : edges[end + 1]] == " ":
            end += 1
        first = end
        if first >= count:
            return


def slice_runs(runs: Sequence[Run], starts: Sequence[int], start: int, end: int) -> list[Run]:
    """What of `runs` stands between two positions of their joined text, neighbours of one look as one."""
    found: list[Run] = []
    index = max(0, bisect_right(starts, start) - 1)
    while index < len(runs) and starts[index] < end:
        text, style, offset, href, stands_for = runs[index]
        skip = max(0, start - starts[index])
        part = text[skip : end - starts[index]]
        index += 1
        if not part:
            continue
        offset = offset + skip if offset >= 0 and not stands_for else offset
        if found and not stands_for:
            last = found[-1]
            joins = last.offset + len(last.text) == offset if offset >= 0 else last.offset < 0
            if joins and (last.style, last.href, last.stands_for) == (style, href, 0):
                found[-1] = Run(last.text + part, style, last.offset, href)
                continue
        found.append(Run(part, style, offset, href, stands_for))
    return found


def run_starts(runs: Sequence[Run]) -> list[int]:
    """Position of each run in their joined text."""
    return list(accumulate([len(run.text) for run in runs], initial=0))[:-1]


def clip_prefix(prefix: str, width: int) -> str:
    """`prefix`, cut so that text keeps some room in `width` cells."""
    return prefix[: max(0, width - max(_MIN_TEXT, width // 3))]


@lru_cache(maxsize=256)
def prefix_runs(prefix: str, mode: Mode) -> tuple[Run, ...]:
    """List marks and quote edges as runs."""
    runs: list[Run] = []
    for index, part in enumerate(prefix.split(QUOTE_EDGE[0])):
        if index:
            runs.append(Run(":" if mode.ascii else QUOTE_EDGE[0], "faint"))
        if part:
            runs.append(Run(part, "muted"))
    return tuple(runs)
