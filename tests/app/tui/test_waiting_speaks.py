"""Between a message and the first word of its reply the screen says what happens, from the first frame."""

from __future__ import annotations

import asyncio

import pytest

from backend.engines.scripted import Pause
from backend.types import PrefillProgress
from tests.app.tui.pilot import Running, running


def below_the_name(run: Running) -> str:
    pane = 31 if run.app.size.width >= 120 else 0
    rows = [row[pane:] for row in run.screen()]
    at = max(index for index, row in enumerate(rows) if "scripted" in row and "esc stops" in row)
    return rows[at + 1].strip()


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_a_message_is_read_under_the_name(size: tuple[int, int]) -> None:
    known, half, word = asyncio.Event(), asyncio.Event(), asyncio.Event()
    script = [
        Pause(until=known),
        PrefillProgress(0, 4306, 0),
        Pause(until=half),
        PrefillProgress(2153, 4306, 0),
        Pause(until=word),
        "Hello",
    ]
    async with running([script], size=size) as run:
        await run.send("hi")
        await run.until(lambda: "progress" in run.kinds())
        assert run.kinds() == ["user", "name", "progress"]
        assert below_the_name(run) == "reading"
        known.set()
        await run.until(lambda: below_the_name(run) == "reading 4,306 tokens")
        half.set()
        await run.until(lambda: "50 %" in below_the_name(run))
        assert any("2,153 of 4,306 tokens" in row for row in run.screen())
        assert "reading 50 %" in run.screen()[-1]
        word.set()
        await run.until(lambda: run.texts("answer") == ["Hello"])
        assert not any("reading" in row for row in run.screen())


async def test_another_try_shows_its_name_and_that_it_reads_at_once() -> None:
    word = asyncio.Event()
    async with running([["red"], [Pause(until=word), "green"]]) as run:
        await run.ask("a colour")
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.kinds() == ["user", "name", "progress"])
        assert below_the_name(run) == "reading"
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy and run.texts("answer") == ["red"])
        assert not any("variant" in row for row in run.screen())


async def test_of_tokens_that_are_known_only_the_others_are_read() -> None:
    word = asyncio.Event()
    script = [PrefillProgress(4000, 4306, 4000), Pause(until=word), "Hello"]
    async with running([script]) as run:
        await run.send("hi")
        await run.until(lambda: "progress" in run.kinds() and below_the_name(run) == "reading 306 tokens")
        word.set()
        await run.until(lambda: run.texts("answer") == ["Hello"])
