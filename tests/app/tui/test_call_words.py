"""What became of a call is told by its own word: run, changed, failed, refused or not run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backend.engines.scripted import Pause
from backend.types import ToolCall, ToolCallPiece
from tests.app.tui.pilot import Running, running


def row_of(run: Running, name: str) -> str:
    return next(row.rstrip() for row in run.screen() if name in row and "approve" not in row)


@pytest.mark.parametrize(
    "call",
    [ToolCall("c1", "nobody", {}), ToolCall("c1", "read_file", {}, "{", "the arguments are not valid JSON")],
    ids=["unknown", "malformed"],
)
async def test_a_call_that_could_not_run_was_not_run(call: ToolCall, tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    async with running([[call], ["Hm."]], tools="read_file", workspace=tmp_path, store=file) as run:
        await run.ask("go")
        assert row_of(run, call.name).endswith("not run")
        assert "failed" not in "\n".join(run.screen())
        session_id = run.app.chat.id
    async with running(
        tools="read_file", workspace=tmp_path, store=file, start={"resume": session_id}
    ) as run:
        await run.until(lambda: "tool" in run.kinds())
        assert row_of(run, call.name).endswith("not run")


async def test_calls_that_were_stopped_before_they_began_were_not_run(tmp_path: Path) -> None:
    calls = [ToolCall(f"c{number}", "write_file", {"path": f"{number}", "content": "x"}) for number in (1, 2)]
    async with running([calls, ["Hm."]], tools="write_file", workspace=tmp_path) as run:
        await run.send("go")
        await run.until(lambda: run.app.parts.approval.question is not None)
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        rows = [row for row in run.screen() if "write_file" in row]
        assert len(rows) == 2
        assert all(row.rstrip().endswith("not run") for row in rows)
        assert "failed" not in "\n".join(run.screen())


async def test_a_call_whose_arguments_are_whole_is_not_being_written(tmp_path: Path) -> None:
    gate = asyncio.Event()
    pieces = [ToolCallPiece(0, "read_file", '{"path": "a"}'), ToolCallPiece(1, "read_file", '{"path')]
    async with running([[*pieces, Pause(until=gate), "x"]], tools="read_file", workspace=tmp_path) as run:
        await run.send("go")
        await run.until(lambda: sum("read_file" in row for row in run.screen()) == 2)
        first, second = [row.rstrip() for row in run.screen() if "read_file" in row]
        assert first.endswith("waits") and second.endswith("writing")
        gate.set()


async def test_a_changed_file_says_how_many_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    call = ToolCall("c1", "edit_file", {"path": "a.txt", "old_text": "two", "new_text": "2\n2b"})
    async with running([[call], ["Done."]], tools="edit_file", workspace=tmp_path) as run:
        await run.send("go")
        await run.until(lambda: run.app.parts.approval.question is not None and run.app.parts.approval.armed)
        await run.until(lambda: any("y once" in row for row in run.screen()))
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer") == ["Done."] and not run.app.chat.busy)
        assert "+2 -1, " in row_of(run, "edit_file")
        assert "1 line" not in row_of(run, "edit_file")
