"""Asks a terminal for the colour behind its text (OSC 11), before a face has taken its keys.

Only worth the round trip where that ground stays visible: in 16 colours, without colour, in the theme
`terminal`, and in faces that print below what is there.
"""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty

from app.terminal.output import color_depth, in_screen, over_ssh
from app.terminal.theming import DEFAULT, Palette, ThemeError, choose, ground_is_dark, palette

LIGHT = "daylight"
"""The default where the terminal's ground is light and stays visible."""

_ANSWERING = (
    *("alacritty", "contour", "foot", "ghostty", "iterm", "kitty", "konsole", "mintty", "rio"),
    *("rxvt", "st", "tmux", "vte", "wezterm", "xterm"),
)

_QUERY = b"\x1b]11;?\x07\x1b[c"
"""The second question is one that every terminal answers, so silence to the first one is noticed."""
_LAST_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
_WAIT_S, _WAIT_OVER_SSH_S = 0.3, 1.0


def ask_ground() -> str | None:
    """The terminal's answer for `theming.ground_is_dark`; None where it gives none in time.

    Keys pressed meanwhile are lost, so ask before the first prompt.
    """
    names = os.environ.get("TERM", "").lower().split("-")
    if in_screen() or not any(name.startswith(_ANSWERING) for name in names):
        return None
    try:
        device = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        if os.tcgetpgrp(device) != os.getpgrp():
            return None
        before = termios.tcgetattr(device)
        try:
            tty.setcbreak(device, termios.TCSANOW)
            os.write(device, _QUERY)
            return _read(device, time.monotonic() + (_WAIT_OVER_SSH_S if over_ssh() else _WAIT_S))
        finally:
            termios.tcsetattr(device, termios.TCSANOW, before)
    except (OSError, termios.error):
        return None
    finally:
        os.close(device)


def palette_on_ground(name: str | None) -> tuple[Palette, ThemeError | None]:
    """The palette of a face that leaves the terminal's own ground as it is, and why it is not that theme.

    Without a name, the default that suits the ground.
    """
    is_dark = ground_is_dark(None if os.environ.get("COLORFGBG") else ask_ground())
    theme, problem = choose(name or (DEFAULT if is_dark else LIGHT))
    return palette(theme, color_depth(), dark_ground=is_dark), problem


def _read(device: int, until: float) -> str | None:
    data = b""
    while (left := until - time.monotonic()) > 0 and not _LAST_ANSWER.search(data):
        if not select.select([device], [], [], left)[0]:
            break
        data += os.read(device, 1024)
    answer = _LAST_ANSWER.split(data)[0].decode("ascii", "replace")
    return answer or None
