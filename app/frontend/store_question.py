"""The question what becomes of a damaged store of chats; asked where a person is at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import termios
from typing import TYPE_CHECKING

from app.terminal.confirm import agreed
from app.terminal.output import notify

if TYPE_CHECKING:
    from app.sessions.store.store_file import DamagedStoreError


def makes_room(error: BaseException | None, *, told: bool = True) -> bool:
    """Whether `error` is of a damaged store that the person has kept aside now, so that one can begin again.

    The store must be closed. `told`: the person has read the error already.
    """
    damage = _damage(error)
    if damage is None:
        return False
    from app.sessions.errors import ServerError
    from app.sessions.store.store_file import keep_aside

    # What was typed ahead was meant for the chat.
    with contextlib.suppress(termios.error, OSError, ValueError, AttributeError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    question = "Set the damaged file aside, and start with an empty store?"
    if not agreed(question if told else f"{damage.message}\n{question}"):
        return False
    try:
        aside = keep_aside(damage.path, damage.mark)
    except ServerError as err:
        notify(str(err))
        return False
    notify(f"it is kept as {aside}" if aside != damage.path else "a new store exists already")
    return True


def look_first() -> None:
    """Ask about this person's store before anything else reads the terminal. Other failures come later."""
    from app.sessions.errors import ServerError
    from app.sessions.store.store import Store

    async def look() -> None:
        store = Store.default()
        try:
            await store.database.check()
        finally:
            await store.close()

    try:
        asyncio.run(look())
    except ServerError as err:
        makes_room(err, told=False)


def _damage(error: BaseException | None) -> DamagedStoreError | None:
    from app.sessions.store.store_file import DamagedStoreError

    while error is not None and not isinstance(error, DamagedStoreError):
        error = error.__cause__
    return error
