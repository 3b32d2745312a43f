"""Another size of the terminal: every part takes its columns at once, not those of the size before."""

from __future__ import annotations

import asyncio

import pytest

from app.tui.frame import side_by_default, side_width
from app.tui.grid import grid_of
from backend.engines.scripted import Pause
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_approvals import Recorder, asked, call

pytestmark = pytest.mark.timeout(60)


def is_placed(run: Running, width: int) -> bool:
    """Whether pane, seam and status bar stand where they belong on a screen of this width."""
    beside = side_by_default(width)
    grid = grid_of(width - side_width(width) if beside else width)
    rows = run.screen()
    offset = side_width(width) if beside else 0
    seam = next((row[offset:] for row in rows if "\u254c\u254c\u254c" in row[offset:]), "")
    return (
        ("ctrl+n new" in rows[1]) is beside
        and len(seam) == grid.right
        and len(seam) - len(seam.lstrip()) == grid.edge
    )


async def test_each_size_is_taken_when_it_comes() -> None:
    async with running([["hello"]], size=(100, 32)) as run:
        await run.ask("hi")
        for width in (60, 140, 50, 170, 100, 90, 120, 119):
            await run.pilot.resize_terminal(width, 32)
            await run.until(lambda: is_placed(run, width))  # noqa: B023
            assert "hello" in "\n".join(run.screen())


@pytest.mark.parametrize("size", [(1, 1), (2, 40), (4, 4), (9, 3), (200, 2)])
async def test_windows_of_hardly_any_size_end_nothing(size: tuple[int, int]) -> None:
    going_on = asyncio.Event()
    words = "a *long* \u4e16\u754c line\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    scripts = [[call(text="\u4e16" * 300)], [words, Pause(until=going_on), words]]
    async with running(scripts, tools=[Recorder()]) as run:
        await asked(run)
        run.app.say("what failed has a long \u4e16\u754c reason, and a remedy " * 4, error=True)
        for width, height in (size, (100, 32), size):
            await run.pilot.resize_terminal(width, height)
        await run.pilot.resize_terminal(100, 32)
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer"))
        await run.pilot.resize_terminal(*size)
        await run.send("and one that waits")
        going_on.set()
        await run.pilot.resize_terminal(100, 32)
        await run.until(lambda: not run.app.chat.busy)
        assert run.texts("answer")[0].count(words) == 2
