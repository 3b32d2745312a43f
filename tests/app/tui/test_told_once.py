"""A failure is one block, wherever it comes from, and the bar has its word."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.engines.scripted import Step
from backend.types import EngineError, ToolCall
from tests.app.tui.pilot import running

DIED = EngineError("The engine process ended.", remedy="Send the message again.")


@pytest.mark.parametrize(
    "script",
    [[DIED], ["Hel", "lo", DIED], [ToolCall("c1", "now", {}), DIED]],
    ids=["at once", "in the middle", "behind a call"],
)
@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_an_engine_that_dies_is_told_once(
    script: list[Step], size: tuple[int, int], tmp_path: Path
) -> None:
    file = tmp_path / "chats.db"
    async with running([script, ["again"]], size=size, store=file, tools="now") as run:
        await run.send("hi")
        await run.until(lambda: not run.app.chat.busy and "error" in run.kinds())
        await run.until(lambda: any("failed" in row for row in run.screen()[-1:]))
        assert run.kinds().count("error") == 1
        assert run.kinds()[-1] == "error"
        assert "stopped" not in run.screen()[-1]
        assert sum("The engine process ended." in row for row in run.screen()) == 1
        choices = [row for row in run.screen() if "try again" in row or "view the log" in row]
        assert len(choices) == 2
        session_id = run.app.chat.id
    async with running(store=file, size=size, start={"resume": session_id}) as run:
        await run.until(lambda: "error" in run.kinds())
        assert run.kinds().count("error") == 1
