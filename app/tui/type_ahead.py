"""Reading ahead: while a person writes, an idle engine evaluates the conversation and part of the draft.

Off unless the settings say `type_ahead = true`. It gives way to anything real, and what was read of
a draft that is never sent is only cache.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.sessions.errors import FiresideError

if TYPE_CHECKING:
    from app.tui.chat import Chat

PAUSE_S = 0.6
"""How long nothing is typed before it counts as a pause."""
LEAST_CHARS = 24
"""So much more of a draft is worth another pass."""


class TypeAhead:
    """Warms the cache for one chat at a time. `idle` says whether the engine has nothing to do."""

    def __init__(self, idle: Callable[[], bool]) -> None:
        self._idle = idle
        self._task: asyncio.Task[None] | None = None
        self._read: tuple[str | None, str] = (None, "")
        self.passes = 0
        """How often something was read ahead."""

    def typed(self, chat: Chat, draft: str) -> None:
        """The draft changed: what runs is given up, and after a pause its stable part is read."""
        self.stop()
        if chat.id is not None:
            self._task = asyncio.create_task(self._after_pause(chat, chat.id, draft))

    def stop(self) -> None:
        """Something real begins."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _after_pause(self, chat: Chat, session_id: str, draft: str) -> None:
        await asyncio.sleep(PAUSE_S)
        stable = stable_part(draft)
        known, read = self._read
        grown = len(stable) - len(read) if stable.startswith(read) else len(stable) + LEAST_CHARS
        if not self._idle() or (known == session_id and grown < LEAST_CHARS):
            return
        with contextlib.suppress(FiresideError):
            await chat.manager.warm(session_id, stable)
            self._read = (session_id, stable)
            self.passes += 1


def stable_part(draft: str) -> str:
    """What of a draft is unlikely to change: all but the word that is being written. Commands have none."""
    if draft.startswith(("/", "!")):
        return ""
    end = max(draft.rfind(" "), draft.rfind("\n"))
    return draft[:end] if end > 0 else ""
