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
