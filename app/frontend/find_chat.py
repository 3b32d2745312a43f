"""The chat that a person means by an id, or by the beginning of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.exits import usage
from app.sessions.errors import FiresideError

if TYPE_CHECKING:
    from app.frontend.start import Start
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


async def chosen(manager: SessionManager, start: Start) -> str | None:
    """The id of the chat that the command line named, or of the copy that it asked for; None for a new one.

    A usage failure where there is no such chat.
    """
    if start.fork is not None:
        return await manager.fork((await find(manager, start.fork)).id)
    if start.resume:
        return (await find(manager, start.resume)).id
    if not start.last:
        return None
    last = await manager.last_used()
    if last is None:
        raise usage("There is no chat to continue.", "Start one without -c.")
    return last.id


async def unsaid(manager: SessionManager) -> str | None:
    """The id of the chat whose first message was being written when the program ended; None for none."""
    last = await manager.last_used()
    if last is None:
        return None
    snapshot = await manager.get(last.id)
    return last.id if snapshot.draft and not snapshot.items else None
