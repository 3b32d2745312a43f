"""The chats pane tells what is in the store from the beginning."""

from __future__ import annotations

from pathlib import Path

from app.sessions.manager import SessionManager
from app.sessions.store import Store
from backend.scripted import ScriptedEngine
from tests.tui.program import running


async def test_chats_of_earlier_days_are_there_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    async with SessionManager(engine=ScriptedEngine(), store=Store(file)) as manager:
        await manager.create(title="Colour of basalt")
    async with running(store=file, size=(140, 40)) as run:
        await run.until(lambda: any("Colour of basalt" in row for row in run.screen()))


async def test_a_pane_that_a_wider_terminal_opens_tells_the_chats_too(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    async with SessionManager(engine=ScriptedEngine(), store=Store(file)) as manager:
        await manager.create(title="Colour of basalt")
    async with running(store=file, size=(80, 24)) as run:
        await run.until(lambda: run.app.status.display)
        assert not any("Colour of basalt" in row for row in run.screen())
        await run.pilot.resize_terminal(140, 40)
        await run.until(lambda: any("Colour of basalt" in row for row in run.screen()))
