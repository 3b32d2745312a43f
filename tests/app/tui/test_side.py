"""The chats pane tells what is in the store from the beginning."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from app.sessions.chat import SessionsChat
from app.sessions.manager import SessionManager
from app.sessions.records import ASKED_ONCE
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine
from backend.types import ToolCall
from tests.app.tui.pilot import running


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
        await run.until(lambda: run.app.parts.status.display)
        assert not run.app.parts.side_open
        await run.pilot.resize_terminal(140, 40)
        await run.until(lambda: any("Colour of basalt" in row[:31] for row in run.screen()))


async def test_a_chat_that_asks_says_so_while_its_reply_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    call = ToolCall("c1", "read_file", {"path": "a.txt"})
    async with running([[call], ["done"]], size=(140, 40), tools="read_file", workspace=tmp_path) as run:
        await run.send("look")
        await run.until(lambda: run.app.parts.approval.question is not None)
        await run.until(lambda: any("asks" in row[:31] for row in run.screen()))
        run.app.side.tick()
        await run.pilot.pause()
        assert any("asks" in row[:31] for row in run.screen())


@pytest.mark.parametrize("how", ["tab", "click"])
async def test_a_pane_over_the_chat_closes_when_keys_go_elsewhere(how: str) -> None:
    async with running([["hello"]], size=(80, 24)) as run:
        await run.ask("hi")
        await run.pilot.press("f2")
        await run.until(lambda: run.app.parts.side_open and run.app.parts.pane.has_focus)
        if how == "tab":
            await run.pilot.press("tab")
        else:
            await run.pilot.click(offset=(70, 10))
        await run.until(lambda: not run.app.parts.side_open)
        assert "hi" in run.screen()[0]


@pytest.mark.parametrize("size", [(80, 24), (80, 40), (50, 24), (99, 30)])
async def test_a_pane_over_the_chat_leaves_what_is_written_in_sight(size: tuple[int, int]) -> None:
    async with running([["hello"]], size=size) as run:
        await run.ask("hi")
        run.app.parts.draft.put("first row\nsecond row")
        await run.pilot.press("f2")
        await run.until(lambda: run.app.parts.pane.has_focus)

        def whole() -> bool:
            rows = run.screen()
            return any("\u203a first row" in row or "  first row" in row for row in rows) and any(
                row.startswith(" ") and "second row" in row for row in rows
            )

        await run.until(lambda: whole() and run.app.parts.side.region.bottom <= run.app.parts.seam.region.y)
        run.app.parts.draft.put("\n".join(["row"] * 5))
        await run.until(lambda: sum(row.strip(" \u203a") == "row" for row in run.screen()) == 5)
        assert any("chats" in row for row in run.screen())
        await run.pilot.resize_terminal(140, 40)
        await run.until(lambda: run.app.parts.side.region.height == 40)


async def test_a_pane_over_the_chat_stays_while_it_asks_for_a_name() -> None:
    async with running([["hello"]], size=(80, 24)) as run:
        await run.ask("hi")
        await run.pilot.press("f2")
        await run.until(lambda: run.app.parts.pane.selected and run.app.parts.pane.has_focus)
        await run.pilot.press("r")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        assert run.app.parts.side_open and run.app.parts.pane.has_focus


async def test_nothing_is_said_of_chats_before_it_is_known_whether_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on = threading.Event()
    start = SessionManager.start

    async def held(manager: SessionManager) -> None:
        await asyncio.to_thread(goes_on.wait)
        await start(manager)

    monkeypatch.setattr(SessionManager, "start", held)
    async with running(size=(160, 32), wait=False) as run:
        try:
            await run.until(lambda: any("chats" in row for row in run.screen()))
            await run.until(lambda: run.app.chats._manager is not None)
            assert not any("No chats yet" in row for row in run.screen())
        finally:
            goes_on.set()
        await run.until(lambda: any("No chats yet" in row for row in run.screen()))


async def test_one_shots_are_one_row_until_they_are_unfolded(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    async with SessionManager(engine=ScriptedEngine(), store=Store(file)) as manager:
        await manager.create(title="Colour of basalt")
        for number in range(12):
            await manager.create(title=f"question {number}", labels=ASKED_ONCE)
    async with running(store=file, size=(140, 40)) as run:
        side = lambda: "\n".join(row[:31] for row in run.screen())  # noqa: E731
        await run.until(lambda: "Colour of basalt" in side())
        (row,) = [line for line in side().splitlines() if "one-shots" in line]
        assert row.rstrip().endswith("12")
        assert "question" not in side()
        await run.until(lambda: any("Colour of basalt" in row[31:] for row in run.screen()))
        assert not any("question 1" in row[31:] for row in run.screen())
        run.app.parts.pane.focus()
        await run.pilot.press("G", "enter")
        await run.until(lambda: side().count("question") == 12)
        await run.pilot.press("enter")
        await run.until(lambda: "question" not in side())
        await run.pilot.press("d")  # nothing is deleted by the row of all
        assert len(await run.app.manager.list(100)) == 13


async def test_a_one_shot_that_is_continued_is_a_chat(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    async with SessionManager(engine=ScriptedEngine([["one"], ["two"]]), store=Store(file)) as manager:
        session = await manager.create(labels=ASKED_ONCE)
        chat = SessionsChat.bind(manager, session)
        await chat.query("first")
        assert (await manager.list(1))[0].labels == ASKED_ONCE
        await chat.query("second")
        assert (await manager.list(1))[0].labels == {}
