"""The chat that a person means by an id, or by the beginning of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.exits import usage
from app.sessions.errors import FiresideError

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSnapshot


async def find(manager: SessionManager, name: str) -> SessionSnapshot:
    """The chat of an id, or of the beginning of one. A usage failure where that is none or several."""
    try:
        return await manager.get(name, include_items=False)
    except FiresideError as err:
        if err.status_code != 404:
            raise
    listed = await manager.list(10_000, include_archived=True)
    start = f"sess_{name.removeprefix('sess_')}"
    fitting = [one.id for one in listed if name and one.id.startswith(start)]
    if len(fitting) != 1:
        what = "Several chats start" if fitting else "No chat starts"
        raise usage(f"{what} with {name!r}.", "`fireside sessions list` shows them.")
    return await manager.get(fitting[0], include_items=False)
