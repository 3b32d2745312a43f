"""Private chats: found again while they are open, and gone from the engine when they close."""

from __future__ import annotations

import asyncio

import pytest

from app.sessions.manager import SessionManager
from backend.engines.scripted import ScriptedEngine
from backend.types import EngineError
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


async def test_a_private_chat_is_found_again_and_closed_for_good() -> None:
    async with running([["psst"], ["aloud"]], size=(140, 40)) as run:
        await run.send("/private")
        await run.until(lambda: run.app.chat.private)
        await run.ask("a secret")
        private = run.app.chat.id
        await run.pilot.press("ctrl+n")
        await run.until(lambda: not run.app.chat.private)
        await run.ask("aloud")
        await run.until(lambda: any("private: a secret" in row for row in run.screen()))
        assert [chat.title for chat in await run.app.manager.list()] == ["aloud"]
        await run.app.chats.open_chat(private)
        assert run.app.chat.private and run.texts("answer") == ["psst"]
        run.app.action_next()
        await run.until(lambda: run.app.parts.pane.has_focus)
        await run.pilot.press("d")
        await run.until(lambda: "nothing of it was saved" in run.seam)
        assert run.engine.forgotten == [private]
        await run.until(lambda: not any("a secret" in row for row in run.screen()))
        assert run.app.chat.id != private


async def test_one_that_the_engine_fails_to_forget_is_closed_and_that_is_told() -> None:
    class Broken(ScriptedEngine):
        async def forget(self, conversation: str) -> None:
            raise EngineError("The engine ended.", remedy="Load the model again.")

    async with running(engine=Broken([["psst"]])) as run:
        await run.send("/private")
        await run.until(lambda: run.app.chat.private)
        await run.ask("a secret")
        await run.send("/delete")
        await run.until(lambda: "The engine ended" in run.seam)
        await run.until(lambda: not run.app.chat.private)
        assert await run.app.chats.private_chats() == []


async def test_asked_for_twice_at_once_there_is_one_manager() -> None:
    async with running() as run:
        first, second = await asyncio.gather(run.app.chats.private_manager(), run.app.chats.private_manager())
        assert first is second
        assert isinstance(first, SessionManager) and first is not run.app.manager


async def test_a_private_chat_is_not_put_away_and_its_copy_is_private() -> None:
    async with running([["psst"]]) as run:
        await run.send("/private")
        await run.until(lambda: run.app.chat.private)
        await run.ask("a secret")
        first = run.app.chat.id
        await run.send("/archive")
        await run.until(lambda: "cannot be archived" in run.seam)
        assert run.app.chat.id == first
        await run.send("/fork")
        await run.until(lambda: run.app.chat.id != first)
        assert run.app.chat.private
        assert await run.app.manager.list() == []


async def test_a_chat_is_pinned_deleted_and_taken_back_by_commands() -> None:
    async with running([["one"]], size=(140, 40)) as run:
        await run.ask("a question")
        chat = run.app.chat.id
        await run.send("/pin")
        await run.until(lambda: "pinned to the top" in run.seam)
        await run.send("/delete")
        await run.until(lambda: run.app.chat.id is None)
        await run.until(lambda: "restores it" in run.seam)
        await run.send("/undelete")
        await run.until(lambda: run.app.chat.id == chat)
        await run.send("/archive")
        await run.until(lambda: "archived" in run.seam)
        assert run.app.chat.id is None and await run.app.manager.list() == []
        await run.pilot.press("ctrl+p")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.type("delete")
        await run.until(lambda: "delete this chat" in "\n".join(run.screen()))
