"""Ctrl-C with nothing to stop: it clears the draft, or, twice, quits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.tui.program.parts import Parts
from app.tui.program.startup import EarlyKeys
from app.tui.widgets.seam import News

if TYPE_CHECKING:
    from app.tui.shell import Program

QUIT_WITHIN_S = 2.0


class Leaving:
    """Works from the first frame on: the rest of the screen may not come."""

    def __init__(self, program: Program, parts: Parts, keys: EarlyKeys) -> None:
        self._program = program
        self._parts = parts
        self._keys = keys
        self._asked_at = -QUIT_WITHIN_S

    def clear_or_quit(self) -> None:
        """Clear the draft; where it is empty, quit at the second time."""
        draft = self._parts.draft
        written = draft.kept + self._keys.text
        self._keys.drop()
        if written:
            draft.history_of_messages.add(written, keep=False)
            draft.put("")
            self._parts.say("cleared; up brings it back")
        elif time.monotonic() - self._asked_at < QUIT_WITHIN_S:
            self._program.exit(0)
        else:
            self._asked_at = time.monotonic()
            scrolls = draft.vi is not None and not draft.vi.inserts
            self._parts.seam.say(News("again to quit", hints=() if scrolls else (("ctrl+d", "too"),)))
