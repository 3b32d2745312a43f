"""The columns of the main area: where the edge, the text and the fills stand at a width.

Transcript, cards, composer, seam and status all take their columns from here, so every left edge is
one of two.
"""

from __future__ import annotations

from typing import NamedTuple

MEASURE = 92
"""The longest line of text, in cells."""
NARROW = 60
"""Below this width the margins and the statistics of name rows go."""


class Grid(NamedTuple):
    """Columns in cells from the left of the main area."""

    width: int
    """Of the main area, the scroll bar's column included."""
    edge: int
    """Column of the edge; the seam and the status bar begin here too."""
    measure: int
    """Cells a line of text may take."""

    @property
    def text(self) -> int:
        """First column of text."""
        return self.edge + 2

    @property
    def right(self) -> int:
        """First column right of the fills, the seam and the status bar."""
        return max(self.edge + 3, min(self.text + self.measure + 1, self.width))

    @property
    def column(self) -> int:
        """Cells from the edge to `right`."""
        return self.right - self.edge


def grid_of(width: int) -> Grid:
    """The grid of a main area `width` cells wide; never less than one cell of text."""
    if width < NARROW:
        return Grid(width, 0, max(1, width - 3))
    measure = min(MEASURE, width - 8)
    return Grid(width, max(2, (width - measure - 4) // 2), measure)
