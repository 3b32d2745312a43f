"""What a subscriber hears of a session that others may write: their items, and never our own twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.sessions import open_sessions
from app.sessions.events import OutputItemDoneEvent, SessionInputConsumedEvent
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine
from tests.app.sessions.conftest import listening

MESSAGE = {"type": "message", "data": {"role": "user", "content": "hello"}}


async def test_what_this_process_wrote_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower looks again after the session became ours and its reply was stored."""
    stored = asyncio.Event()
    sleep = asyncio.sleep

    async def until_stored(seconds: float) -> None:
        await (stored.wait() if seconds == open_sessions.FOLLOW_S else sleep(seconds))

    monkeypatch.setattr(open_sessions.asyncio, "sleep", until_stored)
    manager = SessionManager(engine=ScriptedEngine([["one"]]), store=Store(tmp_path / "chats.db"))
    await manager.start()
    session_id = (await manager.create(None)).id
    async with listening(manager, session_id) as heard:
        following = manager._followers[session_id]
        await manager.post_event(session_id, MESSAGE)
        await heard.kind(SessionInputConsumedEvent)
        await heard.kind(OutputItemDoneEvent)
        await heard.status("idle")
        stored.set()
        async with asyncio.timeout(30):
            await following
        told = [event.item.id for event in heard.events if isinstance(event, OutputItemDoneEvent)]
        assert len(told) == len(set(told)) == 1
    await manager.aclose()


async def test_what_another_wrote_before_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sessions, "FOLLOW_S", 0.0)
    other = SessionManager(engine=ScriptedEngine([["theirs"]]), store=Store(tmp_path / "chats.db"))
    await other.start()
    session_id = (await other.create(None)).id
    ours = SessionManager(engine=ScriptedEngine([["ours"]]), store=Store(tmp_path / "chats.db"))
    await ours.start()
    async with listening(ours, session_id) as heard:
        async with listening(other, session_id) as theirs:
            await other.post_event(session_id, MESSAGE)
            await theirs.status("idle")
        await heard.until(
            lambda event: isinstance(event, OutputItemDoneEvent) and event.item.text == "theirs"
        )
        await other.aclose()
        await ours.post_event(session_id, MESSAGE)
        await heard.until(lambda event: isinstance(event, OutputItemDoneEvent) and event.item.text == "ours")
        texts = [event.item.text for event in heard.events if isinstance(event, OutputItemDoneEvent)]
        assert texts == ["hello", "theirs", "ours"]
    await ours.aclose()
