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
    from app.tui.chat.chat import Chat

PAUSE_S = 0.6
"""How long nothing is typed before it counts as a pause."""
LEAST_CHARS = 24
"""So much more of a draft is worth another pass."""


class TypeAhead:
    """Warms the cache for one chat at a time. `idle` says whether the engine has nothing to do."""

    def __init__(self, idle: Callable[[], bool]) -> None:
        self._idle = idle
        self._conversation: asyncio.Task[None] | None = None
        self._pause: asyncio.Task[None] | None = None
        self._known: str | None = None
        """The chat whose conversation is read."""
        self._draft = ""
        self._read = ""
        """What of its draft is read."""

    def typed(self, chat: Chat, draft: str) -> None:
        """The draft changed. Its stable part is read at a pause; the conversation before it at once, and
        writing on does not disturb that."""
        if chat.id is None:
            return
        self._draft = draft
        if self._known != chat.id:
            self.stop()
            self._known, self._read = chat.id, ""
            self._conversation = asyncio.create_task(self._read_conversation(chat, chat.id))
        elif self._conversation is None or self._conversation.done():
            self._stop_pause()
            self._pause = asyncio.create_task(self._after_pause(chat, chat.id))

    def stop(self) -> None:
        """Something real begins."""
        if self._conversation is not None and not self._conversation.done():
            self._conversation.cancel()
            self._known = None
        self._stop_pause()

    def _stop_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    async def _read_conversation(self, chat: Chat, session_id: str) -> None:
        if self._idle():
            await self._warm(chat, session_id, "")
        await self._after_pause(chat, session_id)

    async def _after_pause(self, chat: Chat, session_id: str) -> None:
        await asyncio.sleep(PAUSE_S)
        stable = stable_part(self._draft)
        grown = len(stable) - len(self._read) if stable.startswith(self._read) else len(stable)
        if grown >= LEAST_CHARS and self._idle():
            await self._warm(chat, session_id, stable)

    async def _warm(self, chat: Chat, session_id: str, stable: str) -> None:
        with contextlib.suppress(FiresideError):
            await chat.manager.warm(session_id, stable)
            self._read = stable


def stable_part(draft: str) -> str:
    """What of a draft is unlikely to change: all but the word that is being written. Commands have none."""
    if draft.startswith(("/", "!")):
        return ""
    end = max(draft.rfind(" "), draft.rfind("\n"))
    return draft[:end] if end > 0 else ""
