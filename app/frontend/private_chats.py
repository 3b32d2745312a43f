"""The chats that are kept nowhere, in both faces: on a manager of their own, made with the first of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from app.frontend.start import Start, open_private_manager
from app.sessions.errors import FiresideError

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSummary

MOST = 10_000
FORGET_S = 5.0
"""How long leaving waits for the engine to forget them."""


class PrivateChats:
    """`manager` is None until one is opened."""

    def __init__(self, start: Start) -> None:
        self.manager: SessionManager | None = None
        self._start = start
        self._making = asyncio.Lock()

    async def open(self, beside: SessionManager) -> SessionManager:
        """Their manager, on the engine of `beside`; asked for twice at once, it is made once."""
        async with self._making:
            if self.manager is None:
                self.manager = await open_private_manager(self._start, beside)
            return self.manager

    async def have(self, session_id: str) -> bool:
        """Whether a chat is one of them."""
        if self.manager is not None:
            with contextlib.suppress(FiresideError):
                await self.manager.get(session_id, include_items=False)
                return True
        return False

    async def holder(self, session_id: str, kept: SessionManager) -> tuple[SessionManager, bool]:
        """The manager of a chat, and whether it is this one."""
        if await self.have(session_id):
            assert self.manager is not None
            return self.manager, True
        return kept, False

    async def list(self, most: int = MOST) -> Sequence[SessionSummary]:
        """Those that are open, newest first."""
        return [] if self.manager is None else await self.manager.list(most)

    async def forget(self, session_ids: Iterable[str]) -> list[FiresideError]:
        """Nothing leads back to these: they are deleted, and the engine forgets them. What it failed to."""
        assert self.manager is not None
        failures: list[FiresideError] = []
        for session_id in session_ids:
            try:
                await self.manager.delete(session_id)
            except FiresideError as err:  # it is gone also where the engine fails to forget it
                failures.append(err)
        return failures

    async def close(self) -> bool:
        """The program ends: the engine forgets them, within bounded time, and their manager ends.

        Whether there were any, and nothing is left of them.
        """
        if self.manager is None:
            return False
        forgotten = False
        # The engine may not answer: it ends with the program.
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FORGET_S):
                ids = [one.id for one in await self.list()]
                forgotten = bool(ids) and not await self.forget(ids)
        await self.manager.stop()
        await self.manager.store.close()
        return forgotten
