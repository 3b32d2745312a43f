"""What a reply looks like once it is whole: every part once, in the order in which it was written."""

from __future__ import annotations

import asyncio

import pytest

from app.sessions.items import FunctionCall, FunctionCallOutput
from app.tui.chat.reply import LiveReply
from app.tui.chat.story import Story
from app.tui.transcript.entries import Progress
from app.tui.transcript.entry import Entry
from app.tui.transcript.tool_entry import ToolCall
from backend.engines.scripted import Pause
from backend.types import ToolCallPiece
from tests.app.tui.pilot import running
from tests.app.tui.test_approvals import Recorder, call


async def test_words_before_a_streamed_call_stand_there_once() -> None:
    script = [
        "Let me keep this.",
        ToolCallPiece(index=0, name="keep", arguments_delta='{"text": '),
        ToolCallPiece(index=0, name="keep", arguments_delta='"x"}'),
        call(text="x"),
    ]
    async with running([script, ["done"]], tools=[Recorder("nothing")]) as run:
        await run.send("do it")
        await run.until(lambda: run.texts("answer")[-1:] == ["done"] and not run.app.chat.busy)
        assert run.texts("answer") == ["Let me keep this.", "done"]
        kinds = run.kinds()
        assert kinds.index("answer") < kinds.index("tool") < len(kinds) - 1
        assert sum("Let me keep this." in row for row in run.screen()) == 1


async def test_the_end_of_a_calls_arguments_is_no_output() -> None:
    script = [
        ToolCallPiece(index=0, name="keep", arguments_delta='{"text": '),
        ToolCallPiece(index=0, name="keep", arguments_delta='"xyz"}'),
        call(text="xyz"),
    ]
    async with running([script, ["done"]], tools=[Recorder("nothing")]) as run:
        await run.send("do it")
        await run.until(lambda: run.texts("answer") == ["done"] and not run.app.chat.busy)
        made = next(entry for entry in run.entries if isinstance(entry, ToolCall))
        stored = next(item for item in await run.items() if isinstance(item, FunctionCallOutput))
        assert made.output == stored.output


async def test_messages_that_waited_are_answered_below_the_last_of_them() -> None:
    gate = asyncio.Event()
    async with running([["one", Pause(until=gate)], ["two"]]) as run:
        await run.send("first")
        await run.until(lambda: run.texts("answer") == ["one"])
        await run.queue("second", "third")
        gate.set()
        await run.until(lambda: run.texts("answer") == ["one", "two"] and not run.app.chat.busy)
        assert run.texts("user") == ["first", "second", "third"]
        assert run.kinds() == ["user", "name", "answer", "user", "user", "name", "answer"]
        rows = run.screen()
        assert [word for row in rows for word in ("second", "third", "two") if word in row.split()] == [
            "second",
            "third",
            "two",
        ]


def test_a_rate_of_reading_is_told_once_it_is_known() -> None:
    clock = [0.0]
    reply = LiveReply(QuietPage(), Story("model"), seconds=lambda: clock[0])
    shown: list[tuple[str, tuple[str, ...]]] = []
    for clock[0], done in ((10.0, 0), (10.001, 512), (11.0, 1024)):
        reply.show_prefill(done, 2048, 0)
        progress = next(entry for entry in reply.story.entries if isinstance(entry, Progress))
        shown.append((progress.left, tuple(progress.facts) or (progress.word,)))
    assert shown == [
        ("", ("reading 2,048 tokens",)),
        ("", ("512 of 2,048 tokens",)),  # what arrives late arrives together
        ("1 s left", ("1,024 of 2,048 tokens", "1,024 tok/s")),
    ]


class QuietPage:
    """A page on which nobody looks."""

    def add(self, entry: Entry) -> None: ...
    def discard(self, entry: Entry) -> None: ...
    def append_text(self, entry: Entry, delta: str) -> None: ...
    def finish(self, entry: Entry) -> None: ...
    def changed(self, entry: Entry) -> None: ...
    def flush(self) -> None: ...
    def fold_thought(self, entry: Entry) -> bool:
        return False


def test_the_speed_leaves_out_the_time_of_calls() -> None:
    clock = [0.0]
    reply = LiveReply(QuietPage(), Story("model"), seconds=lambda: clock[0])
    for clock[0] in (1.0, 2.0, 3.0):
        reply.write_call(0, "keep", "x")
    reply.take(FunctionCall(name="keep", arguments="{}", call_id="c1", response_id="r1"))
    clock[0] = 60.0  # the person thought about it
    assert reply.speed == 1.5
    for clock[0] in (61.0, 62.0):
        reply.write("word")
    assert reply.speed == pytest.approx(5 / 3)
