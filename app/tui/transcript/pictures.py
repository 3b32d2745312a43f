"""Pictures as half blocks: two pixels to a cell, small enough to stand in a conversation.

`draw` decodes what a stranger may have made, so it refuses what is too large and belongs on a worker
thread. The terminal's own picture protocols are left alone: they place pixels outside the page's rows.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

from app.colors import rgb_of
from app.tui.transcript.rows import Row, Run

COLUMNS, ROWS = 60, 18
"""The most cells that a picture takes."""
MOST_PIXELS = 50_000_000
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
UPPER = "\u2580"


@dataclass(frozen=True)
class Drawing:
    """A picture in cells."""

    width: int
    """Of the picture itself, in pixels."""
    height: int
    rows: tuple[Row, ...]


def pixels_style(upper: str, lower: str) -> str:
    """The style key of a cell with two colours, `#rrggbb` each."""
    return f"{upper}/{lower}"


def draw(data: bytes, ground: str, columns: int = COLUMNS, rows: int = ROWS) -> Drawing | None:
    """The picture in `data` on the colour `ground`, at most so large; None where it cannot be read."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                width, height = picture.size
                if width * height > MOST_PIXELS or not width or not height:
                    return None
                scale = min(1.0, columns / width, rows * 2 / height)
                size = max(1, round(width * scale)), max(2, round(height * scale / 2) * 2)
                picture.draft("RGB", size)
                small = picture.convert("RGBA").resize(size)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None
    flat = Image.new("RGBA", size, rgb_of(ground))
    flat.alpha_composite(small)
    return Drawing(width, height, _rows(flat.convert("RGB").tobytes(), size))


def _rows(pixels: bytes, size: tuple[int, int]) -> tuple[Row, ...]:
    columns, lines = size

    def color(x: int, y: int) -> str:
        at = (y * columns + x) * 3
        return f"#{pixels[at : at + 3].hex()}"

    rows: list[Row] = []
    for y in range(0, lines - 1, 2):
        runs: list[Run] = []
        for x in range(columns):
            style = pixels_style(color(x, y), color(x, y + 1))
            if runs and runs[-1].style == style:
                runs[-1] = runs[-1]._replace(text=runs[-1].text + UPPER)
            else:
                runs.append(Run(UPPER, style))
        rows.append(Row(tuple(runs)))
    return tuple(rows)
