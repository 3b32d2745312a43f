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
    text: int
    """First column of text."""
    measure: int
    """Cells a line of text may take."""
    right: int
    """First column right of the fills, the seam and the status bar."""

    @property
    def narrow(self) -> bool:
        """True where right-hand statistics go."""
        return self.width < NARROW

    @classmethod
    def of(cls, width: int) -> Grid:
        """The grid of a main area `width` cells wide; never less than one cell of text."""
        if width < NARROW:
            measure = max(1, width - 3)
            return cls(width, 0, 2, measure, max(3, width - 1))
        measure = min(MEASURE, width - 8)
        edge = max(2, (width - measure - 4) // 2)
        return cls(width, edge, edge + 2, measure, edge + measure + 3)
