"""The status bar tells what the path that is shown fills of the window, or no number."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.sessions.manager import SessionManager
from app.settings.config import Value, resolve
from app.terminal.figures import short_count
from backend.engines.scripted import ScriptedEngine
from backend.types import EngineError
from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)


def bar(run: Running) -> str:
    return next((row for row in reversed(run.screen()) if "ctx " in row), "")


async def counted(run: Running) -> None:
    """Wait until the bar tells what the manager counts."""
    session_id = run.app.chat.id
    assert session_id is not None
    found = await run.app.chat.manager.context(session_id)
    await run.until(lambda: f"ctx {short_count(found['total'])}/8k" in bar(run))
    assert found["total"] > 0


async def test_a_chat_that_is_opened_again_after_the_program_ended(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    async with running([["one two three"]], store=store) as run:
        await run.ask("a few words of mine")
    async with running(store=store, start={"last": True}) as run:
        await run.until(lambda: run.texts("user"))
        await counted(run)


async def test_a_new_chat_tells_what_its_system_prompt_fills() -> None:
    settings = resolve({"system": Value("be kind " * 50, "--system")})
    async with running([["one"]], settings=settings) as run:
        await run.until(lambda: "ctx 100/8k" in bar(run))
        await run.ask("words")
        await run.pilot.press("ctrl+n")
        await run.until(lambda: "ctx 100/8k" in bar(run))


async def test_a_fork_is_counted_as_long_as_it_is() -> None:
    async with running([["one two three"], ["four"]]) as run:
        await run.ask("first words")
        await run.ask("second words")
        before = run.app.chat
        first = next(item for item in before.view.story.items.values() if item.response_id is not None)
        run.app.blocks.fork(first)
        await run.until(lambda: run.app.chat is not before)
        assert run.texts("answer") == ["one two three"]
        await counted(run)


async def test_each_branch_has_its_own_number() -> None:
    async with running([["one"], ["one two three four five six"]]) as run:
        await run.ask("words")
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.texts("answer")[-1:] == ["one two three four five six"])
        await run.until(lambda: not run.app.chat.busy)
        told = set()
        for answer in ("one", "one two three four five six"):
            await run.pilot.press("left_square_bracket")
            await run.until(lambda answer=answer: run.texts("answer") == [answer])
            await counted(run)
            told.add(bar(run))
        assert len(told) == 2


async def test_what_is_not_known_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def never(*_: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running([["one"], ["two"], ["three"]]) as run:
        await run.ask("words")
        await run.ask("more")
        monkeypatch.setattr(SessionManager, "context", never)
        first = next(item for item in run.app.chat.view.story.items.values() if item.response_id is not None)
        run.app.blocks.fork(first)
        await run.until(asked.is_set)
        assert "ctx -/8k" in bar(run)
        await run.ask("it is answered although nobody counts")
        assert ended.is_set()
        assert "ctx -/8k" not in bar(run)


async def test_nothing_is_counted_after_a_turn_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    async def context(*args: Any) -> Any:
        asked.append(args)
        return {"total": 1, "window": 8192}

    monkeypatch.setattr(SessionManager, "context", context)
    engine = ScriptedEngine([[EngineError("The engine ended.")], ["yes"]])
    async with running(engine=engine) as run:
        await run.send("words")
        await run.until(lambda: run.app.chat.view.error)
        await run.until(lambda: "ctx -/8k" in bar(run))
        await run.until(lambda: not any(w.group == "context" and not w.is_finished for w in run.app.workers))
        assert asked == []
