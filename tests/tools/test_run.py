from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.context import Answer, Cancelled, Form, Grants, Limits, ToolContext, call_digest
from tools.definition import Tool, ToolError, tool
from tools.run import ToolResult, run


async def call(made: Tool, context: ToolContext | None = None, **arguments: Any) -> ToolResult:
    context = context or ToolContext()
    context.grants = context.grants or Grants(call_digest(made, arguments))
    return await run(made, arguments, context)


@tool(does="nothing")
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def test_a_sync_tool_runs_outside_the_loops_thread() -> None:
    @tool
    def where() -> str:
        return threading.current_thread().name

    result = await call(where)
    assert (result.text, result.status) == ("tool where", "done")


async def test_an_async_tool_runs_on_the_loop() -> None:
    @tool
    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert (await call(where)).text == "MainThread"


async def test_arguments_are_checked_and_defaulted() -> None:
    assert (await call(add, a=2)).text == "3"
    wrong = await call(add, a="x")
    assert wrong.status == "failed"
    assert "a:" in wrong.text


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_generators_stream_what_they_yield(kind: str) -> None:
    @tool
    def count() -> Iterator[str]:
        yield "one "
        yield "two"

    @tool
    async def acount() -> AsyncIterator[str]:
        yield "one "
        yield "two"

    seen: list[str] = []
    context = ToolContext(on_progress=seen.append)
    result = await call(count if kind == "sync" else acount, context)
    assert result.text == "one two"
    assert seen == ["one ", "two"]


async def test_a_generators_return_value_is_the_result() -> None:
    @tool
    def work() -> Any:
        yield "working"
        return "result"

    assert (await call(work)).text == "result"


async def test_nothing_that_does_something_runs_without_a_decision() -> None:
    ran: list[int] = []

    @tool(does="write")
    def act(x: int) -> None:
        ran.append(x)

    assert (await run(act, {"x": 1}, ToolContext())).status == "refused"
    other = Grants(call_digest(act, {"x": 2}))
    assert (await run(act, {"x": 1}, ToolContext(grants=other))).status == "refused"
    assert ran == []
    assert (await run(act, {"x": 2}, ToolContext(grants=other))).status == "done"


async def test_a_changed_tool_does_not_run_under_an_old_decision() -> None:
    @tool(does="write", name="act")
    def before(x: int) -> None: ...

    @tool(does=("write", "network"), name="act")
    def after(x: int) -> None: ...

    grants = Grants(call_digest(before, {"x": 1}))
    assert (await run(after, {"x": 1}, ToolContext(grants=grants))).status == "refused"
    moved = before.loaded_from("project", "0123")
    assert (await run(moved, {"x": 1}, ToolContext(grants=grants))).status == "refused"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), ValueError()]
)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_whatever_a_tool_raises_becomes_a_result(error: BaseException, kind: str) -> None:
    @tool
    def fail() -> None:
        raise error

    @tool
    async def afail() -> None:
        raise error

    result = await call(fail if kind == "sync" else afail)
    assert result.status == "failed"
    assert "fail failed" in result.text


async def test_tu_05_an_error_with_bad_bytes_is_told_once_and_readably() -> None:
    @tool
    def fail() -> None:
        raise ToolError("no file named \udcff.txt")

    result = await call(fail)
    assert result.text == "no file named \ufffd.txt"
    result.text.encode()


async def test_a_huge_error_is_cut() -> None:
    @tool
    def fail() -> None:
        raise ValueError("x" * 10_000_000)

    assert len((await call(fail)).text) < 3_000


async def test_co_07_a_huge_result_is_cut_and_kept(tmp_path: Path) -> None:
    @tool
    def shout() -> str:
        return "line\n" * 200_000

    limits = Limits(output_bytes=4096)
    result = await call(shout, ToolContext(limits=limits, output_folder=tmp_path))
    assert len(result.text.encode()) <= 4096
    assert "of 1,000,000 bytes left out" in result.text
    assert result.file is not None
    assert result.file.read_text() == "line\n" * 200_000


async def test_a_slow_tool_is_ended_at_its_limit_with_what_it_said() -> None:
    @tool(time_s=0.2)
    def slow(context: ToolContext) -> Iterator[str]:
        yield "partial"
        context.cancellation.wait(30)
        yield "too late"

    result = await call(slow)
    assert result.status == "timed_out"
    assert result.text.startswith("partial\nTimed out after 0.2 s")
    assert "too late" not in result.text


async def test_an_async_tool_is_ended_at_its_limit() -> None:
    ended: list[bool] = []

    @tool(time_s=0.1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    assert (await call(slow)).status == "timed_out"
    assert ended == [True]


async def test_a_generator_is_closed_at_its_limit() -> None:
    closed: list[str] = []

    @tool(time_s=0.2)
    def slow(context: ToolContext) -> Iterator[str]:
        try:
            yield "partial"
            context.cancellation.wait(30)
            yield "too late"
        finally:
            closed.append("sync")

    @tool(time_s=0.2)
    async def aslow() -> AsyncIterator[str]:
        try:
            yield "partial"
            await asyncio.sleep(30)
        finally:
            closed.append("async")

    assert (await call(slow)).status == "timed_out"
    assert (await call(aslow)).text.startswith("partial\nTimed out")
    assert closed == ["sync", "async"]


async def test_a_loop_that_never_looks_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.run._GRACE_S", 0.4)
    threads: list[threading.Thread] = []

    @tool(time_s=0.1)
    def spin() -> None:
        threads.append(threading.current_thread())
        while True:
            time.sleep(0.001)

    result = await call(spin)
    assert result.status == "timed_out"
    threads[0].join(5)
    assert not threads[0].is_alive()


async def test_a_tool_that_cannot_be_stopped_is_told_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.run._GRACE_S", 0.1)
    release = threading.Event()

    @tool(time_s=0.1)
    def stuck() -> None:
        release.wait(30)

    result = await call(stuck)
    release.set()
    assert "may still be running" in result.text


async def test_cc_02_nothing_of_a_cancelled_call_arrives_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.run._GRACE_S", 0.2)
    seen: list[str] = []
    inside, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def chatty(context: ToolContext) -> Any:
        context.progress("before")
        inside.set()
        try:
            go_on.wait(5)
            context.progress("after")
            yield "after"
        finally:
            ended.set()

    context = ToolContext(on_progress=seen.append)
    task = asyncio.create_task(call(chatty, context))
    await asyncio.to_thread(inside.wait)
    context.cancellation.set()
    result = await task
    assert result.status == "cancelled"
    go_on.set()
    await asyncio.to_thread(ended.wait)
    await asyncio.sleep(0)
    assert seen == ["before"]


async def test_cancelling_the_run_itself_cancels_the_tool() -> None:
    started, ended = asyncio.Event(), []

    @tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    task = asyncio.create_task(call(wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_a_tool_that_swallows_exceptions_still_sees_the_cancel() -> None:
    started = threading.Event()

    @tool
    def stubborn(context: ToolContext) -> str:
        started.set()
        while True:
            try:
                context.cancellation.wait(0.01)
                context.cancellation.raise_if_set()
            except Exception:
                pass

    context = ToolContext()
    task = asyncio.create_task(call(stubborn, context))
    await asyncio.to_thread(started.wait)
    context.cancellation.set()
    assert (await task).status == "cancelled"


async def test_a_call_cancelled_before_it_starts_does_not_start() -> None:
    context = ToolContext()
    context.cancellation.set()
    assert (await call(add, context, a=1)).status == "cancelled"


async def test_asking_the_person_costs_no_time_of_the_call() -> None:
    asked: list[Form] = []

    async def asker(form: Form) -> Answer:
        asked.append(form)
        await asyncio.sleep(0.5)
        return {"colour": "red"}

    @tool(time_s=0.3)
    def paint(context: ToolContext) -> str:
        answer = context.ask_blocking(Form("Which colour?"))
        return "none" if answer is None else str(answer["colour"])

    assert (await call(paint, ToolContext(asker=asker))).text == "red"
    assert asked[0].message == "Which colour?"


async def test_a_question_nobody_can_answer_is_declined() -> None:
    @tool
    async def paint(context: ToolContext) -> str:
        return str(await context.ask(Form("Which colour?")))

    @tool
    def paint_blocking(context: ToolContext) -> str:
        return str(context.ask_blocking(Form("Which colour?")))

    assert (await call(paint)).text == "None"
    assert (await call(paint_blocking)).text == "None"


async def test_a_cancel_ends_a_question() -> None:
    asked = asyncio.Event()

    async def asker(form: Form) -> Answer:
        asked.set()
        await asyncio.sleep(60)

    @tool
    def paint(context: ToolContext) -> str:
        return str(context.ask_blocking(Form("Which colour?")))

    context = ToolContext(asker=asker)
    task = asyncio.create_task(call(paint, context))
    await asked.wait()
    context.cancellation.set()
    assert (await task).status == "cancelled"


async def test_a_face_that_fails_does_not_end_the_tool() -> None:
    def show(text: str) -> None:
        raise RuntimeError("no screen")

    @tool
    def say() -> Iterator[str]:
        yield "a"
        yield "b"

    assert (await call(say, ToolContext(on_progress=show))).text == "ab"


def test_cancelled_is_not_an_exception() -> None:
    assert not issubclass(Cancelled, Exception)
