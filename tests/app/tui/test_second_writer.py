"""A chat that another process holds: it is followed, and what is typed here is neither sent nor lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)


async def say(manager: SessionManager, session_id: str, text: str) -> None:
    data = {"role": "user", "content": text}
    await manager.post_event(session_id, {"type": "message", "data": data})
    while (await manager.get(session_id)).status != "idle":
        await asyncio.sleep(0.01)


async def test_the_second_one_is_told_and_keeps_its_draft(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    first = SessionManager(engine=ScriptedEngine([["one"], ["two"]]), store=Store(store))
    await first.start()
    session_id = (await first.create(None)).id
    await say(first, session_id, "here")
    async with running([["never"]], store=store, start={"last": True}) as run:
        await run.until(lambda: run.texts("answer") == ["one"])
        await run.send("there")
        await run.until(lambda: "open in another Fireside" in run.seam)
        assert run.app.parts.draft.text == "there"
        await say(first, session_id, "here again")
        await run.until(lambda: run.texts("answer") == ["one", "two"])
    texts = [getattr(item, "text", "") for item in await first.list_items(session_id, limit=100)]
    assert texts == ["here", "one", "here again", "two"]
    await first.aclose()
