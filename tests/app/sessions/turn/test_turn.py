"""Sections 2.2 to 2.5 of the contract: statuses, order, queueing, interrupts; and the turn loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.sessions.errors import ConflictError, InvalidInputError, ServerError
from app.sessions.events import (
    FunctionCallOutputDeltaEvent,
    OutputTextDeltaEvent,
    ResponseCancelledEvent,
    ResponseEvent,
    SessionQueueEvent,
    SessionStatusEvent,
)
from app.sessions.items import ErrorItem, FunctionCall, FunctionCallOutput, Message, Reasoning
from app.sessions.store.store import Store
from backend.engines.scripted import Pause, ScriptedEngine
from backend.types import EngineError, ReasoningPiece, ToolCall
from tests.app.sessions.conftest import EchoTool, MakeRoom, call, listening
from tools.context import ToolContext


def pairing(items: list[Any]) -> None:
    """Every call has exactly one result, and every result its call."""
    calls = [item.call_id for item in items if isinstance(item, FunctionCall)]
    results = [item.call_id for item in items if isinstance(item, FunctionCallOutput)]
    assert sorted(calls) == sorted(results)


async def test_2_3_events_come_in_the_order_of_the_contract(room: MakeRoom) -> None:
    chat = await room([ReasoningPiece("hm"), "Hello", " there"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("hi")
        await heard.status("idle")
    assert heard.types == [
        "session.heartbeat",
        "session.status",
        "session.input.consumed",
        "session.title",
        "response.created",
        "response.in_progress",
        "response.reasoning.started",
        "response.reasoning_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_item.done",
        "response.output_item.done",
        "session.usage",
        "session.speed",
        "response.completed",
        "session.status",
    ]
    numbers = [event.sequence_number for event in heard.events[1:]]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_reply_is_stored_with_its_thought(room: MakeRoom) -> None:
    chat = await room([ReasoningPiece("hm"), "Hello"])
    question, thought, reply = await chat.say("hi")
    assert isinstance(question, Message) and question.text == "hi"
    assert isinstance(thought, Reasoning) and thought.text == "hm"
    assert isinstance(reply, Message) and reply.text == "Hello" and reply.model == "fireside"
    assert (await chat.manager.get(chat.session_id)).title == "hi"


async def test_calls_of_one_reply_run_together_and_the_model_reads_their_results(room: MakeRoom) -> None:
    together = asyncio.Barrier(2)

    async def meet(arguments: dict[str, Any], context: ToolContext) -> str:
        await together.wait()
        return f"met {arguments['n']}"

    tool = EchoTool(action=meet)
    chat = await room([call(n=1), call(call_id="c2", n=2)], ["done"], tools=[tool])
    items = await chat.say()
    pairing(items)
    turns = chat.sent[1]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "tool"]
    assert {turn["content"] for turn in turns[2:]} == {"met 1", "met 2"}
    assert [item.status for item in items if isinstance(item, FunctionCall)] == ["completed"] * 2


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (ToolCall("c1", "echo", {}, '{"a":', "it ends too early"), "it ends too early"),
        (ToolCall("c1", "ecko", {}), "No tool named 'ecko'. Available: echo"),
    ],
)
async def test_a_bad_call_goes_back_to_the_model_as_an_error(
    room: MakeRoom, bad: ToolCall, said: str
) -> None:
    tool = EchoTool()
    chat = await room([bad], ["sorry"], tools=[tool])
    items = await chat.say()
    pairing(items)
    assert said in chat.sent[1][-1]["content"]
    assert tool.calls == []


async def test_a_tool_that_raises_is_read_by_the_model(room: MakeRoom) -> None:
    async def fail(arguments: dict[str, Any], context: ToolContext) -> str:
        raise ZeroDivisionError("nought")

    chat = await room([call()], ["I see"], tools=[EchoTool(action=fail)])
    await chat.say()
    assert "ZeroDivisionError: nought" in chat.sent[1][-1]["content"]


async def test_live_output_of_a_tool_is_heard_before_its_result(room: MakeRoom) -> None:
    async def talk(arguments: dict[str, Any], context: ToolContext) -> str:
        context.progress("working")
        return "done"

    chat = await room([call()], ["ok"], tools=[EchoTool(action=talk)])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        delta: FunctionCallOutputDeltaEvent = await heard.kind(FunctionCallOutputDeltaEvent)
        assert (delta.call_id, delta.delta) == ("c1", "working")
        await heard.status("idle")


async def test_a_flood_of_live_output_cuts_no_listener_off(room: MakeRoom) -> None:
    async def flood(arguments: dict[str, Any], context: ToolContext) -> str:
        for number in range(20_000):
            context.progress(f"line {number}\n")
        return "done"

    chat = await room([call()], ["ok"], tools=[EchoTool(action=flood)])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.status("idle")
    deltas = [event.delta for event in heard.events if isinstance(event, FunctionCallOutputDeltaEvent)]
    assert len(deltas) < 20 and deltas[-1].endswith("line 19999\n")


async def test_a_reply_is_saved_while_it_is_written(room: MakeRoom) -> None:
    chat = await room([ReasoningPiece("hm"), "so far", Pause(until=asyncio.Event())])
    store = chat.manager.store
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        while not (saved := await store.writings(chat.session_id)):
            await asyncio.sleep(0.01)
        assert (saved[0].reasoning, saved[0].text) == ("hm", "so far")
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")
    assert await store.writings() == []


async def test_2_4_commands_of_the_person_are_kept_and_never_sent(room: MakeRoom) -> None:
    chat = await room(["ok"])
    data = {"kind": "input", "input": "ls"}
    ack = await chat.manager.post_event(chat.session_id, {"type": "terminal_command", "data": data})
    items = await chat.say()
    assert (items[0].id, items[0].type) == (ack.item_id, "terminal_command")
    assert len(chat.sent[0]) == 1


async def test_rounds_have_a_limit(room: MakeRoom) -> None:
    chat = await room(*[[call(call_id=f"c{n}")] for n in range(5)], tools=[EchoTool()])
    await chat.manager.configure(chat.session_id, max_rounds=3)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("loop")
        await heard.status("idle")
    last = [event for event in heard.events if isinstance(event, ResponseEvent)][-1]
    assert last.response.incomplete_details == {"reason": "max_rounds"}
    assert len(chat.engine.requests) == 3
    pairing(await chat.items())


# ---- failures ------------------------------------------------------------------------------


async def test_2_2_a_turn_that_dies_before_its_response_has_a_status_only(room: MakeRoom) -> None:
    chat = await room([EngineError("no memory", remedy="buy some")], ["fine"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("hi")
        failed = await heard.status("failed")
    assert isinstance(failed, SessionStatusEvent) and failed.error
    assert failed.error["message"] == "no memory" and failed.error["remediation"] == "buy some"
    assert not [event for event in heard.events if isinstance(event, ResponseEvent)]


async def test_2_2_a_failed_turn_does_not_brick_the_session(room: MakeRoom) -> None:
    chat = await room([EngineError("boom")], ["fine"])
    items = await chat.say("one")
    assert isinstance(items[-1], ErrorItem)
    assert (await chat.manager.get(chat.session_id)).status == "failed"
    await chat.say("two")
    assert (await chat.manager.get(chat.session_id)).status == "idle"
    assert chat.sent[1] == [{"role": "user", "content": "one\n\ntwo"}]


async def test_a_failure_in_the_middle_keeps_what_was_seen(room: MakeRoom) -> None:
    chat = await room(["half a", EngineError("crash")], ["ok"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("hi")
        await heard.status("failed")
    assert heard.types[-3:] == ["response.error", "response.failed", "session.status"]
    message = (await chat.items())[1]
    assert isinstance(message, Message) and message.interrupted and message.text == "half a"


async def test_a_store_that_fails_ends_the_turn_and_nobody_waits(room: MakeRoom) -> None:
    chat = await room(["a"], ["b"])
    store, full = chat.manager.store, True
    apply = store.apply

    async def failing(session_id: str, change: Any, **more: Any) -> None:
        if full and any(isinstance(item, Message) and item.role == "assistant" for item in change.items):
            raise ServerError("The chat store failed: database or disk is full.")
        await apply(session_id, change, **more)

    store.apply = failing  # type: ignore[method-assign]
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("one")
        failed = await heard.status("failed")
        assert "disk is full" in failed.error["message"]  # type: ignore[attr-defined]
        full = False
        await chat.post("two")
        await heard.status("idle")
    assert [item.text for item in await chat.items() if isinstance(item, Message)] == ["one", "two", "b"]


# ---- interrupts ----------------------------------------------------------------------------


async def test_2_5_an_interrupt_keeps_what_was_seen_and_marks_it(room: MakeRoom) -> None:
    chat = await room(["seen", Pause(until=asyncio.Event()), "never"], ["next"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("hi")
        await heard.kind(OutputTextDeltaEvent)
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")
    assert heard.types[-3:] == ["session.interrupted", "response.cancelled", "session.status"]
    reply = (await chat.items())[-1]
    assert isinstance(reply, Message) and (reply.text, reply.interrupted) == ("seen", True)
    await chat.say("go on")
    # In the reply itself it would break the cached prefix, and small models repeat it.
    assert chat.sent[1][1]["content"] == "seen"
    assert chat.sent[1][2]["content"].startswith("[The user stopped")
    assert chat.sent[1][2]["content"].endswith("go on")


async def test_2_5_a_reply_stopped_before_its_first_word_keeps_turns_alternating(room: MakeRoom) -> None:
    started = asyncio.Event()

    class Slow(ScriptedEngine):
        async def submit(self, request: Any) -> Any:
            started.set()
            async for pieces in super().submit(request):
                yield pieces

    chat = await room([Pause(until=asyncio.Event())], ["next"], engine=Slow())
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("one")
        await started.wait()
        await chat.manager.interrupt(chat.session_id)
        await heard.kind(ResponseCancelledEvent)
        await heard.status("idle")
    await chat.say("two")
    assert [turn["role"] for turn in chat.sent[1]] == ["user", "assistant", "user"]


async def test_2_5_an_engine_that_goes_on_after_cancel_is_not_heard(room: MakeRoom) -> None:
    more = asyncio.Event()
    running: list[str] = []

    class Deaf(ScriptedEngine):
        def cancel(self, request_id: str) -> None:
            more.set()

        async def submit(self, request: Any) -> Any:
            assert not running
            running.append(request.id)
            async for pieces in super().submit(request):
                yield pieces
            running.clear()

    chat = await room(["A1", Pause(until=more), "A2", "A3"], ["B"], engine=Deaf())
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("a")
        await heard.kind(OutputTextDeltaEvent)
        await chat.manager.interrupt(chat.session_id)
        await chat.post("b")
        await heard.status("idle")
    texts = [event.delta for event in heard.events if isinstance(event, OutputTextDeltaEvent)]
    assert texts == ["A1", "B"]
    stored = [item.text for item in await chat.items() if isinstance(item, Message)]
    assert stored == ["a", "A1", "b", "B"]


async def test_2_5_calls_that_were_open_get_a_result(room: MakeRoom) -> None:
    started = asyncio.Event()

    async def hang(arguments: dict[str, Any], context: ToolContext) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    fast = EchoTool(name="fast")
    tools = [EchoTool(action=hang), fast]
    chat = await room([call(), call("fast", "c2")], ["sure"], tools=tools)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await started.wait()
        await heard.until(lambda event: getattr(getattr(event, "item", None), "call_id", "") == "c2", count=3)
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")
    items = await chat.items()
    pairing(items)
    outputs = {item.call_id: item for item in items if isinstance(item, FunctionCallOutput)}
    assert outputs["c1"].output.startswith("Cancelled") and outputs["c2"].output.startswith("echo")
    await chat.say("and now?")
    assert [turn["role"] for turn in chat.sent[1]] == ["user", "assistant", "tool", "tool", "user"]


async def test_2_5_calls_that_were_stored_as_the_interrupt_came_get_results_too(room: MakeRoom) -> None:
    tool = EchoTool()
    chat = await room([call(), call(call_id="c2")], ["next"], tools=[tool])
    store, live = chat.manager.store, await chat.manager.live(chat.session_id)
    apply = store.apply

    async def interrupting(session_id: str, change: Any, **more: Any) -> None:
        await apply(session_id, change, **more)
        if any(isinstance(item, FunctionCall) for item in change.items):
            live.interrupt()

    store.apply = interrupting  # type: ignore[method-assign]
    items = await chat.say()
    pairing(items)
    assert len(items) == 5 and tool.calls == []


async def test_2_5_an_interrupt_of_a_resting_session_is_harmless(room: MakeRoom) -> None:
    chat = await room(["hi"])
    await chat.manager.interrupt(chat.session_id)
    assert len(await chat.say()) == 2


# ---- queueing ------------------------------------------------------------------------------


async def test_2_4_messages_sent_during_a_turn_are_answered_by_one_more(room: MakeRoom) -> None:
    gate = asyncio.Event()
    chat = await room(["one", Pause(until=gate)], ["two"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("a")
        await heard.kind(OutputTextDeltaEvent)
        await chat.post("b")
        await chat.post("c")
        assert [item["content"][0]["text"] for item in await chat.manager.queue(chat.session_id)] == [
            "b",
            "c",
        ]
        gate.set()
        await heard.status("idle")
    statuses = [event.status for event in heard.events if isinstance(event, SessionStatusEvent)]
    assert statuses == ["running", "running", "idle"]
    assert [turn["content"] for turn in chat.sent[1]] == ["a", "one", "b\n\nc"]
    assert await chat.manager.queue(chat.session_id) == []


async def test_2_4_a_message_joins_the_running_turn_at_a_tool_boundary(room: MakeRoom) -> None:
    gate = asyncio.Event()

    async def wait(arguments: dict[str, Any], context: ToolContext) -> str:
        context.progress("waiting")
        await gate.wait()
        return "result"

    chat = await room([call()], ["both answered"], tools=[EchoTool(action=wait)])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(FunctionCallOutputDeltaEvent)
        await chat.post("and hurry")
        gate.set()
        await heard.status("idle")
    assert [turn["role"] for turn in chat.sent[1]] == ["user", "assistant", "tool", "user"]
    assert len(chat.engine.requests) == 2
    contents = [item.text for item in await chat.items() if isinstance(item, Message)]
    assert contents == ["go", "and hurry", "both answered"]


async def test_2_4_a_queued_message_can_be_changed_and_taken_back(room: MakeRoom) -> None:
    gate = asyncio.Event()
    chat = await room(["one", Pause(until=gate)], ["two"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("a")
        await heard.kind(OutputTextDeltaEvent)
        first, second = await chat.post("b"), await chat.post("c")
        await chat.manager.queue_edit(first, "B")
        await chat.manager.queue_remove(second)
        await heard.kind(SessionQueueEvent, count=4)
        gate.set()
        await heard.status("idle")
    assert chat.sent[1][-1]["content"] == "B"
    with pytest.raises(ConflictError):
        await chat.manager.queue_remove(first)


async def test_2_4_an_unknown_input_type_is_refused(room: MakeRoom) -> None:
    chat = await room()
    with pytest.raises(InvalidInputError):
        await chat.manager.post_event(chat.session_id, {"type": "levitate", "data": {}})


async def test_a_queue_survives_the_end_of_the_process(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room(["one", Pause(until=asyncio.Event())], store=Store(tmp_path / "q.db"))
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("a")
        await heard.kind(OutputTextDeltaEvent)
        await chat.post("b")
        await chat.manager.aclose()
    after = await room(["both"], store=Store(tmp_path / "q.db"))
    after.session_id = chat.session_id
    assert (await after.manager.get(chat.session_id)).pending_inputs[0]["content"][0]["text"] == "b"
    await after.say("c")
    assert after.sent[0][-1]["content"].endswith("b\n\nc")


# ---- several sessions, several processes ---------------------------------------------------


async def test_turns_of_several_sessions_run_together(room: MakeRoom) -> None:
    together = asyncio.Event()
    running = 0

    class Counting(ScriptedEngine):
        async def submit(self, request: Any) -> Any:
            nonlocal running
            running += 1
            if running == 3:
                together.set()
            async for pieces in super().submit(request):
                yield pieces

    chat = await room(*[["x", Pause(until=together)]] * 3, engine=Counting())
    ids = [chat.session_id, *[(await chat.manager.create()).id for _ in range(2)]]
    chats = [type(chat)(chat.manager, chat.engine, session_id) for session_id in ids]
    results = await asyncio.gather(*(one.say() for one in chats))
    assert [len(items) for items in results] == [2, 2, 2]


async def test_a_second_writer_is_told_who_has_the_chat(room: MakeRoom, tmp_path: Path) -> None:
    first = await room(["one"], store=Store(tmp_path / "two.db"))
    await first.say("hi")
    second = await room(["two"], store=Store(tmp_path / "two.db"))
    second.session_id = first.session_id
    with pytest.raises(ConflictError, match="open in another Fireside"):
        await second.post("me too")
    copy = await second.manager.fork(first.session_id)
    second.session_id = copy
    assert len(await second.say("mine")) == 4


async def test_a_resumed_chat_sends_the_model_what_the_screen_shows(room: MakeRoom, tmp_path: Path) -> None:
    script = [ReasoningPiece("hm"), call(word="ember")]
    first = await room(script, ["one"], store=Store(tmp_path / "r.db"), tools=[EchoTool()])
    await first.say("first question")
    await first.manager.aclose()
    second = await room(["two"], store=Store(tmp_path / "r.db"))
    second.session_id = first.session_id
    await second.say("second question")
    assert [turn["role"] for turn in second.sent[0]] == ["user", "assistant", "tool", "assistant", "user"]
    assert second.sent[0][:3] == first.sent[1]


async def test_a_second_reader_follows_what_the_first_writes(room: MakeRoom, tmp_path: Path) -> None:
    first = await room(["one"], store=Store(tmp_path / "two.db"))
    second = await room(store=Store(tmp_path / "two.db"))
    async with listening(second.manager, first.session_id) as heard:
        await first.say("hi")
        await heard.until(lambda event: getattr(getattr(event, "item", None), "role", "") == "assistant")
