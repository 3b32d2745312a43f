"""How a chat begins: what is left of a beginning that was given up."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from app.frontend.start import Start, open_manager
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.settings.config import resolve
from backend.engines.scripted import ScriptedEngine


def stores() -> set[threading.Thread]:
    """The threads of the stores that are open."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("fireside-store")}


@pytest.mark.parametrize("loop_goes_on", [True, False])
def test_leaving_while_the_manager_is_made_leaves_no_store_open(loop_goes_on: bool, tmp_path: Path) -> None:
    before, begun, goes = stores(), threading.Event(), threading.Event()
    held: list[SessionManager] = []

    def make(_: Start) -> SessionManager:
        store = Store(tmp_path / "chats.db")
        begun.set()
        goes.wait(20)
        return SessionManager(engine=ScriptedEngine(closed=True), store=store)

    async def wait_until_closed() -> None:
        async with asyncio.timeout(20):
            while stores() - before:
                await asyncio.sleep(0.01)

    async def leave() -> None:
        opening = asyncio.create_task(open_manager(Start(resolve({})), make, held.append))
        await asyncio.to_thread(begun.wait, 20)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        if loop_goes_on:
            goes.set()
            await wait_until_closed()

    asyncio.run(leave())
    goes.set()
    asyncio.run(wait_until_closed())
    assert held == []
