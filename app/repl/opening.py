"""What the chat line by line tells below its model until something was said: what to try, the last chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.clock import now
from app.frontend.ages import age
from app.terminal.output import one_line

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager

TRY = ("try", ("a question", "@file attaches a file", "/ lists the commands"))
_TITLE_CHARS = 48


async def ways_to_begin(manager: SessionManager, *, private: bool) -> list[tuple[str, Sequence[str]]]:
    """Rows of a first word and facts. A private chat names no other one."""
    rows: list[tuple[str, Sequence[str]]] = [TRY]
    if not private:
        for chat in await manager.list(1):
            if title := one_line(chat.title or "")[:_TITLE_CHARS]:
                rows.append(("last chat", (title, age(chat.updated_at, now()), "/resume continues")))
    return rows
