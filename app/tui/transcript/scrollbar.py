"""The scroll bar: a thumb of half cells in the last column, no track, nothing while all is in view."""

from __future__ import annotations

from typing import ClassVar

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender


def thumb(rows: int, total: float, window: float, position: float) -> tuple[int, int]:
    """(first row, rows) of the thumb in a bar of `rows` rows; (0, 0) where all is in view."""
    if not rows or not window or total <= window:
        return 0, 0
    size = max(1, round(rows * window / total))
    share = min(1.0, max(0.0, position / (total - window)))
    return round((rows - size) * share), size


class HalfCellBar(ScrollBarRender):
    """Textual draws its bars through a class like this one."""

    GLYPH: ClassVar[str] = "▐"

    @classmethod
    def render_bar(
        cls,
        size: int = 25,
        virtual_size: float = 50,
        window_size: float = 20,
        position: float = 0,
        thickness: int = 1,
        vertical: bool = True,
        back_color: Color = Color.default(),  # noqa: B008 # a constant, and Textual's own signature
        bar_color: Color = Color.default(),  # noqa: B008
    ) -> Segments:
        first, length = thumb(size, virtual_size, window_size, position)
        above = Segment(" " * thickness, Style(bgcolor=back_color, meta={"@mouse.down": "scroll_up"}))
        grip = Segment(
            cls.GLYPH * thickness, Style(color=bar_color, bgcolor=back_color, meta={"@mouse.down": "grab"})
        )
        below = Segment(" " * thickness, Style(bgcolor=back_color, meta={"@mouse.down": "scroll_down"}))
        rows = [above] * first + [grip] * length + [below] * max(0, size - first - length)
        return Segments(rows, new_lines=True)


class AsciiBar(HalfCellBar):
    """The same in ASCII."""

    GLYPH: ClassVar[str] = "|"
