"""Selected text: points in sources, so that a selection outlives streaming, folding and resizing.

Textual keeps a selection as offsets (x, y) that only need to sort: y is the entry's index, x its
section and the offset in the section's source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from textual.geometry import Offset
from textual.selection import Selection

from app.tui.transcript.entry import Entry

_SECTION_BITS = 40
_FAR = 1 << 62
_MOST_AROUND = 16
"""Markers that come along: each costs a look at the whole slice, and an honest text nests few."""
_MARKERS = re.compile(r"\*\*\*|\*\*|~~|`+|\*|(?<!\w)_+|_+(?!\w)")


class Point(NamedTuple):
    """A place in the text of the page; sorts as it stands there."""

    entry: int
    section: int
    offset: int


def to_offset(point: Point) -> Offset:
    """The point as Textual keeps it."""
    return Offset((point.section << _SECTION_BITS) + point.offset, point.entry)


def span_of(selection: Selection) -> tuple[Point, Point]:
    """Both ends of `selection`; an end in another widget is the page's own end."""
    start, end = selection
    return (
        Point(0, 0, 0) if start is None else _point(start),
        Point(_FAR, 0, 0) if end is None else _point(end),
    )


def _point(offset: Offset) -> Point:
    section, inside = divmod(max(0, offset.x), 1 << _SECTION_BITS)
    return Point(offset.y, section, inside)


def part_of(span: tuple[Point, Point], entry: int, section: int) -> tuple[int, int] | None:
    """The range of that section's text inside `span`, None for nothing; its end may lie far out."""
    start, end = span
    here = (entry, section)
    if here < start[:2] or here > end[:2]:
        return None
    first = start.offset if here == start[:2] else 0
    last = end.offset if here == end[:2] else _FAR
    return (first, last) if first < last else None


def selected_text(entries: Sequence[Entry], span: tuple[Point, Point]) -> str:
    """The source between both points. A folded entry gives its hidden text only where an end lies in it."""
    start, end = span
    blocks: list[str] = []
    for index in range(max(0, start.entry), min(len(entries) - 1, end.entry) + 1):
        entry = entries[index]
        inside = index in (start.entry, end.entry)
        texts: list[str] = []
        for section, text in enumerate(entry.parts):
            part = part_of(span, index, section)
            if part is None or not text or (entry.folded and section and not inside):
                continue
            first, last = part[0], min(part[1], len(text))
            whole = first <= 0 and last >= len(text)
            marked = entry.kind in ("answer", "thought", "note") and not whole
            texts.append(balanced(text, first, last) if marked else text[first:last])
        if joined := "\n".join([text.strip("\r\n") for text in texts if text]):
            blocks.append(entry.in_full(joined))
    return "\n\n".join(blocks)


def balanced(source: str, start: int, end: int) -> str:
    """A slice of Markdown without half a pair of markers.

    Markers right outside the slice that belong to ones inside come along; others that stand alone go.
    """
    for steps in range(_MOST_AROUND, -1, -1):
        piece = source[start:end]
        if "\n```" in f"\n{piece}" or "\n~~~" in f"\n{piece}":
            return piece
        before, after = start, end
        for found in reversed(_alone(piece)):
            marker = found[0]
            if steps and start >= len(marker) and source[start - len(marker) : start] == marker:
                start -= len(marker)
                break
            if steps and source.startswith(marker, end):
                end += len(marker)
                break
            piece = piece[: found.start()] + piece[found.end() :]
        if (start, end) == (before, after):
            return piece
    return source[start:end]


def _alone(piece: str) -> list[re.Match[str]]:
    """Markers without a partner, first to last. List marks and spaced asterisks are none."""
    open_: dict[str, re.Match[str]] = {}
    for found in _MARKERS.finditer(piece):
        before, after = piece[found.start() - 1 : found.start()], piece[found.end() : found.end() + 1]
        if (not before or before.isspace()) and (not after or after.isspace()) and found[0] == "*":
            continue
        if "`" in open_ and "`" not in found[0]:
            continue
        if open_.pop(found[0], None) is None:
            open_[found[0]] = found
    return sorted(open_.values(), key=lambda found: found.start())
