"""Rows of styled text for cards and lists: cut, wrapped and padded by cells. Pure text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size, split_graphemes

Span = tuple[str, str]
"""A text and its style, as `Content.assemble` takes them."""
RowSpans = list[Span]


def width_of(row: Sequence[Span]) -> int:
    """Cells of a row."""
    return sum(cell_len(text) for text, _ in row)


def cut(text: str, cells: int, mark: str) -> str:
    """`text` in at most `cells` cells; what was cut off is told by `mark`."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(0, cells - cell_len(mark))).rstrip() + mark


def pieces(text: str, cells: int) -> Iterator[str]:
    """`text` in pieces of at most `cells` cells, broken anywhere; one empty piece for an empty text.

    No piece is narrower than the sign it holds, however few the cells.
    """
    cells = max(1, cells)
    if cell_len(text) <= cells:
        yield text
        return
    if text.isascii():
        for start in range(0, len(text), cells):
            yield text[start : start + cells]
        return
    spans, _ = split_graphemes(text)
    piece, used = "", 0
    for start, end, width in spans:
        if used + width > cells and piece:
            yield piece
            piece, used = "", 0
        piece += text[start:end]
        used += width
    if piece:
        yield piece


def wrapped(text: str, cells: int) -> list[str]:
    """Prose broken at spaces, words longer than a row anywhere."""
    rows: list[str] = []
    for line in text.split("\n"):
        row = ""
        for word in line.split(" "):
            joined = f"{row} {word}" if row else word
            if cell_len(joined) <= cells:
                row = joined
                continue
            if row:
                rows.append(row)
            *full, row = pieces(word, cells)
            rows += full
        rows.append(row)
    return rows


def wrapped_spans(spans: Sequence[Span], cells: int) -> list[RowSpans]:
    """A styled sentence in rows of at most `cells` cells, broken behind blanks where a row has some."""
    cells = max(2, cells)  # the widest sign takes two
    rest, rows = "".join(text for text, _ in spans), list[RowSpans]()
    left = list(spans)
    while True:
        row = next(pieces(rest[: 8 * cells], cells), "")
        if len(row) < len(rest) and not rest[len(row)].isspace() and (end := row.rfind(" ") + 1):
            row = row[:end]
        taken, room = list[Span](), len(row)
        while room and left:
            text, style = left.pop(0)
            if text[:room]:
                taken.append((text[:room], style))
            if text[room:]:
                left.insert(0, (text[room:], style))
            room -= len(text[:room])
        rows.append(taken)
        rest = rest[len(row) :]
        if not rest:
            return rows


def padded(row: Sequence[Span], cells: int, style: str = "") -> RowSpans:
    """A row filled up with blanks to `cells` cells."""
    room = cells - width_of(row)
    return [*row, (" " * room, style)] if room > 0 else list(row)


def spread(left: Sequence[Span], right: Sequence[Span], cells: int) -> RowSpans:
    """`left` at the left, `right` at the right end of `cells` cells; the right gives way."""
    room = cells - width_of(left) - width_of(right)
    if not right or room < 2:
        return list(left)
    return [*left, (" " * room, ""), *right]
