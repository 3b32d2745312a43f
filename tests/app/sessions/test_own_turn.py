"""Sections 1.5 and 1.6 of the contract while other turns run: a question gets its own answer alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.sessions.chat import SessionsChat
from app.sessions.events import (
    OutputTextDeltaEvent,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    SessionInputConsumedEvent,
    SessionQueueEvent,
)
from app.sessions.file_records import SessionFile
from app.sessions.hooks import StreamHooks
from app.sessions.items import user_message
from app.sessions.query import QueryStream
from app.sessions.store.store import Store
from backend.engines.scripted import Pause
from backend.types import EngineError, ReasoningPiece
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening
from tools.context import ToolContext


async def chat_of(place: Room, **options: Any) -> SessionsChat:
    return SessionsChat.bind(place.manager, await place.manager.get(place.session_id), **options)


async def words_of(stream: QueryStream) -> str:
    return "".join([text async for text in stream])


async def asked(chat: SessionsChat, how: str) -> str:
    if how == "stream":
        return await words_of(await chat.query("two", stream=True))
    return (await chat.query("two")).text


# ---- 1.5: while another turn runs ----------------------------------------------------------


@pytest.mark.parametrize("how", ["whole", "stream"])
async def test_a_question_that_waits_gets_its_own_answer(room: MakeRoom, how: str) -> None:
    gate = asyncio.Event()
    place = await room(["first ", Pause(until=gate), "and more"], ["second"])
    async with listening(place.manager, place.session_id) as other:
        await place.post("one")
        await other.kind(OutputTextDeltaEvent)
        waiting = asyncio.create_task(asked(await chat_of(place), how))
        await other.until(lambda event: isinstance(event, SessionQueueEvent) and len(event.inputs) == 1)
        gate.set()
        assert await waiting == "second"


@pytest.mark.parametrize("how", ["whole", "stream"])
async def test_a_question_that_joins_a_turn_gets_what_is_said_after_it(room: MakeRoom, how: str) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def wait(arguments: dict[str, Any], context: ToolContext) -> str:
        begun.set()
        await gate.wait()
        return "waited"

    place = await room(["before ", call()], ["after"], tools=[EchoTool(action=wait)])
    async with listening(place.manager, place.session_id) as other:
        await place.post("one")
        await begun.wait()
        waiting = asyncio.create_task(asked(await chat_of(place), how))
        await other.until(lambda event: isinstance(event, SessionQueueEvent) and len(event.inputs) == 1)
        gate.set()
        assert await waiting == "after"


async def test_files_of_another_turn_are_not_the_questions(room: MakeRoom) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def make(arguments: dict[str, Any], context: ToolContext) -> str:
        await place.manager.files.add(context.session_id, f"{context.call_id}.txt", b"x")
        if not begun.is_set():
            begun.set()
            await gate.wait()
        return "made"

    tools = [EchoTool(action=make)]
    place = await room([call(), call(call_id="c2")], ["one"], [call(call_id="c3")], ["two"], tools=tools)
    async with listening(place.manager, place.session_id) as other:
        await place.post("one")
        await begun.wait()
        gate.set()
        await other.kind(ResponseCompletedEvent)
        result = await (await chat_of(place)).query("two")
    assert [file.filename for file in result.files] == ["c3.txt"]


async def test_replies_side_by_side_are_told_apart(room: MakeRoom) -> None:
    gates = asyncio.Event(), asyncio.Event()
    place = await room(
        ["first"],
        [ReasoningPiece("p"), "a1 ", Pause(until=gates[0]), "a2"],
        ["b1 ", Pause(until=gates[0]), "b2"],
    )
    log: list[tuple[str, str]] = []
    hooks = StreamHooks(
        on_response_start=lambda ctx: log.append(("start", ctx.response.id)),
        on_response_end=lambda ctx: log.append(("end", ctx.response.id)),
        on_message_start=lambda ctx: log.append(("message", ctx.response_id)),
        on_message_end=lambda ctx: log.append(("text", ctx.content[0]["text"])),
    )
    chat = await chat_of(place, hooks=hooks)
    first = await chat.query("go")
    assert first.response_id
    log.clear()

    async def follow() -> None:
        ends = 0
        async for event in chat.stream():
            ends += isinstance(event, ResponseCompletedEvent)
            if ends == 2:
                return

    following = asyncio.create_task(follow())
    live = await place.manager.live(place.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    async with listening(place.manager, place.session_id) as heard:
        ids = await place.manager.retry(first.response_id, n=2)
        await heard.kind(OutputTextDeltaEvent, count=2)
        gates[0].set()
        await following
    for response_id in ids:
        assert log.count(("start", response_id)) == log.count(("end", response_id)) == 1
        assert log.count(("message", response_id)) == 1
    assert sorted(text for kind, text in log if kind == "text") == ["a1 a2", "b1 b2"]


async def test_an_answer_without_deltas_is_read_from_the_end_alone(room: MakeRoom) -> None:
    from app.sessions.events import OutputItemDoneEvent, Response
    from app.sessions.items import Message, output_text
    from app.sessions.query import Gathered

    async def nothing(event: Any) -> Any:
        return event

    gathered = Gathered(nothing)
    other = Message(role="assistant", content=(output_text("theirs"),), response_id="r")
    own = Message(role="assistant", content=(output_text("ours"),), response_id="r")
    gathered.pass_over(OutputItemDoneEvent(item=other))
    output = [other.to_wire(), own.to_wire(), {"type": "message", "role": "assistant", "content": "bad"}]
    response = Response(id="r", model="m", status="completed", output=output)
    assert await gathered.take(ResponseCompletedEvent(response=response)) == "ours"


# ---- 1.6: turns the session starts by itself -----------------------------------------------


async def test_where_nothing_runs_there_is_no_turn_to_await(room: MakeRoom) -> None:
    place = await room(["a"])
    chat = await chat_of(place)
    assert (await chat.await_turn(timeout=None)).text == ""
    await chat.query("hi")
    result = await chat.await_turn(timeout=None)
    assert (result.text, result.files, result.finish_reason) == ("", [], None)


async def test_after_a_failure_nothing_runs_either(room: MakeRoom) -> None:
    place = await room([EngineError("no")])
    await place.say()
    assert (await (await chat_of(place)).await_turn(timeout=None)).text == ""


async def test_who_joins_late_gets_the_whole_answer(room: MakeRoom) -> None:
    gate = asyncio.Event()
    place = await room(["one ", call()], ["two ", Pause(until=gate), "three"], tools=[EchoTool()])
    chat = await chat_of(place)
    async with listening(place.manager, place.session_id) as heard:
        await place.post("go")
        await heard.kind(OutputTextDeltaEvent, count=2)
        waiting = asyncio.create_task(chat.await_turn(timeout=None))
        live = await place.manager.live(place.session_id)
        while live.bus.listeners < 2:
            await asyncio.sleep(0)
        gate.set()
        result = await waiting
    assert result.text == "one two three" and result.finish_reason == "completed"


async def test_who_joins_late_gets_a_stopped_answer_too(room: MakeRoom) -> None:
    gate = asyncio.Event()
    place = await room(["one ", "two ", Pause(until=gate)])
    chat = await chat_of(place)
    async with listening(place.manager, place.session_id) as heard:
        await place.post("go")
        await heard.kind(OutputTextDeltaEvent, count=2)
        waiting = asyncio.create_task(chat.await_turn(timeout=None))
        live = await place.manager.live(place.session_id)
        while live.bus.listeners < 2:
            await asyncio.sleep(0)
        await chat.cancel()
        result = await waiting
    assert (result.text, result.finish_reason) == ("one two ", "cancelled")


async def test_a_turn_that_a_sub_agent_wakes_is_awaited(room: MakeRoom) -> None:
    gate = asyncio.Event()

    async def start(arguments: dict[str, Any], context: ToolContext) -> str:
        parent = await place.manager.live(context.session_id)
        child = await place.manager.open_child(parent, "scout", {})
        async with listening(place.manager, child.id) as heard:
            await child.post(user_message("look"))
            await heard.kind(OutputTextDeltaEvent)
        return "started"

    place = await room(
        [call()], ["found", Pause(until=gate)], ["I wait"], ["thanks"], tools=[EchoTool(action=start)]
    )
    spawned, completed = list[Any](), list[Any]()
    hooks = StreamHooks(on_sub_agent_spawned=spawned.append, on_sub_agent_completed=completed.append)
    chat = await chat_of(place, hooks=hooks)
    following = asyncio.create_task(until_completed(chat, 2))
    live = await place.manager.live(place.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    first = await chat.query("go")
    assert first.text == "I wait" and await chat.tree_busy()
    waiting = asyncio.create_task(chat.await_turn(timeout=None))
    while live.bus.listeners < 2:
        await asyncio.sleep(0)
    gate.set()
    assert (await waiting).text == "thanks"
    await following
    child = spawned[0].sub_agents[0]
    assert spawned[0].parent_response_id == first.response_id
    assert [end.response_id for end in completed] == [child.response_id]
    assert completed[0].status == "completed" and completed[0].output_summary == "found"


async def until_completed(chat: SessionsChat, count: int) -> None:
    async for event in chat.stream():
        count -= isinstance(event, ResponseCompletedEvent)
        if not count:
            return


# ---- 1.1: identity, and the tree ------------------------------------------------------------


async def test_a_helper_is_itself_and_can_be_kept_in_a_set(room: MakeRoom) -> None:
    place = await room()
    one, other = await chat_of(place), await chat_of(place)
    assert one == one and one != other
    assert {one: 1}[one] == 1 and len({one, other, one}) == 2


@pytest.mark.parametrize("archived", [("child",), ("grandchild",), ("child", "grandchild")])
async def test_a_sub_agent_that_was_archived_is_busy_while_it_runs(
    room: MakeRoom, archived: tuple[str, ...]
) -> None:
    gate = asyncio.Event()
    place = await room(["at work", Pause(until=gate)])
    chat = await chat_of(place)
    child = await place.manager.open_child(await place.manager.live(place.session_id), "scout", {})
    grandchild = await place.manager.open_child(child, "helper", {})
    assert not await chat.tree_busy()
    async with listening(place.manager, grandchild.id) as heard:
        await grandchild.post(user_message("look"))
        await heard.kind(ResponseCreatedEvent)
        for name, live in (("child", child), ("grandchild", grandchild)):
            if name in archived:
                await place.manager.archive(live.id)
        assert await chat.tree_busy() and not await chat.tree_busy(max_depth=1)
        listed = {summary["id"] for summary in await place.manager.child_sessions_tree(place.session_id)}
        assert listed.isdisjoint({child.id} if "child" in archived else {grandchild.id})
        gate.set()
        await heard.status("idle")
    assert not await chat.tree_busy()


# ---- files that a tool makes -----------------------------------------------------------------


async def test_a_file_that_a_tool_keeps_reaches_everybody(room: MakeRoom) -> None:
    async def make(arguments: dict[str, Any], context: ToolContext) -> str:
        await place.manager.files.add(context.session_id, "table.csv", b"a,b\n")
        return "made"

    place = await room([call()], ["here"], [call()], ["again"], tools=[EchoTool(action=make)])
    told: list[Any] = []
    chat = await chat_of(place, hooks=StreamHooks(on_file_output=told.append))
    result = await chat.query("make a table")
    kept = (await place.manager.files.list(place.session_id))[0]
    expected = {"id": kept.id, "filename": "table.csv", "bytes": 4, "created_at": kept.created_at}
    assert result.files == [expected] and result.files[0].filename == "table.csv"
    assert (told[0].file_id, told[0].filename, told[0].content_type) == (kept.id, "table.csv", "text/csv")
    stream = await chat.query("again", stream=True)
    assert await words_of(stream) == "again"
    assert [file.filename for file in stream.files] == ["table.csv"]


async def test_a_file_that_a_client_tool_uploads_reaches_the_question(room: MakeRoom, tmp_path: Path) -> None:
    from app.sessions.agents import Agent

    place = await room([call("draw")], ["here"])
    (tmp_path / "plot.svg").write_text("<svg/>")

    async def draw(info: Any) -> str:
        file = await place.manager.files.for_session(chat.session_id).upload(str(tmp_path / "plot.svg"))
        return f"drawn as {file.id}"

    agent = Agent("artist", tools=({"name": "draw", "runtime": "client"},))
    chat = await place.manager.sessions_chat(agent=agent, tool_callables={"draw": draw})
    result = await chat.query("draw")
    assert [file.filename for file in result.files] == ["plot.svg"]


async def test_a_file_that_a_person_attaches_is_no_file_of_the_turn(room: MakeRoom, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    begun, gate = asyncio.Event(), asyncio.Event()

    async def wait(arguments: dict[str, Any], context: ToolContext) -> str:
        begun.set()
        await gate.wait()
        return "waited"

    place = await room([call()], ["one"], tools=[EchoTool(action=wait)])
    chat = await chat_of(place)
    first = asyncio.create_task(chat.query("one"))
    await begun.wait()
    async with listening(place.manager, place.session_id) as other:
        second = asyncio.create_task(chat.query("two", files=[tmp_path / "a.txt"]))
        await other.until(lambda event: isinstance(event, SessionQueueEvent) and len(event.inputs) == 1)
        gate.set()
        assert (await first).files == (await second).files == []


async def test_a_followed_question_names_the_response_that_answers_it(room: MakeRoom) -> None:
    place = await room(["a"])
    chat = await chat_of(place)
    events = [event async for event in chat.send("hi")]
    consumed = next(event for event in events if isinstance(event, SessionInputConsumedEvent))
    deltas = [event.response_id for event in events if isinstance(event, OutputTextDeltaEvent)]
    assert deltas == [consumed.response_id]


async def test_a_getter_may_tell_in_other_forms(room: MakeRoom) -> None:
    from app.sessions.chat_files import file_of
    from app.sessions.events import OutputFileDoneEvent

    kept = SessionFile("file_1", "s", "a.txt", "text/plain", 3, 9)

    async def whole(file_id: str) -> Any:
        return kept

    async def wire(file_id: str) -> Any:
        return kept.to_wire()

    expected = {"id": "file_1", "filename": "a.txt", "bytes": 3, "created_at": 9}
    for getter in (whole, wire):
        assert await file_of(OutputFileDoneEvent(file_id="file_1"), getter) == expected
    with pytest.raises(RuntimeError, match="getter"):
        await file_of(OutputFileDoneEvent(file_id="file_1"), None)


async def test_another_process_that_reads_along_hears_the_whole_answer(
    room: MakeRoom, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    path = tmp_path / "shared.db"
    place = await room(["one ", Pause(until=gate), "two"], store=Store(path))
    other = await room(store=Store(path))
    async with listening(place.manager, place.session_id) as heard:
        await place.post("go")
        await heard.kind(OutputTextDeltaEvent)
        session = await other.manager.get(place.session_id)
        waiting = asyncio.create_task(SessionsChat.bind(other.manager, session).await_turn(timeout=None))
        live = await other.manager.live(place.session_id)
        while not live.bus.listeners:
            await asyncio.sleep(0)
        gate.set()
        assert (await waiting).text == "one two"
