"""What a person who reads sees while a reply is written, in the whole program."""

from __future__ import annotations

import asyncio
import re

import pytest
from textual import events

from backend.engines.scripted import Pause, Step
from backend.types import ReasoningPiece
from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)

LONG = "\n\n".join(f"para {number}" for number in range(60))
ENDING = "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\na\nb\nc\nd\ne\nf\n```"


def wheel_up(run: Running) -> None:
    view = run.app.parts.transcript
    view.post_message(events.MouseScrollUp(view, 5, 5, 0, 0, 0, False, False, False, 5, 5))


def at_end(run: Running) -> bool:
    return run.app.parts.transcript.scroll_y == run.app.parts.transcript.max_scroll_y


async def test_a_turn_of_the_wheel_stays_while_lines_come_and_the_person_writes() -> None:
    gates = [asyncio.Event() for _ in range(21)]
    reply: list[Step] = ["start\n\n"]
    for number, gate in enumerate(gates):
        reply += [Pause(until=gate), f"line {number}.\n\n"]
    async with running([[LONG], reply]) as run:
        await run.ask("one")
        await run.send("two")
        gates[0].set()
        await run.until(lambda: "line 0." in run.texts("answer")[-1])
        view = run.app.parts.transcript
        await run.until(lambda: at_end(run))
        wheel_up(run)
        await run.until(lambda: not at_end(run))
        before, rows = view.scroll_y, run.screen()[:20]
        for number, gate in enumerate(gates[1:], 1):
            gate.set()
            await run.until(lambda: f"line {number}." in run.texts("answer")[-1])  # noqa: B023
            assert view.scroll_y == before
            if number == 5:
                await run.type("next")
            if number == 7:
                await run.pilot.press("ctrl+j", "ctrl+j")
        await run.until(lambda: not run.app.chat.busy)
        assert view.scroll_y == before
        assert [row.rstrip(" \u2590") for row in run.screen()[:20]] == rows
        assert "new lines" in "\n".join(run.screen())
        await run.pilot.press("ctrl+end")
        await run.until(lambda: at_end(run))
        assert "new lines" not in "\n".join(run.screen())


@pytest.mark.parametrize("size", [(100, 32), (60, 24), (40, 12)])
async def test_the_end_of_a_reply_is_in_view(size: tuple[int, int]) -> None:
    reply = [ReasoningPiece("hm " * 200), *(f"{line}\n" for line in ENDING.split("\n"))]
    async with running([[LONG], reply], size=size) as run:
        for text in ("one", "two"):
            await run.ask(text)
            await run.until(lambda: at_end(run))
        for columns in (60, 140, 50):
            await run.pilot.resize_terminal(columns, size[1])
            await run.until(lambda: at_end(run))
            assert any(re.search(r"(^|\s)f(\s|$)", row) for row in run.screen())


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_the_last_line_stays_in_sight_whatever_takes_room_below(size: tuple[int, int]) -> None:
    text = "\n\n".join(f"line {number}" for number in range(60)) + "\n\nTHE LAST"

    def is_seen(run: Running) -> bool:
        return any("THE LAST" in row for row in run.screen())

    async with running([[text]], size=size) as run:
        await run.ask("hi")
        await run.until(lambda: is_seen(run))
        for _ in range(7):
            await run.pilot.press("ctrl+j")
            await run.pilot.pause()
            assert is_seen(run)
        for other in ((60, 20), (100, 30), (40, 16), size):
            await run.pilot.resize_terminal(*other)
            await run.until(lambda: is_seen(run))
        await run.pilot.press("f2", "f2")
        await run.until(lambda: is_seen(run))
