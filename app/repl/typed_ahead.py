"""What was typed or pasted behind the end of the chat: a shell would take it for its next commands."""

from __future__ import annotations

import os
import select
import termios
import time
from typing import Any

_TERMINAL = 0
_GAP_S = 0.15
"""A paste comes in pieces: a terminal holds a few kilobytes, and the next ones follow as they are read."""
_LONGEST_S = 3.0


def drop_typed_ahead() -> None:
    """Read away what waits at the _TERMINAL, until nothing more comes; its modes stay.

    Where nothing waits it takes no time. Nothing happens in the background, and where there is no terminal.
    """
    try:
        if os.tcgetpgrp(_TERMINAL) != os.getpgrp():
            return
        modes = termios.tcgetattr(_TERMINAL)
    except (OSError, termios.error):
        return
    # Line by line, a line without its end would not be seen.
    quiet: list[Any] = [*modes[:6], list(modes[6])]
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    quiet[6][termios.VMIN], quiet[6][termios.VTIME] = 0, 0
    try:
        termios.tcsetattr(_TERMINAL, termios.TCSANOW, quiet)
        until, gap_s = time.monotonic() + _LONGEST_S, 0.0
        while time.monotonic() < until and select.select([_TERMINAL], [], [], gap_s)[0]:
            if not os.read(_TERMINAL, 65_536):
                break
            gap_s = _GAP_S
    except (OSError, termios.error):
        return
    finally:
        _give_back(_TERMINAL, modes)


def _give_back(terminal: int, modes: list[object]) -> None:
    try:
        termios.tcsetattr(_TERMINAL, termios.TCSAFLUSH, modes)  # pyright: ignore[reportArgumentType]
    except termios.error:
        return
