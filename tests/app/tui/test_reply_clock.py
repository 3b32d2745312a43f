"""The clock of a reply leaves out the time that a person was asked, and its figures are kept with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app import clock
from app.sessions.items import Message
from backend.engines.scripted import Pause
from backend.types import ToolCall
from tests.app.tui.pilot import Running, running


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the clock of replies tells, for the test to move."""
    at = [1000.0]
    monkeypatch.setattr(clock, "seconds", lambda: at[0])
    return at


def names(run: Running) -> list[str]:
    return [row.rstrip() for row in run.screen() if "scripted" in row and row is not run.screen()[-1]]


async def test_what_a_person_took_to_answer_is_no_time_of_the_reply(tmp_path: Path, now: list[float]) -> None:
    file = tmp_path / "chats.db"
    call = ToolCall("c1", "write_file", {"path": "a.txt", "content": "x"})
    async with running(
        [[call], ["Done."], ["Another."]], tools="write_file", workspace=tmp_path, store=file, size=(80, 30)
    ) as run:
        await run.send("go")
        await run.until(lambda: run.app.parts.approval.question is not None and run.app.parts.approval.armed)
        await run.until(lambda: any("y once" in row for row in run.screen()))
        now[0] += 100
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer") == ["Done."] and not run.app.chat.busy)
        (said,) = [one for one in await run.items() if isinstance(one, Message) and one.role == "assistant"]
        assert said.seconds is not None and said.seconds < 1
        assert names(run)[0].endswith("0.0 s")
        shown = names(run)[0]
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.texts("answer") == ["Another."] and not run.app.chat.busy)
        await run.until(lambda: any("variant 2 of 2" in row for row in run.screen()))
        await run.pilot.press("left_square_bracket")
        await run.until(lambda: run.texts("answer") == ["Done."])
        assert any(row.endswith("0.0 s") for row in names(run))
        session_id = run.app.chat.id
    async with running(store=file, start={"resume": session_id}, size=(80, 30)) as run:
        await run.until(lambda: run.texts("answer") == ["Done."])
        await run.until(lambda: any(row.endswith("0.0 s") for row in names(run)))
        assert shown.split()[-2:] == ["0.0", "s"]


async def test_a_reply_that_took_its_time_says_so_again_later(tmp_path: Path, now: list[float]) -> None:
    file = tmp_path / "chats.db"
    gate = asyncio.Event()
    async with running([["One.", Pause(until=gate), "Two."]], store=file) as run:
        await run.send("go")
        await run.until(lambda: run.texts("answer") == ["One."])
        now[0] += 12
        gate.set()
        await run.until(lambda: not run.app.chat.busy)
        assert names(run)[0].endswith("12 s")
        session_id = run.app.chat.id
    async with running(store=file, start={"resume": session_id}) as run:
        await run.until(lambda: run.texts("answer") == ["One.Two."])
        assert names(run)[0].endswith("12 s")
