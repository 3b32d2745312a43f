"""Pictures as rows of cells: decoded with care, shrunk, and as half blocks two pixels to a cell.

What a stranger may have made is decoded, so it is bounded, refused with the reason, and belongs on a
worker thread.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from app.markdown.rows import Row, Run
from app.terminal.colors import indexed, rgb_of

if TYPE_CHECKING:
    from PIL import Image

ROWS = 16
"""The most rows that a picture takes."""
MOST_BYTES = 25_000_000
MOST_PIXELS = 34_000_000
"""A screen of 7680x4320; decoded it takes 136 MB for a moment."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
UPPER = "\u2580"
_ORIENTATION = 0x0112
"""The tag of EXIF that says how a camera was held."""
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_LYING = frozenset({5, 6, 7, 8})


class PictureError(ValueError):
    """Why a picture is not drawn, as the words after its name."""


class Cell(NamedTuple):
    """The pixels of a picture that one cell shows where it is not shrunk."""

    width: int
    height: int


HALVES = Cell(1, 2)


@dataclass(frozen=True)
class Drawing:
    """A picture in cells."""

    width: int
    """Of the picture itself as it is to be seen, in pixels."""
    height: int
    cell: Cell
    cells: tuple[int, int]
    """Columns and rows that it was drawn for."""
    rows: tuple[Row, ...]
    """Empty where they were given up, and the place is kept for them."""
    sent: str = ""
    """What the terminal has to get before it is shown the rows."""
    unsent: str = ""
    """What makes the terminal forget that."""

    def fit(self, columns: int) -> tuple[int, int]:
        """Columns and rows that it takes where there are so many columns."""
        return fit((self.width, self.height), columns, self.cell)

    def without_rows(self) -> Drawing:
        """Only the place that it takes."""
        return replace(self, rows=(), sent="", unsent="")


def fit(size: tuple[int, int], columns: int, cell: Cell = HALVES) -> tuple[int, int]:
    """Columns and rows for a picture of `size` pixels: never larger than it is, its shape kept."""
    width, height = _shrunk(size, columns, cell)
    return -(-width // cell.width), -(-height // cell.height)


def draw(data: bytes, ground: str, columns: int, *, few_colors: bool = False) -> Drawing:
    """The picture in `data` as half blocks on the colour `ground`. PictureError where it cannot be drawn.

    With `few_colors` only those of xterm's palette occur.
    """
    from PIL import Image

    small, size = shrunk(data, columns, HALVES)
    flat = _on(small, ground)
    if few_colors:
        flat = flat.quantize(palette=_xterm(), dither=Image.Dither.NONE).convert("RGB")
    rows = _halves(flat.tobytes(), flat.size, ground)
    return Drawing(*size, HALVES, (flat.width, len(rows)), rows)


def shrunk(data: bytes, columns: int, cell: Cell) -> tuple[Image.Image, tuple[int, int]]:
    """The first frame in `data`, upright, shrunk to what fits; and its size in pixels.

    PictureError where it cannot be read or is too large.
    """
    from PIL import Image

    if len(data) > MOST_BYTES:
        raise PictureError("too large to be drawn here")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            width, height = picture.size
            if width * height > MOST_PIXELS:
                raise PictureError(f"{width}x{height} pixels are too many to be drawn here")
            turn = int(picture.getexif().get(_ORIENTATION, 1))
            size = (height, width) if turn in _LYING else (width, height)
            upright = _shrunk(size, columns, cell)
            target = (upright[1], upright[0]) if turn in _LYING else upright
            picture.draft("RGB", target)
            small = _plain(picture).resize(target, Image.Resampling.LANCZOS, reducing_gap=2.0)
            if turn in _TURNS:
                small = small.transpose(Image.Transpose[_TURNS[turn]])
            return small, size
    except PictureError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as err:
        raise PictureError("too many pixels to be drawn here") from err
    except Image.UnidentifiedImageError as err:
        raise PictureError("not a known kind of picture") from err
    except Exception as err:  # Decoders of five formats fail at broken data in any way.
        raise PictureError("broken or cut off") from err


def _shrunk(size: tuple[int, int], columns: int, cell: Cell) -> tuple[int, int]:
    width, height = size
    scale = min(1.0, columns * cell.width / width, ROWS * cell.height / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _plain(picture: Image.Image) -> Image.Image:
    """The picture with 8 bits to a channel, in grey or in red, green and blue, transparent or not."""
    if picture.mode.startswith(("I", "F")):
        return picture.point(lambda level: level * (1 / 256)).convert("L")
    if picture.has_transparency_data:
        return picture if picture.mode in ("RGBA", "LA") else picture.convert("RGBA")
    return picture if picture.mode in ("RGB", "L") else picture.convert("RGB")


def _on(picture: Image.Image, ground: str) -> Image.Image:
    from PIL import Image

    if not picture.has_transparency_data:
        return picture.convert("RGB")
    flat = Image.new("RGBA", picture.size, rgb_of(ground))
    flat.alpha_composite(picture.convert("RGBA"))
    return flat.convert("RGB")


@cache
def _xterm() -> Image.Image:
    from PIL import Image

    colors = [indexed(index) for index in range(16, 256)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for color in colors for part in rgb_of(color)])
    return palette


def _halves(pixels: bytes, size: tuple[int, int], ground: str) -> tuple[Row, ...]:
    columns, lines = size

    def color(x: int, y: int) -> str:
        at = (y * columns + x) * 3
        return f"#{pixels[at : at + 3].hex()}" if y < lines else ground

    rows: list[Row] = []
    for y in range(0, lines, 2):
        runs: list[Run] = []
        for x in range(columns):
            style = f"{color(x, y)}/{color(x, y + 1)}"
            if runs and runs[-1].style == style:
                runs[-1] = runs[-1]._replace(text=runs[-1].text + UPPER)
            else:
                runs.append(Run(UPPER, style))
        rows.append(Row(tuple(runs)))
    return tuple(rows)
