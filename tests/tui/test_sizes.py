"""Another size of the terminal: every part takes its columns at once, not those of the size before."""

from __future__ import annotations

import pytest

from app.tui.frame import side_by_default, side_width
from app.tui.grid import grid_of
from tests.tui.program import Running, running

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
