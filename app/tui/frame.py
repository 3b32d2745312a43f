"""What of the screen is there at a size: side pane, blank rows, the composer's share. Pure arithmetic."""

from __future__ import annotations

PANE_OVERLAYS_BELOW = 100
PANE_BY_DEFAULT_FROM = 120
WIDE = 160
NARROW = 60
TALL = 30
MAX_COMPOSER_ROWS = 8


def side_width(width: int) -> int:
    """Cells of the side pane on a screen of `width` cells."""
    if width < NARROW:
        return width
    return 36 if width >= WIDE else 31


def side_overlays(width: int) -> bool:
    """True where the side pane lies over the chat, because both do not fit."""
    return width < PANE_OVERLAYS_BELOW


def side_by_default(width: int) -> bool:
    """True where the side pane is open until somebody closes it."""
    return width >= PANE_BY_DEFAULT_FROM


def is_tall(height: int) -> bool:
    """True where there are rows to spare for air at the top and above the status bar."""
    return height >= TALL


def composer_rows(height: int) -> int:
    """The most rows that the composer takes on a screen of `height` rows."""
    return max(1, min(MAX_COMPOSER_ROWS, height // 3))


def rows_for_page(height: int) -> int:
    """The most rows above the seam for a page that leaves one blank row on each side of it."""
    return max(0, height - (8 if is_tall(height) else 6))
