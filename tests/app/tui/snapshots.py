"""What a screen shows, as text that a person can read and compare: cells first, then styles by role.

`check(app, name)` compares with `NAME.txt` in the `snapshots` folder beside the test. Written anew
where `UPDATE_SNAPSHOTS` is set.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.segment import Segment
from rich.style import Style

UPDATE = "UPDATE_SNAPSHOTS"


def rows_of(app: Any) -> list[list[Segment]]:
    """The rows of the active screen, as a terminal would get them but for the colour filter."""
    return [list(strip) for strip in app.screen._compositor.render_strips()]


def text_of(app: Any) -> list[str]:
    """The active screen's text, one line a row, without blanks at the end."""
    return ["".join(segment.text for segment in row).rstrip() for row in rows_of(app)]


def dump(app: Any) -> str:
    """The cells, a line of dashes, then for each row its runs `first cell role/ground+attributes`."""
    names = _names(app.palette)
    rows = rows_of(app)
    text = [line for line in text_of(app)]
    styles = [f"{number:2} {'  '.join(_runs(row, names))}" for number, row in enumerate(rows)]
    return "\n".join([*_without_tail(text), "-" * 20, *_merged(styles)]) + "\n"


def check(app: Any, name: str, *, folder: Path | None = None) -> None:
    """Compare the active screen with the snapshot of that name."""
    if folder is None:
        folder = Path(inspect.stack()[1].filename).parent / "snapshots"
    file, found = folder / f"{name}.txt", dump(app)
    if os.environ.get(UPDATE):
        folder.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
        return
    expected = file.read_text(encoding="utf-8") if file.exists() else ""
    assert found.splitlines() == expected.splitlines(), f"{file} differs; {UPDATE}=1 writes it anew"


def _names(palette: Any) -> dict[str, str]:
    """Tones by colour; of two with one colour, the one that themes name first."""
    names: dict[str, str] = {}
    for tone, shade in palette.colors.items():
        names.setdefault(shade.hex, tone)
    return names


def _runs(row: list[Segment], names: dict[str, str]) -> Iterator[str]:
    """The runs of one row. Blanks take the run before them along where only the ground shows."""
    x, last = 0, ""
    for segment in row:
        word = _word(segment.style or Style.null(), names, blank=not segment.text.strip())
        if word != last:
            yield f"{x}:{word}"
        last = word
        x += segment.cell_length


def _word(style: Style, names: dict[str, str], *, blank: bool) -> str:
    def tone(color: Any) -> str:
        if color is None:
            return "-"
        triplet = color.triplet
        return names.get(triplet.hex, triplet.hex) if triplet else color.name

    flags = "".join(
        letter
        for letter, on in zip("biur", (style.bold, style.italic, style.underline, style.reverse), strict=True)
        if on
    )
    front = "" if blank and not style.reverse else tone(style.color)
    return f"{front}/{tone(style.bgcolor)}" + (f"+{flags}" if flags and not blank else "")


def _without_tail(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def _merged(styles: list[str]) -> Iterator[str]:
    """Rows that look the same are told once."""
    before = ""
    for line in styles:
        if line[3:] != before:
            yield line
        before = line[3:]
