"""Which way pictures reach the screen of a terminal: found from what it says of itself, without asking it.

An answer to a question would come among the keys of whoever is typing already.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from app.terminal.output import ColorSystem, in_screen, in_tmux

Way = Literal["kitty", "blocks", "off"]
"""By kitty's protocol with its placeholders, as half blocks, or not at all."""

_KITTY_TERMS = ("xterm-kitty", "xterm-ghostty")
_OTHERS = ("VTE_VERSION", "WEZTERM_PANE", "KONSOLE_VERSION", "XTERM_VERSION", "ALACRITTY_WINDOW_ID")
"""Set by terminals that may have been started from kitty, and inherit what it set."""


def choose(
    wish: str,
    depth: ColorSystem | None,
    *,
    at_terminal: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> Way:
    """The way for a terminal of that colour depth; `wish` is `auto` or what a person prefers.

    kitty's placeholders carry their picture's number as a true colour. Inside tmux and GNU screen they
    would need the outer terminal's word, so there they are used only where a person says so.
    """
    if wish == "off" or depth not in ("truecolor", "256"):
        return "off"
    if depth != "truecolor" or not at_terminal or in_screen(environ):
        return "blocks"
    if wish == "kitty" or (wish == "auto" and not in_tmux(environ) and _speaks_kitty(environ)):
        return "kitty"
    return "blocks"


def _speaks_kitty(environ: Mapping[str, str]) -> bool:
    """Whether the terminal knows placeholders: kitty and ghostty do, WezTerm and Konsole do not."""
    if environ.get("TERM") in _KITTY_TERMS or environ.get("TERM_PROGRAM", "").lower() == "ghostty":
        return True
    return bool(environ.get("KITTY_WINDOW_ID")) and not any(environ.get(name) for name in _OTHERS)
