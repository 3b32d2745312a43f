"""Records what a terminal is sent as a moving SVG: rows that come and go, played by CSS alone.

Nothing is run and nothing is loaded, so a page may show it as a plain image. Where a person asks
for less motion, the last frame stands still.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias
from xml.sax.saxutils import escape

from app.demo.cast import MAX_PAUSE_S
from app.demo.picture import FONTS, NAMED
from app.terminal.theming import DEFAULT, Palette, read

FRAME_S = 0.08
"""What changes within so long is one frame."""
LAST_FRAME_S = 4.0
CELL = (9.8, 20.0)
"""Width and height of a character, in units of the picture."""
MARGIN = 14
FONT_SIZE = 16
LEAVES = b"\x1b[?1049l"
"""A program of the whole screen gives the terminal back; what follows is not part of the film."""
_PRIVATE = re.compile(r"\x1b\[[<=>][0-9;]*[@-~]")
"""Questions to a terminal and settings of its keys, which the screen kept here would write out."""
_BEGUN = re.compile(r"\x1b(\[[<=>]?[0-9;]*)?$")


class Run(NamedTuple):
    """Neighbouring cells of one look, from `column` on. Colours are "#rrggbb", `ground` None for none."""

    column: int
    text: str
    color: str
    ground: str | None
    bold: bool
    italic: bool


Row: TypeAlias = tuple[Run, ...]


class Film:
    """Writes `file` when the demo has ended, by what `hear` was given.

    `clock` gives seconds that only grow. Raises OSError where the file cannot be written.
    """

    def __init__(
        self,
        file: Path,
        size: tuple[int, int],
        title: str,
        palette: Palette | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import pyte

        self._path, self._size, self._title, self._clock = file, size, title, clock
        colors = (palette and palette.colors) or read(DEFAULT).colors or {}
        self._text, self._ground = colors["text"].hex, colors["background"].hex
        self._named = {name: colors[tone].hex for name, tone in NAMED.items()}
        self._screen: Any = pyte.Screen(*size)
        self._stream: Any = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last, self._at, self._has_left = clock(), 0.0, False
        self._unread = ""
        self._frames: list[tuple[float, list[Row]]] = []

    def __enter__(self) -> Self:
        self._last = self._clock()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self._keep_frame()
            self._path.write_text(self._svg(), encoding="utf-8")

    def hear(self, data: bytes) -> None:
        """Take what the terminal was just sent."""
        if self._has_left:
            return
        now = self._clock()
        if self._at + min(now - self._last, MAX_PAUSE_S) >= self._shown_until():
            self._keep_frame()
        self._at += min(now - self._last, MAX_PAUSE_S)
        self._last = now
        data, mark, _rest = data.partition(LEAVES)
        self._has_left = bool(mark)
        text = self._unread + self._decoder.decode(data)
        self._unread = cut.group() if (cut := _BEGUN.search(text)) else ""
        self._stream.feed(_PRIVATE.sub("", text.removesuffix(self._unread)))

    def _shown_until(self) -> float:
        return self._frames[-1][0] + FRAME_S if self._frames else 0.0

    def _keep_frame(self) -> None:
        rows = [self._row(number) for number in range(self._size[1])]
        if any(rows) and (not self._frames or rows != self._frames[-1][1]):
            self._frames.append((self._at, rows))

    def _row(self, number: int) -> Row:
        cells = self._screen.buffer[number]
        looks = [(column, cells[column]) for column in range(self._size[0])]
        runs: list[Run] = []
        for look, group in groupby(looks, key=lambda found: self._look(found[1])):
            cells_alike = list(group)
            run = Run(cells_alike[0][0], "".join(cell.data for _, cell in cells_alike), *look)
            if run.ground or run.text.strip():
                runs.append(run)
        return tuple(runs)

    def _look(self, cell: Any) -> tuple[str, str | None, bool, bool]:
        color, ground = self._color(cell.fg, self._text), self._color(cell.bg, self._ground)
        if cell.reverse:
            color, ground = ground, color
        return color, None if ground == self._ground else ground, cell.bold, cell.italics

    def _color(self, name: str, default: str) -> str:
        name = name.removeprefix("bright")
        if len(name) == 6 and all(digit in "0123456789abcdef" for digit in name.lower()):
            return f"#{name}"
        return self._named.get(name, default)

    def _svg(self) -> str:
        """Each content that a row has at some time is one group, shown while it stands."""
        began = self._frames[0][0] if self._frames else 0.0
        length = self._frames[-1][0] - began + LAST_FRAME_S if self._frames else LAST_FRAME_S
        spans: dict[tuple[int, Row], list[list[float]]] = {}
        ends = [at - began for at, _ in self._frames[1:]] + [length]
        for (at, rows), end in zip(self._frames, ends, strict=True):
            for number, row in enumerate(rows):
                shown = spans.setdefault((number, row), []) if row else []
                if shown and shown[-1][1] == at - began:
                    shown[-1][1] = end
                else:
                    shown.append([at - began, end])
        timings: dict[str, str] = {}
        groups = [
            self._group(number, row, _timing(shown, length), shown[-1][1] == length, timings)
            for (number, row), shown in spans.items()
        ]
        width = self._size[0] * CELL[0] + 2 * MARGIN
        height = self._size[1] * CELL[1] + 2 * MARGIN
        rules = "".join(f"@keyframes {name}{{{frames}}}\n" for frames, name in timings.items())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">\n'
            f"<title>{escape(self._title)}</title>\n<style>\n"
            f"text{{font-family:{FONTS};font-size:{FONT_SIZE}px;white-space:pre}}\n"
            f"g{{visibility:hidden;animation:{length:.2f}s step-end infinite}}\n"
            f"@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}}}\n"
            f".last{{visibility:visible}}\n{rules}</style>\n"
            f'<rect width="100%" height="100%" rx="10" fill="{self._ground}"/>\n{"".join(groups)}</svg>\n'
        )

    def _group(self, number: int, row: Row, timing: str, is_last: bool, timings: dict[str, str]) -> str:
        name = timings.setdefault(timing, f"k{len(timings)}")
        top = MARGIN + number * CELL[1]
        drawn: list[str] = []
        for run in row:
            left, width = MARGIN + run.column * CELL[0], len(run.text) * CELL[0]
            if run.ground:
                drawn.append(
                    f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{CELL[1]:g}" '
                    f'fill="{run.ground}"/>'
                )
            if text := run.text.rstrip():
                indent = len(text) - len(text := text.lstrip())
                look = ' font-weight="bold"' * run.bold + ' font-style="italic"' * run.italic
                drawn.append(
                    f'<text x="{left + indent * CELL[0]:g}" y="{top + CELL[1] * 0.76:g}" '
                    f'textLength="{len(text) * CELL[0]:g}" fill="{run.color}"{look}>{escape(text)}</text>'
                )
        mark = ' class="last"' if is_last else ""
        return f'<g{mark} style="animation-name:{name}">{"".join(drawn)}</g>\n'


def _timing(shown: list[list[float]], length: float) -> str:
    """The key frames of what stands in the spans `shown`, out of a film of `length` seconds."""
    marks = ["0%{visibility:hidden}"] if shown[0][0] > 0 else []
    for start, end in shown:
        marks.append(f"{start / length:.3%}{{visibility:visible}}")
        if end < length:
            marks.append(f"{end / length:.3%}{{visibility:hidden}}")
    return "".join(marks)
