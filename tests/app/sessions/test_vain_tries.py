"""Another try that is stopped before a word is no variant: the reply of before is there again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.sessions.chat import SessionsChat
from app.sessions.items import Message
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import Pause, ScriptedEngine
from backend.types import EngineError


async def resting(manager: SessionManager, session_id: str) -> None:
    live = await manager.live(session_id)
    async with asyncio.timeout(20):
        while live.busy or live.record.status not in ("idle", "failed"):
            await asyncio.sleep(0)


async def texts(manager: SessionManager, session_id: str) -> list[str]:
    return [item.text for item in await manager.list_items(session_id) if isinstance(item, Message)]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("way", ["retry", "continue"])
async def test_it_leaves_the_reply_of_before(tmp_path: Path, way: str, n: int) -> None:
    never = asyncio.Event()
    tries = n if way == "retry" else 1
    engine = ScriptedEngine([["red"], *([[Pause(until=never), "green"]] * tries), ["blue"]])
    async with SessionManager(engine=engine, store=Store(tmp_path / "chats.db")) as manager:
        session = await manager.create()
        chat = SessionsChat.bind(manager, session)
        await chat.query("a colour")
        (reply,) = [one for one in await manager.list_items(session.id) if one.response_id]
        assert reply.response_id is not None
        if way == "retry":
            await manager.retry(reply.response_id, n)
        else:
            await manager.continue_reply(reply.response_id)
        async with asyncio.timeout(20):
            while len(engine.requests) < 1 + tries:
                await asyncio.sleep(0)
        await manager.interrupt(session.id)
        await resting(manager, session.id)
        assert await texts(manager, session.id) == ["a colour", "red"]
        assert len(await manager.siblings(reply.id)) == 1
        await manager.retry(reply.response_id)
        await resting(manager, session.id)
        assert len(await manager.siblings(reply.id)) == 2


async def test_a_first_reply_that_was_stopped_before_a_word_stays_answered_by_nothing() -> None:
    engine = ScriptedEngine([[Pause(until=asyncio.Event())]])
    async with SessionManager(engine=engine, store=Store(None)) as manager:
        session = await manager.create()
        await manager.post_event(session.id, {"type": "message", "data": {"content": "hi"}})
        await manager.interrupt(session.id)
        await resting(manager, session.id)
        assert await texts(manager, session.id) == ["hi", ""]


async def test_a_try_with_a_word_is_a_variant() -> None:
    engine = ScriptedEngine([["red"], ["gr", EngineError("died")]])
    async with SessionManager(engine=engine, store=Store(None)) as manager:
        session = await manager.create()
        await SessionsChat.bind(manager, session).query("a colour")
        (reply,) = [one for one in await manager.list_items(session.id) if one.response_id]
        assert reply.response_id is not None
        await manager.retry(reply.response_id)
        await resting(manager, session.id)
        assert len(await manager.siblings(reply.id)) == 2
