"""Following a session: each of its events in order, and a new beginning where too many came at once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from app.sessions.errors import FiresideError

if TYPE_CHECKING:
    from app.sessions.events import SessionEvent
    from app.sessions.manager import SessionManager

logger = logging.getLogger("fireside")

BEHIND = "subscriber_behind"


async def follow(
    manager: SessionManager,
    session_id: str,
    take: Callable[[SessionEvent], Awaitable[None]],
    *,
    missed: Callable[[], Awaitable[None]],
    failed: Callable[[str, str], None],
) -> None:
    """Hand events to `take` until the session closes; the first is a heartbeat, behind which none is missed.

    While the program stood still, in an editor or in the background, more may have come than is kept:
    `missed` is awaited then, to read what became of the session. `failed` is told a message and a remedy; an
    event that cannot be shown does not end the chat.
    """
    is_behind = False
    while True:
        try:
            async with aclosing(manager.stream(session_id)) as events:
                async for event in events:
                    try:
                        if is_behind:
                            is_behind = False
                            await missed()
                        await take(event)
                    except FiresideError as err:
                        failed(err.message, err.remedy)
                    except Exception as err:
                        logger.exception("an event could not be shown")
                        failed(f"Something could not be shown: {type(err).__name__}: {err}", "")
            return
        except FiresideError as err:
            is_behind = err.code == BEHIND
            if not is_behind:
                failed(err.message, err.remedy)
                return
