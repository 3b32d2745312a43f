"""Rows of text as aligned columns."""

from __future__ import annotations

from collections.abc import Sequence

from app.terminal.output import one_line


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, whatever its cells hold; the last column is as long as its text."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
