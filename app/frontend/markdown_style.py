"""How a person wants Markdown drawn on their terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.markdown.sgr import TerminalStyle


def own_style() -> TerminalStyle:
    """In the theme and with the signs of the settings. SettingError, OSError."""
    from app.markdown.sgr import TerminalStyle
    from app.settings.config import resolve
    from app.terminal.background import palette_on_ground
    from app.terminal.glyphs import choose

    settings = resolve({})
    palette, _ = palette_on_ground(settings.get("theme"))
    return TerminalStyle(palette, choose(bool(settings.get("ascii"))))
