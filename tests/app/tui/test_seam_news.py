"""What the seam tells where it has several things to tell."""

from __future__ import annotations

import asyncio

import pytest

from app.sessions.manager import SessionManager
from app.tui.widgets.seam import News
from backend.engines.scripted import Pause
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)


async def test_neither_news_nor_new_lines_hide_the_key_that_stops() -> None:
    gate = asyncio.Event()
    async with running([["so", Pause(until=gate)]]) as run:
        await run.send("words")
        await run.until(lambda: "esc stops" in run.seam)
        run.app.say("something was done")
        assert "something was done   esc stops " in run.seam
        run.app.parts.seam.set_new_lines(12)
        assert "something was done   \u25be 12 new lines  end   esc stops " in run.seam
        gate.set()


@pytest.mark.parametrize("width", [44, 60, 80])
async def test_where_not_all_fits_the_key_stays_and_the_news_is_cut(width: int) -> None:
    gate = asyncio.Event()
    async with running([["so", Pause(until=gate)]], size=(width, 24)) as run:
        await run.send("words")
        await run.until(lambda: "esc stops" in run.seam)
        run.app.say("news " * 30)
        assert "news news" in run.seam and "\u203a   esc stops " in run.seam
        run.app.parts.seam.say(News("what went wrong", error=True))
        assert "what went wrong" in run.seam and "esc stops" not in run.seam
        gate.set()


async def test_looking_for_models_is_told_while_it_is_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()

    async def models(self: SessionManager) -> list[object]:
        await gate.wait()
        return []

    monkeypatch.setattr(SessionManager, "models", models)
    async with running() as run:
        run.app.commands.run("/model")
        await run.until(lambda: "looking for models" in run.seam)
        gate.set()
        await run.until(lambda: len(run.app.screen_stack) > 1)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        assert "looking for models" not in run.seam


async def test_what_was_told_since_is_not_taken_back() -> None:
    async with running() as run:
        first = News("first")
        run.app.parts.seam.say(first)
        run.app.say("second")
        run.app.parts.seam.withdraw(first)
        assert "second" in run.seam
