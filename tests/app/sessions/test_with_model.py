from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from app.sessions.errors import FiresideError
from app.sessions.events import OutputTextDeltaEvent, SessionPrefillEvent, SessionUsageEvent
from app.sessions.items import Message
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.host import EngineHost
from backend.engines.local import InProcessEngine
from tests.app.sessions.conftest import listening

pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]


async def test_chats_decode_together_and_are_stored(tiny_llama: Path, tmp_path: Path) -> None:
    async with SessionManager(model=str(tiny_llama), engine=InProcessEngine(), store=Store(None)) as manager:
        chats = [await manager.sessions_chat() for _ in range(3)]
        for chat in chats:
            config = {"max_new_tokens": 12, "temperature": 0.0, "ignore_eos": True}
            await manager.configure(chat.session_id, config=config, overflow="error")
        results = await asyncio.gather(*(chat.query("hello there") for chat in chats))
        assert {result.finish_reason for result in results} == {"max_output_tokens"}
        assert all(result.usage and result.usage["output_tokens"] == 12 for result in results)
        for chat, result in zip(chats, results, strict=True):
            reply = (await manager.list_items(chat.session_id))[-1]
            assert isinstance(reply, Message) and reply.text == result.text


async def test_the_context_is_counted_exactly(tiny_llama: Path) -> None:
    async with SessionManager(model=str(tiny_llama), store=Store(None)) as manager:
        chat = await manager.sessions_chat()
        config = {"max_new_tokens": 4, "temperature": 0.0}
        await manager.configure(chat.session_id, config=config, overflow="error")
        told = await manager.context(chat.session_id, "count me")
        async with listening(manager, chat.session_id) as heard:
            await manager.post_event(
                chat.session_id, {"type": "message", "data": {"role": "user", "content": "count me"}}
            )
            usage: SessionUsageEvent = await heard.kind(SessionUsageEvent)
            prefill: SessionPrefillEvent = await heard.kind(SessionPrefillEvent)
            await heard.status("idle")
        assert told["exact"] and told["window"] == usage.context_window
        assert prefill.total == told["total"]
        preview = await manager.preview(chat.session_id, "more")
        assert preview["tokens"] and "count me" in preview["text"]


async def test_a_model_that_is_not_there_fails_the_turn_with_a_remedy(tmp_path: Path) -> None:
    async with SessionManager(model=str(tmp_path / "gone.gguf"), store=Store(None)) as manager:
        chat = await manager.sessions_chat()
        async with listening(manager, chat.session_id) as heard:
            await manager.post_event(
                chat.session_id, {"type": "message", "data": {"role": "user", "content": "hi"}}
            )
            failed = await heard.status("failed")
        assert failed.error["code"] == "not_found" and failed.error["remediation"]  # type: ignore[attr-defined]


async def test_a_killed_engine_process_costs_one_reply(tiny_llama: Path, tmp_path: Path) -> None:
    host = EngineHost()
    async with SessionManager(model=str(tiny_llama), engine=host, store=Store(tmp_path / "c.db")) as manager:
        chat = await manager.sessions_chat()
        config = {"max_new_tokens": 450, "temperature": 0.0, "ignore_eos": True}
        await manager.configure(chat.session_id, config=config, overflow="error")
        killed = False
        with contextlib.suppress(FiresideError):
            async for event in chat.send("hello"):
                if isinstance(event, OutputTextDeltaEvent) and not killed:
                    killed = True
                    assert host.pid
                    os.kill(host.pid, signal.SIGKILL)
        assert killed and (await chat.refresh()).status == "failed"
        cut = next(
            item for item in chat.session.items if isinstance(item, Message) and item.role == "assistant"
        )
        assert cut.interrupted
        await manager.configure(chat.session_id, config={**config, "max_new_tokens": 5})
        result = await chat.query("are you there?")
        assert result.usage and result.usage["output_tokens"] == 5


async def test_a_private_chat_leaves_no_cell_when_it_closes(tiny_llama: Path) -> None:
    """An open chat on the same engine keeps its own."""
    secret = "the cat sat on the mat and nobody is to know it"
    engine = InProcessEngine()

    def cells() -> list[str]:
        assert engine._model is not None
        scheduler = engine._model.pipeline.engine._scheduler
        assert scheduler is not None
        return [engine._model.tokenizer.decode(slot.tokens) for slot in scheduler.slots]

    async with SessionManager(model=str(tiny_llama), engine=engine, store=Store(None)) as private:
        chat = await private.sessions_chat()
        config = {"max_new_tokens": 12, "temperature": 0.0, "ignore_eos": True}
        await private.configure(chat.session_id, config=config, overflow="error")
        await chat.query(secret)
        await private.warm(chat.session_id, f"{secret} and more")
        assert any(secret in held for held in cells())
        await private.delete(chat.session_id)
        # The engine's thread empties them before it takes anything new.
        other = await private.sessions_chat()
        await private.configure(other.session_id, config=config, overflow="error")
        await other.query("hello there")
        assert any("hello there" in held for held in cells())
        assert not any(secret[:12] in held for held in cells())


async def test_a_child_forgets_too(tiny_llama: Path) -> None:
    engine = EngineHost()
    async with SessionManager(model=str(tiny_llama), engine=engine, store=Store(None)) as private:
        chat = await private.sessions_chat()
        config = {"max_new_tokens": 12, "temperature": 0.0, "ignore_eos": True}
        await private.configure(chat.session_id, config=config, overflow="error")
        await chat.query("the cat sat on the mat")
        assert (await engine.stats()).cached_tokens > 0
        await private.delete(chat.session_id)
        async with asyncio.timeout(60):
            while (await engine.stats()).cached_tokens:
                await asyncio.sleep(0)
