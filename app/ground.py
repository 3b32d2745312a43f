"""Asks a terminal for the colour behind its text (OSC 11), before a face has taken its keys.

Only worth the round trip where that ground stays visible: in 16 colours, without colour, and in the
theme `terminal`.
"""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty

from app.terminal import over_ssh

_QUERY = b"\x1b]11;?\x07\x1b[c"
"""The second question is one that every terminal answers, so silence to the first one is noticed."""
_LAST_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
_WAIT_S, _WAIT_OVER_SSH_S = 0.3, 1.0


def ask_ground() -> str | None:
    """The terminal's answer for `theming.ground_is_dark`; None where it gives none in time.

    Keys pressed meanwhile are lost, so ask before the first prompt.
    """
    if os.environ.get("TERM", "dumb") in ("", "dumb", "linux", "unknown"):
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


def _read(device: int, until: float) -> str | None:
    data = b""
    while (left := until - time.monotonic()) > 0 and not _LAST_ANSWER.search(data):
        if not select.select([device], [], [], left)[0]:
            break
        data += os.read(device, 1024)
    answer = _LAST_ANSWER.split(data)[0].decode("ascii", "replace")
    return answer or None
