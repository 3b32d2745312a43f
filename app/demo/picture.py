"""Draws a terminal's screen as SVG: the same screen, the same bytes, wherever it is drawn."""

from __future__ import annotations

import io
import re
from typing import Any

from app.terminal.theming import DEFAULT, Palette, Tone, read

NAMED: dict[str, Tone] = {
    "red": "error",
    "green": "success",
    "brown": "warning",
    "yellow": "warning",
    "blue": "tool",
    "magenta": "reasoning",
    "cyan": "accent",
}
"""What the terminal's own colours look like in a picture; the rest is text."""

_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


def draw(screen: Any, title: str, palette: Palette | None = None) -> str:
    """The screen of a `pyte.Screen` as SVG, in the colours of `palette` (None: the default theme's)."""
    from rich.console import Console
    from rich.terminal_theme import TerminalTheme

    from app.terminal.colors import rgb_of

    colors = palette.colors if palette else read(DEFAULT).colors or {}
    ground, text = colors["background"].hex, colors["text"].hex
    console = Console(
        width=screen.columns,
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for row in range(screen.lines):
        console.print(
            _row(screen, row, {name: colors[tone].hex for name, tone in NAMED.items()}),
            no_wrap=True,
            overflow="crop",
            crop=True,
        )
    plain = [rgb_of(text)] * 8
    theme = TerminalTheme(rgb_of(ground), rgb_of(text), plain, plain)
    return portable(console.export_svg(title=title, theme=theme))


def portable(svg: str) -> str:
    """A picture that loads nothing: no font from a server, but the first of those that readers have."""
    svg = _FONT_FACE.sub("", svg)
    return svg.replace("font-family: Fira Code, monospace;", f"font-family: {FONTS};").replace(
        "font-family: arial;", "font-family: system-ui, sans-serif;"
    )


def _row(screen: Any, number: int, named: dict[str, str]) -> Any:
    from rich.style import Style
    from rich.text import Text

    row, cells = Text(end=""), screen.buffer[number]
    for column in range(screen.columns):
        cell = cells[column]
        style = Style(
            color=_color(cell.fg, named),
            bgcolor=_color(cell.bg, named),
            bold=cell.bold,
            italic=cell.italics,
            underline=cell.underscore,
            strike=cell.strikethrough,
            reverse=cell.reverse,
        )
        row.append(cell.data, style)
    return row


def _color(name: str, named: dict[str, str]) -> str | None:
    name = name.removeprefix("bright")
    if len(name) == 6 and all(digit in "0123456789abcdef" for digit in name.lower()):
        return f"#{name}"
    return named.get(name)
