"""What a command prints, from the pipe to the model and to both faces: no colours, progress as it was last,
its own count of lines, and what it had printed when it was stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.frontend.shell_line import run_line
from app.sessions.events import FunctionCallOutputDeltaEvent
from app.sessions.items import FunctionCallOutput
from backend.types import ToolCall as Called
from tests.app.repl.chatting import chat
from tests.app.sessions.conftest import MakeRoom, listening, room
from tests.app.tui.pilot import running
from tools.builtin.files import read_file
from tools.builtin.shell import run_shell
from tools.context import ToolContext
from tools.definition import tool

__all__ = ["room"]

COLOURED = r"printf '\033[31mred\033[0m \033]8;;http://x\033\\link\033]8;;\007 \033]0;title\007end\n'"
# The borders of reads fall into a line, into a sequence and behind a carriage return.
PROGRESS = (
    r"printf '10 %%'; sleep 0.05; printf '\r'; sleep 0.05; printf '20 %%\033[0'; sleep 0.05; "
    r"printf 'K\r100 %%\nlast\n'"
)


def called(command: str) -> Called:
    return Called("c1", "run_shell", {"command": command})


async def output_of(chat: Any) -> FunctionCallOutput:
    return next(item for item in await chat.items() if isinstance(item, FunctionCallOutput))


@pytest.mark.parametrize(
    ("command", "text", "lines"),
    [
        (COLOURED, "red link end\n", 1),
        (PROGRESS, "100 %\nlast\n", 2),
        ("printf 'a\\n\\nb\\n\\n'", "a\n\nb\n\n", 4),
        ("printf 'no end'", "no end", 1),
        ("true", "[no output, exit code 0]", 0),
        ("echo one; exit 3", "one\n[exit code 3]", 1),
        ("printf 'bar\\r\\033[K'", "", 0),
    ],
)
async def test_the_model_reads_what_a_terminal_would_show(
    room: MakeRoom, tmp_path: Path, command: str, text: str, lines: int
) -> None:
    chat = await room([called(command)], ["ok"], tools=[run_shell], workspace=tmp_path, approve="all")
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await answered(chat, heard)
    found = await output_of(chat)
    assert found.output == text or (not text and found.line_count == 0)
    assert found.line_count == lines
    assert found.output in chat.sent[1][-1]["content"]


async def answered(chat: Any, heard: Any) -> None:
    """Until the turn is over; a question, where nothing confines commands, is answered with a yes."""

    def is_over(event: Any) -> bool:
        return event.type == "response.elicitation_request" or getattr(event, "status", "") == "idle"

    event = await heard.until(is_over)
    if event.type == "response.elicitation_request":
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, {"action": "accept"})
        await heard.status("idle")


async def test_functions_of_others_are_read_so_too_and_files_are_not(room: MakeRoom, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"\x1b[31mred\x1b[0m\r\n")

    @tool(does="nothing")
    def colours() -> str:
        "Give colours."
        return "\x1b[31mred\x1b[0m\n1 %\r2 %\n"

    calls = [Called("c1", "colours", {}), Called("c2", "read_file", {"path": "log.txt"})]
    chat = await room(calls, ["ok"], tools=[colours, read_file], workspace=tmp_path, approve="read")
    await chat.say()
    found = {item.call_id: item.output for item in await chat.items() if isinstance(item, FunctionCallOutput)}
    assert found["c1"] == "red\n2 %\n"
    assert "\x1b[31mred" in found["c2"]


async def test_live_output_starts_a_line_again(room: MakeRoom) -> None:
    gate = asyncio.Event()

    @tool(does="nothing")
    async def bar(context: ToolContext) -> str:
        "Show a bar."
        context.progress("ready\n\x1b[32m10")
        await gate.wait()
        context.progress(" %\r20 %")
        return "done"

    chat = await room([Called("c1", "bar", {})], ["ok"], tools=[bar])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(FunctionCallOutputDeltaEvent)
        gate.set()
        await heard.status("idle")
    deltas = [event.delta for event in heard.events if isinstance(event, FunctionCallOutputDeltaEvent)]
    assert deltas == ["ready\n10", "\r20 %"]


async def test_a_stopped_call_keeps_what_it_had_printed(room: MakeRoom) -> None:
    @tool(does="nothing")
    async def bar(context: ToolContext) -> str:
        "Show a bar."
        for number in range(3000):
            context.progress(f"line {number}\n")
        context.progress("1 %\r2 %")
        await asyncio.Event().wait()
        return "never"

    chat = await room([Called("c1", "bar", {})], ["ok"], tools=[bar])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.until(lambda event: str(getattr(event, "delta", "")).endswith("2 %"))
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")
    found = await output_of(chat)
    assert found.output.startswith("Cancelled: the user stopped this") and found.is_error and found.stopped
    assert found.shown.endswith("line 2999\n2 %") and "Cancelled" not in found.shown
    assert len(found.output) < 10_000 and found.line_count == 3001


# ---- the faces -------------------------------------------------------------------------------


def slow(printed: asyncio.Event) -> Any:
    """A tool that prints, says so, and waits for ever."""

    @tool(does="nothing")
    async def slow(context: ToolContext) -> str:
        "Print and wait."
        context.progress("first\n\x1b[31m1 %")
        await asyncio.sleep(0)
        context.progress("\r2 %")
        asyncio.get_running_loop().call_soon(printed.set)
        await asyncio.Event().wait()
        return "never"

    return slow


@pytest.mark.timeout(60)
async def test_the_full_screen_shows_progress_and_what_was_stopped() -> None:
    async with running([[Called("c1", "slow", {})], ["ok"]], tools=[slow(asyncio.Event())]) as run:
        await run.send("go")
        await run.until(lambda: any("2 %" in row for row in run.screen()))
        assert not any("1 %" in row for row in run.screen())
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        await run.until(lambda: any("stopped by you" in row for row in run.screen()))
        rows = [row.strip() for row in run.screen()]
        assert any(row.endswith("first") for row in rows) and any(row.endswith("2 %") for row in rows)
        assert not any("Cancelled" in row for row in rows)


@pytest.mark.timeout(60)
async def test_the_full_screen_counts_printed_lines_and_shows_the_last() -> None:
    @tool(does="nothing")
    def count() -> str:
        "Count."
        return "".join(f"line {number}\n" for number in range(40))

    async with running([[Called("c1", "count", {})], ["ok"]], tools=[count], size=(100, 50)) as run:
        await run.ask("go")
        entry = next(one for one in run.entries if one.kind == "tool")
        assert entry.facts.startswith("40 lines")  # type: ignore[attr-defined]
        run.app.parts.transcript.toggle(entry)
        await run.until(lambda: any("line 39" in row for row in run.screen()))
        rows = " ".join(run.screen())
        assert "32 more" in rows and "line 32" in rows and "line 31" not in rows


async def test_line_by_line_a_stopped_call_tells_what_it_had_printed() -> None:
    faces: list[Any] = []
    printed = asyncio.Event()

    async def stop() -> None:
        await printed.wait()
        await faces[0].chat.interrupt()

    told = await chat(
        "go",
        stop,
        scripts=[[Called("c1", "slow", {})], ["ok"]],
        tools=[slow(printed)],
        watch=faces.append,
    )
    assert "stopped by you" in told.seen
    assert "first" in told.seen and "2 %" in told.seen and "1 %" not in told.seen


# ---- a person's own shell lines --------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text", "lines"),
    [
        (COLOURED, "red link end\n", 1),
        (PROGRESS, "100 %\nlast\n", 2),
        ("printf 'a\\n\\n'", "a\n\n", 2),
        ("true", "", 0),
    ],
)
async def test_a_shell_line_prints_what_a_terminal_would_show(
    tmp_path: Path, line: str, text: str, lines: int
) -> None:
    shown: list[str] = []
    result = await run_line(line, tmp_path, shown.append)
    assert (result.output, result.line_count) == (text, lines)
    assert f"{lines} line{'s' * (lines != 1)}" in result.block(line)["label"]
    assert "\x1b" not in "".join(shown)


async def test_lines_that_were_left_out_are_counted(tmp_path: Path) -> None:
    line = "i=0; while [ $i -lt 9000 ]; do echo $i; i=$((i+1)); done"
    result = await run_line(line, tmp_path, private=True)
    assert result.is_cut and result.line_count == 9000


async def test_a_shell_line_that_ctrl_c_ended_was_stopped_by_you(tmp_path: Path) -> None:
    told = await run_line("echo here; kill -INT $$", tmp_path)
    assert told.output == "here\n" and told.ended == "It was stopped by you."
    assert (await run_line("exit 3", tmp_path)).ended == "It failed with exit code 3."


@pytest.mark.timeout(60)
async def test_a_shell_line_that_is_stopped_keeps_its_output_on_the_full_screen() -> None:
    async with running([["ok"]]) as run:
        await run.send("!printf '1 %%\\r2 %%'; sleep 60")
        await run.until(lambda: any(" 2 %" in row.rstrip("\u2596") for row in run.screen()[1:]))
        run.app.shell_lines.stop()
        await run.until(lambda: any("stopped by you" in row for row in run.screen()))
        assert any(row.endswith("2 %") for row in run.screen())


@pytest.mark.parametrize(
    ("reason", "shown"), [("", "You declined this call."), (": not now", "You declined this call: not now")]
)
def test_a_person_reads_of_a_declined_call_that_they_declined_it(reason: str, shown: str) -> None:
    output = f"The user declined this call{reason or '.'}"
    item = FunctionCallOutput(id="fco_1", call_id="c1", output=output, is_error=True, denied=True)
    assert item.shown == shown and item.output == output
    said = FunctionCallOutput(id="fco_2", call_id="c2", output=output)
    assert said.shown == output
