"""Sections 1 and 6 of the contract: SessionsChat, client tools, queries."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.sessions.agents import Agent
from app.sessions.chat import SessionsChat, SessionToolCallInfo
from app.sessions.errors import FiresideError
from app.sessions.events import (
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    ResponseCompletedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    SessionEvent,
    SessionStatusEvent,
)
from app.sessions.hooks import StreamHooks
from app.sessions.items import FunctionCall, FunctionCallOutput, Message, output_text
from app.sessions.query import Gathered, QueryStream
from backend.engines.scripted import Pause
from backend.types import ChatOutcome, EngineError
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening
from tools.context import ToolContext

CLIENT = Agent("clerk", tools=({"name": "lookup", "runtime": "client", "description": "Look up."},))


def chat_of(room: Room, **options: Any) -> SessionsChat:
    return SessionsChat(
        room.manager, None, None, options.pop("session", None) or room_session(room), **options
    )


def room_session(room: Room) -> Any:
    from app.sessions.snapshot import SessionSnapshot

    return SessionSnapshot(room.session_id, "agent_fireside", "idle", 0)


async def heard(chat: SessionsChat, text: str = "hi") -> list[SessionEvent]:
    return [event async for event in chat.send(text)]


# ---- 1.1, 1.2 ------------------------------------------------------------------------------


async def test_1_1_status_moves_only_with_refresh(room: MakeRoom) -> None:
    chat = chat_of(await room([EngineError("no")]))
    with pytest.raises(FiresideError):
        await heard(chat)
    assert chat.status == "idle"
    assert (await chat.refresh()).status == chat.status == "failed"


async def test_1_1_a_session_that_is_gone_is_404(room: MakeRoom) -> None:
    place = await room()
    chat = chat_of(place, session=replace(room_session(place), id="sess_gone"))
    for attempt in (chat.refresh, chat.cancel, chat.tree_busy):
        with pytest.raises(FiresideError) as gone:
            await attempt()
        assert gone.value.status_code == 404


async def test_1_1_cancel_is_harmless_when_idle(room: MakeRoom) -> None:
    chat = chat_of(await room(["a"]))
    await chat.cancel()
    await chat.cancel()
    assert (await chat.query("hi")).text == "a"


async def test_1_2_send_does_nothing_until_it_is_iterated(room: MakeRoom) -> None:
    place = await room(["a"])
    chat_of(place).send("hi")
    assert await place.items() == []
    with pytest.raises(RuntimeError, match="uploader"):
        await anext(chat_of(place).send("hi", files=["x.txt"]))
    assert await place.items() == []


async def test_1_2_send_ends_with_its_own_turn_after_yielding_it(room: MakeRoom) -> None:
    events = await heard(chat_of(await room(["a", "b"])))
    assert isinstance(events[-1], ResponseCompletedEvent)
    assert "".join(event.delta for event in events if isinstance(event, OutputTextDeltaEvent)) == "ab"


async def test_1_2_a_burst_of_pieces_cuts_nobody_off(room: MakeRoom) -> None:
    place = await room(["w"] * 4000)
    assert (await chat_of(place).query("hi")).text == "w" * 4000


async def test_1_2_after_a_send_the_session_is_at_rest(room: MakeRoom) -> None:
    place = await room(["a"], ["b", EngineError("boom")])
    chat = chat_of(place)
    await chat.query("one")
    assert (await chat.refresh()).status == "idle"
    await chat.query("two")
    snapshot = await chat.refresh()
    assert snapshot.status == "failed" and snapshot.last_task_error
    assert snapshot.last_task_error["message"] == "boom"


async def test_1_2_another_turns_end_does_not_end_this_send(room: MakeRoom) -> None:
    gate = asyncio.Event()
    place = await room(["first", Pause(until=gate)], ["second"])
    async with listening(place.manager, place.session_id) as other:
        await place.post("one")
        await other.kind(OutputTextDeltaEvent)
        texts: list[str] = []
        async with aclosing(chat_of(place).send("two")) as events:
            async for event in events:
                gate.set()
                if isinstance(event, OutputTextDeltaEvent):
                    texts.append(event.delta)
    assert texts == ["second"]


async def test_1_2_a_turn_that_died_in_its_setup_is_yielded_and_raised(room: MakeRoom) -> None:
    chat = chat_of(await room([EngineError("no memory", remedy="close something")]))
    events: list[SessionEvent] = []
    with pytest.raises(FiresideError, match="no memory") as failure:
        async for event in chat.send("hi"):
            events.append(event)
    assert isinstance(events[-1], SessionStatusEvent) and events[-1].status == "failed"
    assert failure.value.code == "engine_error" and failure.value.remedy == "close something"


async def test_1_2_a_failed_response_is_yielded_and_not_raised(room: MakeRoom) -> None:
    chat = chat_of(await room(["half", EngineError("boom")]))
    events = await heard(chat)
    assert isinstance(events[-1], ResponseFailedEvent)


async def test_1_2_a_queued_message_that_is_taken_back_ends_its_send(room: MakeRoom) -> None:
    gate = asyncio.Event()
    place = await room(["first", Pause(until=gate)])
    async with listening(place.manager, place.session_id) as other:
        await place.post("one")
        await other.kind(OutputTextDeltaEvent)
        async for _ in chat_of(place).send("two"):
            for waiting in await place.manager.queue(place.session_id):
                await place.manager.queue_remove(waiting["id"])
        gate.set()
        await other.status("idle")


async def test_1_2_leaving_a_send_early_drops_its_subscription(room: MakeRoom) -> None:
    place = await room(["a", "b"])
    async with aclosing(chat_of(place).send("hi")) as events:
        async for _ in events:
            break
    live = await place.manager.live(place.session_id)
    assert live.bus.listeners == 0


# ---- 1.3 -----------------------------------------------------------------------------------


async def test_1_3_files_follow_the_text_in_their_order(room: MakeRoom, tmp_path: Path) -> None:
    place = await room(["read"])
    (tmp_path / "a.py").write_text("print(1)")
    (tmp_path / "b.unknown").write_text("plain")
    chat = SessionsChat.bind(place.manager, await place.manager.get(place.session_id))
    result = await chat.query("look", files=[tmp_path / "a.py", tmp_path / "b.unknown"])
    assert result.text == "read"
    question = (await place.items())[0]
    assert isinstance(question, Message)
    assert [block["type"] for block in question.content] == ["input_text", "input_file", "input_file"]
    assert [block.get("filename") for block in question.content] == [None, "a.py", "b.unknown"]
    sent = place.sent[0][0]["content"]
    assert sent.index("look") < sent.index("print(1)") < sent.index("plain")


async def test_1_3_a_picture_for_a_blind_model_is_a_clear_failure(room: MakeRoom, tmp_path: Path) -> None:
    place = await room(["never"])
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n")
    chat = SessionsChat.bind(place.manager, await place.manager.get(place.session_id))
    with pytest.raises(FiresideError, match="cannot see"):
        await chat.query("look", files=[tmp_path / "a.png"])


async def test_1_3_a_failed_upload_posts_nothing(room: MakeRoom, tmp_path: Path) -> None:
    place = await room(["never"])
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    chat = SessionsChat.bind(place.manager, await place.manager.get(place.session_id))
    with pytest.raises(FiresideError) as refused:
        await chat.query("look", files=[tmp_path / "a.bin"])
    assert refused.value.status_code == 415
    assert await place.items() == []


# ---- 1.4 to 1.6, 6 -------------------------------------------------------------------------


async def test_1_4_stream_goes_on_after_a_turn(room: MakeRoom) -> None:
    place = await room(["a"], ["b"])
    ends = 0
    async with aclosing(chat_of(place).stream()) as events:
        async for event in events:
            if event.type == "session.heartbeat":
                await place.post("one")
            if isinstance(event, ResponseCompletedEvent):
                ends += 1
                if ends == 2:
                    break
                await place.post("two")
    assert ends == 2


async def test_1_5_text_is_the_answer_alone_over_all_rounds(room: MakeRoom) -> None:
    place = await room(["before ", call()], ["after"], tools=[EchoTool()])
    result = await chat_of(place).query("hi")
    assert result.text == "before after"
    assert result.finish_reason == "completed" and result.response_id and result.usage
    assert result.usage["output_tokens"] == 3


async def test_1_5_an_incomplete_reply_tells_why(room: MakeRoom) -> None:
    outcome = ChatOutcome(finish="length", prompt_tokens=1, text="cut", new_tokens=1)
    place = await room([outcome])
    events = await heard(chat_of(place))
    assert isinstance(events[-1], ResponseIncompleteEvent)
    gathered = Gathered(lambda event: None)  # type: ignore[arg-type]
    for event in events:
        await gathered.take(event)
    assert (gathered.result().text, gathered.result().finish_reason) == ("cut", "max_output_tokens")


async def test_6_a_query_stream_is_lazy_and_read_once(room: MakeRoom) -> None:
    place = await room(["a", "b"])
    stream = await chat_of(place).query("hi", stream=True)
    assert isinstance(stream, QueryStream) and await place.items() == []
    assert [text async for text in stream] == ["a", "b"]
    assert stream.result.finish_reason == "completed"
    with pytest.raises(RuntimeError):
        aiter(stream)


async def test_1_5_deltas_and_final_items_never_count_twice() -> None:
    gathered = Gathered(lambda event: None)  # type: ignore[arg-type]
    spoken = Message(role="assistant", content=(output_text("one"),))
    silent = Message(role="assistant", content=(output_text("two"), {"type": "text", "text": 3}))
    await gathered.take(OutputTextDeltaEvent(delta="one", message_id=spoken.id))
    await gathered.take(OutputItemDoneEvent(item=spoken))
    await gathered.take(OutputItemDoneEvent(item=silent))
    assert gathered.result().text == "onetwo"


async def test_1_6_await_turn_returns_what_it_has_when_time_runs_out(room: MakeRoom) -> None:
    chat = chat_of(await room())
    assert (await chat.await_turn(timeout=0.01)).text == ""


async def test_1_6_await_turn_raises_for_a_turn_that_failed(room: MakeRoom) -> None:
    gate = asyncio.Event()
    place = await room([Pause(until=gate), EngineError("no")])
    await place.post("hi")
    waiting = asyncio.create_task(chat_of(place).await_turn(timeout=60))
    live = await place.manager.live(place.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    gate.set()
    with pytest.raises(FiresideError, match="no"):
        await waiting


# ---- 1.7 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [((), "without a callable: \\['lookup'\\]"), (("lookup", "other"), "not declared: \\['other'\\]")],
)
async def test_1_7_client_tools_are_checked_both_ways(
    room: MakeRoom, names: tuple[str, ...], message: str
) -> None:
    place = await room()
    chat = await place.manager.sessions_chat(
        agent=CLIENT, tool_callables={name: lambda info: "x" for name in names}
    )
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            await anext(chat.send("hi"))


async def test_1_7_callables_without_a_getter_cannot_be_validated(room: MakeRoom) -> None:
    with pytest.raises(RuntimeError):
        await anext(chat_of(await room(), tool_callables={"f": lambda info: "x"}).send("hi"))


async def test_1_7_a_client_tool_runs_here_and_its_result_goes_to_the_model(room: MakeRoom) -> None:
    place = await room([call("lookup", word="ember")], ["found"])
    seen: list[SessionToolCallInfo] = []

    async def lookup(info: SessionToolCallInfo) -> str:
        seen.append(info)
        return "a glowing coal"

    chat = await place.manager.sessions_chat(agent=CLIENT, tool_callables={"lookup": lookup})
    assert (await chat.query("what is an ember?")).text == "found"
    assert seen[0].arguments == {"word": "ember"} and seen[0].call_id == "c1" and seen[0].item_id
    assert place.sent[0] and place.engine.requests[0].tools[0]["function"]["name"] == "lookup"
    assert place.sent[1][-1]["content"] == "a glowing coal"


async def test_1_7_what_a_client_tool_raises_is_the_models_to_read(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["oh"])

    def lookup(info: SessionToolCallInfo) -> str:
        raise KeyError("gone")

    chat = await place.manager.sessions_chat(agent=CLIENT, tool_callables={"lookup": lookup})
    assert (await chat.query("go")).text == "oh"
    assert "KeyError" in place.sent[1][-1]["content"]


async def test_1_7_strict_tools_raise_and_leave_the_turn_parked(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["never"])
    chat = await place.manager.sessions_chat(agent=CLIENT, tool_callables={"lookup": lambda info: 42})
    chat.strict_tools = True
    with pytest.raises(TypeError):
        await chat.query("go")
    assert (await chat.refresh()).status == "running"
    async with listening(place.manager, chat.session_id) as stopped:
        await chat.cancel()
        await stopped.status("idle")
    items = await place.manager.list_items(chat.session_id)
    assert [type(item) for item in items][-2:] == [FunctionCall, FunctionCallOutput]


async def test_1_7_a_caller_that_leaves_at_the_call_never_runs_it(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["never"])
    ran: list[str] = []
    chat = await place.manager.sessions_chat(
        agent=CLIENT, tool_callables={"lookup": lambda info: ran.append("x") or ""}
    )
    async with aclosing(chat.send("go")) as events:
        async for event in events:
            if isinstance(event, OutputItemDoneEvent) and event.item.status == "action_required":
                break
    assert ran == []


# ---- 4 -------------------------------------------------------------------------------------


def recording(log: list[str], **more: Any) -> StreamHooks:
    names = (
        "response_start response_end reasoning_start reasoning_end message_start message_end "
        "tool_call_start tool_call_end error compaction_start compaction_end"
    ).split()

    def note(name: str) -> Any:
        async def hook(context: Any) -> None:
            log.append(name)

        return hook

    return StreamHooks(**{f"on_{name}": note(name) for name in names}, **more)


async def test_4_hooks_come_in_order_and_in_pairs(room: MakeRoom) -> None:
    from backend.types import ReasoningPiece

    place = await room([ReasoningPiece("a"), call()], [ReasoningPiece("b"), "text"], tools=[EchoTool()])
    log: list[str] = []
    await chat_of(place, hooks=recording(log)).query("hi")
    assert log == [
        "response_start",
        "reasoning_start",
        "reasoning_end",
        "tool_call_start",
        "tool_call_end",
        "reasoning_start",
        "reasoning_end",
        "message_start",
        "message_end",
        "response_end",
    ]


async def test_4_a_turn_that_dies_closes_what_was_open(room: MakeRoom) -> None:
    place = await room(["half", EngineError("boom")])
    log: list[str] = []
    await chat_of(place, hooks=recording(log)).query("hi")
    assert log == ["response_start", "message_start", "message_end", "error", "response_end"]


async def test_4_an_observer_that_raises_ends_the_iteration(room: MakeRoom) -> None:
    def fail(context: Any) -> None:
        raise LookupError("mine")

    chat = chat_of(await room(["a"]), hooks=StreamHooks(on_message_start=fail))
    with pytest.raises(LookupError):
        await chat.query("hi")


@pytest.mark.parametrize(
    ("answer", "runs"), [(True, True), ("yes", True), (False, False), (None, False), (OSError(), False)]
)
async def test_4_the_elicitation_hook_decides_and_fails_closed(
    room: MakeRoom, answer: Any, runs: bool
) -> None:
    def decide(context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    tool = EchoTool(effect="write")
    place = await room([call()], ["ok"], tools=[tool])
    await chat_of(place, hooks=StreamHooks(on_elicitation_request=decide)).query("go")
    assert bool(tool.calls) is runs


async def test_4_the_elicitation_hook_may_give_a_whole_answer(room: MakeRoom) -> None:
    answers = [{"action": "accept", "content": {"scope": "session"}}, {"content": "accept"}]
    tool = EchoTool(effect="write")
    place = await room([call(a=1)], ["ok"], [call(call_id="c2", a=2)], ["ok"], tools=[tool])
    hooks = StreamHooks(on_elicitation_request=lambda context: answers.pop(0))
    await chat_of(place, hooks=hooks).query("go")
    await chat_of(place, hooks=hooks).query("again")
    assert len(tool.calls) == 1 and len(await place.manager.rules(place.session_id)) == 1


async def test_4_without_a_hook_a_question_is_declined(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    place = await room([call()], ["ok"], tools=[tool])
    assert (await chat_of(place).query("go")).text == "ok"
    assert tool.calls == []


# ---- 7 -------------------------------------------------------------------------------------


async def test_7_a_child_that_ends_by_itself_wakes_its_parent(room: MakeRoom) -> None:
    async def start(arguments: dict[str, Any], context: ToolContext) -> str:
        parent = await place.manager.live(context.session_id)
        child = await place.manager.open_child(parent, "scout", {})
        from app.sessions.items import user_message

        await child.post(user_message("look"))
        return "started"

    place = await room([call()], ["I wait"], ["found it"], ["thanks"], tools=[EchoTool(action=start)])
    async with listening(place.manager, place.session_id) as other:
        await place.post("go")
        await other.kind(ResponseCompletedEvent, count=2)
        await other.status("idle")
    woken = place.sent[-1][-1]["content"]
    assert woken.startswith("[Sub-agent fireside:scout has finished]")
    assert {"session.created", "session.child_session.updated"} <= set(other.types)
    tree = await place.manager.child_sessions_tree(place.session_id)
    assert [child["parent_id"] for child in tree] == [place.session_id]
