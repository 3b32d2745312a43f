"""Section 1.7 of the contract under fire: calls that are stopped, heard of twice, or left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.sessions.agents import Agent
from app.sessions.chat import SessionsChat, SessionToolCallInfo
from app.sessions.events import (
    ClientTaskCancelEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    Response,
    ResponseCancelledEvent,
    ResponseCompletedEvent,
    SessionEvent,
    SessionHeartbeatEvent,
    SessionInterruptedEvent,
)
from app.sessions.hooks import StreamHooks
from app.sessions.items import FunctionCall, FunctionCallOutput
from app.sessions.snapshot import Ack, SessionSnapshot
from app.sessions.store.store import Store
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening

CLIENT = Agent("clerk", tools=({"name": "lookup", "runtime": "client"}, {"name": "echo"}))


@dataclass
class Lookup:
    """A client tool that waits until it may answer."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    runs: list[str] = field(default_factory=list[str])
    cancelled: int = 0

    async def __call__(self, info: SessionToolCallInfo) -> str:
        self.runs.append(info.call_id)
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "found"


async def clerk(place: Room, tool: Any, **options: Any) -> SessionsChat:
    return await place.manager.sessions_chat(agent=CLIENT, tool_callables={"lookup": tool}, **options)


# ---- stopped -------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
async def test_a_cancelled_query_ends_cancelled_and_stops_its_tool(room: MakeRoom, strict: bool) -> None:
    place = await room([call("lookup")], ["never"])
    lookup, ends, results = Lookup(), list[str](), list[Any]()
    hooks = StreamHooks(
        on_response_end=lambda context: ends.append(context.status),
        on_tool_call_end=results.append,
    )
    chat = await clerk(place, lookup, hooks=hooks, strict_tools=strict)
    asked = asyncio.create_task(chat.query("go"))
    await lookup.begun.wait()
    await chat.cancel()
    result = await asked
    assert (result.text, result.finish_reason) == ("", "cancelled")
    assert ends == ["cancelled"] and lookup.cancelled == 1
    assert [(end.name, end.call_id) for end in results] == [("lookup", "c1")]
    assert results[0].output.startswith("Cancelled")
    assert (await chat.refresh()).status == "idle"


async def test_a_sync_tool_does_not_hold_up_the_cancellation(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["next"])
    begun, may_end = threading.Event(), threading.Event()

    def lookup(info: SessionToolCallInfo) -> str:
        begun.set()
        may_end.wait(8)
        return "late"

    chat = await clerk(place, lookup)
    asked = asyncio.create_task(chat.query("go"))
    await asyncio.to_thread(begun.wait, 8)
    await chat.cancel()
    assert (await asked).finish_reason == "cancelled"
    may_end.set()
    assert (await chat.query("and now?")).text == "next"


async def test_a_tool_that_ends_in_the_moment_of_the_cancellation_harms_nobody(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["next"])
    held: list[SessionsChat] = []

    async def lookup(info: SessionToolCallInfo) -> str:
        # The order to stop is given, and the result is there before it arrives.
        await held[0].cancel()
        return "late"

    held.append(await clerk(place, lookup))
    assert (await held[0].query("go")).finish_reason == "cancelled"
    assert (await held[0].query("and now?")).text == "next"


async def test_a_tool_that_will_not_be_stopped_has_its_result_dropped(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["next"])
    begun = asyncio.Event()

    async def lookup(info: SessionToolCallInfo) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "I go on"
        return ""

    chat = await clerk(place, lookup)
    asked = asyncio.create_task(chat.query("go"))
    await begun.wait()
    await chat.cancel()
    assert (await asked).finish_reason == "cancelled"
    outputs = [
        item.output
        for item in await place.manager.list_items(chat.session_id)
        if isinstance(item, FunctionCallOutput)
    ]
    assert len(outputs) == 1 and outputs[0].startswith("Cancelled")


async def test_one_of_two_calls_is_answered_before_the_cancellation(room: MakeRoom) -> None:
    place = await room([call("lookup"), call("lookup", "c2")], ["never"])
    second = asyncio.Event()

    async def lookup(info: SessionToolCallInfo) -> str:
        if info.call_id == "c2":
            second.set()
            await asyncio.Event().wait()
        return "first"

    ends: list[tuple[str, str]] = []
    hooks = StreamHooks(on_tool_call_end=lambda end: ends.append((end.call_id, end.output[:9])))
    chat = await clerk(place, lookup, hooks=hooks)
    asked = asyncio.create_task(chat.query("go"))
    async with listening(place.manager, chat.session_id) as heard:
        await second.wait()
        await heard.until(
            lambda event: (
                isinstance(event, OutputItemDoneEvent) and isinstance(event.item, FunctionCallOutput)
            )
        )
        await chat.cancel()
        await asked
    assert ends == [("c1", "first"), ("c2", "Cancelled")]


async def test_a_stream_goes_on_after_its_tool_was_cancelled(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["later"])
    lookup = Lookup()
    chat = await clerk(place, lookup)
    kinds: list[type[SessionEvent]] = []
    async with aclosing(chat.stream()) as events:
        async for event in events:
            match event:
                case SessionHeartbeatEvent():
                    await chat.post_event({"type": "message", "data": {"content": "go"}})
                case OutputItemDoneEvent(item=FunctionCall(status="action_required")):
                    asyncio.get_running_loop().call_soon(asyncio.ensure_future, cancel_once(chat, lookup))
                case ResponseCancelledEvent() | ResponseCompletedEvent():
                    kinds.append(type(event))
                    if len(kinds) == 2:
                        break
                    await chat.post_event({"type": "message", "data": {"content": "again"}})
                case ClientTaskCancelEvent() | SessionInterruptedEvent():
                    pass
                case _:
                    pass
    assert kinds == [ResponseCancelledEvent, ResponseCompletedEvent] and lookup.cancelled == 1


async def cancel_once(chat: SessionsChat, lookup: Lookup) -> None:
    await lookup.begun.wait()
    await chat.cancel()


# ---- left behind ---------------------------------------------------------------------------


async def test_a_query_that_times_out_leaves_no_call_waiting(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["went on"], ["next"])
    lookup = Lookup()
    chat = await clerk(place, lookup)
    asked = asyncio.create_task(chat.query("go"))
    await lookup.begun.wait()
    async with listening(place.manager, chat.session_id) as heard:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await heard.kind(ResponseCompletedEvent)
    assert lookup.cancelled == 1
    assert (await chat.query("and now?")).text == "next"


async def test_a_tool_that_gives_up_by_itself_is_an_error_for_the_model(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["oh"])

    async def lookup(info: SessionToolCallInfo) -> str:
        raise asyncio.CancelledError

    chat = await clerk(place, lookup)
    assert (await chat.query("go")).text == "oh"
    assert place.sent[1][-1]["content"].startswith("error:")


# ---- once ----------------------------------------------------------------------------------


async def drained(events: AsyncGenerator[SessionEvent]) -> None:
    async for _ in events:
        pass


@pytest.mark.parametrize("streams", [1, 3])
async def test_a_call_runs_once_for_all_subscriptions_of_a_chat(room: MakeRoom, streams: int) -> None:
    place = await room([call("lookup")], ["done"])
    lookup = Lookup()
    lookup.may_end.set()
    chat = await clerk(place, lookup)
    tasks = [asyncio.create_task(drained(chat.stream())) for _ in range(streams)]
    live = await place.manager.live(chat.session_id)
    while live.bus.listeners < streams:
        await asyncio.sleep(0)
    assert (await chat.query("go")).text == "done"
    assert lookup.runs == ["c1"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_call_runs_once_for_two_helpers_of_one_session(room: MakeRoom) -> None:
    place = await room([call("lookup"), call("lookup", "c2")], ["done"])
    lookup = Lookup()
    lookup.may_end.set()
    chat = await clerk(place, lookup)
    other = SessionsChat.bind(place.manager, chat.session, tool_callables={"lookup": lookup})
    following = asyncio.create_task(drained(other.stream()))
    live = await place.manager.live(chat.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    assert (await chat.query("go")).text == "done"
    assert sorted(lookup.runs) == ["c1", "c2"]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_helper_without_tools_leaves_the_call_to_one_that_has_it(room: MakeRoom) -> None:
    place = await room([call("lookup")], ["done"])
    lookup = Lookup()
    lookup.may_end.set()
    chat = await clerk(place, lookup)
    looking_on = SessionsChat(place.manager, None, None, chat.session)
    following = asyncio.create_task(drained(looking_on.stream()))
    live = await place.manager.live(chat.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    assert (await chat.query("go")).text == "done"
    assert lookup.runs == ["c1"] and place.sent[1][-1]["content"] == "found"
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_replies_side_by_side_have_calls_of_their_own(room: MakeRoom) -> None:
    place = await room(["one"], [call("lookup")], [call("lookup")], ["a"], ["b"])
    lookup = Lookup()
    chat = await clerk(place, lookup)
    first = await chat.query("go")
    assert first.response_id
    following = asyncio.create_task(drained(chat.stream()))
    live = await place.manager.live(chat.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    async with listening(place.manager, chat.session_id) as heard:
        await place.manager.retry(first.response_id, n=2)
        while len(lookup.runs) < 2:
            await asyncio.sleep(0)
        lookup.may_end.set()
        await heard.kind(ResponseCompletedEvent, count=2)
    assert len(set(lookup.runs)) == 2
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_another_process_that_follows_a_chat_runs_none_of_its_calls(
    room: MakeRoom, tmp_path: Path
) -> None:
    path = tmp_path / "shared.db"
    place = await room([call("lookup")], ["done"], store=Store(path))
    other = await room(store=Store(path))
    lookup, foreign = Lookup(), Lookup()
    chat = await clerk(place, lookup)
    session = await other.manager.get(chat.session_id)
    reader = SessionsChat.bind(other.manager, session, tool_callables={"lookup": foreign})
    seen = asyncio.Event()

    async def read() -> None:
        async for event in reader.stream():
            if isinstance(event, OutputItemDoneEvent) and isinstance(event.item, FunctionCall):
                seen.set()

    following = asyncio.create_task(read())
    asked = asyncio.create_task(chat.query("go"))
    await seen.wait()
    lookup.may_end.set()
    assert (await asked).text == "done"
    assert lookup.runs == ["c1"] and foreign.runs == []
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_question_is_asked_once_for_all_subscriptions_of_a_chat(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    place = await room([call()], ["ok"], tools=[tool])
    asked: list[Any] = []

    def decide(context: Any) -> bool:
        asked.append(context)
        return True

    chat = SessionsChat.bind(
        place.manager,
        await place.manager.get(place.session_id),
        hooks=StreamHooks(on_elicitation_request=decide),
    )
    following = asyncio.create_task(drained(chat.stream()))
    live = await place.manager.live(chat.session_id)
    while not live.bus.listeners:
        await asyncio.sleep(0)
    await chat.query("go")
    assert len(asked) == 1 and len(tool.calls) == 1
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


# ---- a namespace of somebody else -----------------------------------------------------------


@dataclass(eq=False)
class Scripted:
    """A namespace that plays fixed events, and keeps what was posted."""

    events: list[SessionEvent]
    posted: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ready: bool = True

    async def get(self, session_id: str) -> SessionSnapshot:
        return SessionSnapshot(session_id, "ag", "running", 0)

    async def post_event(self, session_id: str, event: Mapping[str, Any]) -> Ack:
        self.posted.append(dict(event))
        return Ack(True)

    async def resolve_elicitation(self, session_id: str, elicitation_id: str, result: Any) -> None:
        self.posted.append({"resolved": elicitation_id})

    async def subtree_busy(self, session_id: str, *, max_depth: int = 3) -> bool:
        return False

    async def stream(self, session_id: str) -> AsyncGenerator[SessionEvent]:
        if self.ready:
            yield SessionHeartbeatEvent()
        while not self.posted:
            await asyncio.sleep(0)
        for event in self.events:
            yield event


def action(arguments: str = "{}", name: str = "lookup") -> OutputItemDoneEvent:
    item = FunctionCall(name=name, call_id="c1", arguments=arguments, status="action_required")
    return OutputItemDoneEvent(item=item)


END = ResponseCompletedEvent(response=Response(id="r1", model="m", status="completed"))


async def asked_of(events: list[SessionEvent], tool: Any, **options: Any) -> tuple[Any, Scripted]:
    place = Scripted(events, ready=options.pop("ready", True))

    def tools(agent_id: str, session_id: str) -> list[dict[str, Any]]:
        return [{"name": "lookup", "runtime": "client"}]

    chat = SessionsChat(
        place, None, None, SessionSnapshot("s", "ag", "idle", 0), {"lookup": tool}, tools, **options
    )
    return await chat.query("hi"), place


@pytest.mark.parametrize("arguments", ["not json", "[1]", ""])
async def test_arguments_that_are_no_object_are_empty(arguments: str) -> None:
    seen: list[SessionToolCallInfo] = []
    _, place = await asked_of([action(arguments), END], lambda info: seen.append(info) or "x")
    assert [info.arguments for info in seen] == [{}]
    assert place.posted[1]["data"] == {"call_id": "c1", "output": "x"}


@pytest.mark.parametrize(("arguments", "error"), [("not json", ValueError), ("[1]", TypeError)])
async def test_arguments_that_are_no_object_raise_where_tools_are_strict(
    arguments: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await asked_of([action(arguments), END], lambda info: "x", strict_tools=True)


async def test_a_tool_nobody_has_raises_where_tools_are_strict() -> None:
    with pytest.raises(ValueError, match="other"):
        await asked_of([action(name="other"), END], lambda info: "x", strict_tools=True)
    _, place = await asked_of([action(name="other"), END], lambda info: "x")
    assert place.posted[1]["data"]["output"].startswith("error: ValueError")


async def test_a_call_that_is_told_twice_runs_once() -> None:
    runs: list[str] = []
    await asked_of([action(), action(), END], lambda info: runs.append(info.call_id) or "x")
    assert runs == ["c1"]


async def test_a_stream_that_does_not_say_it_is_ready_is_posted_to_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.sessions.followed.READY_S", 0.01)
    result, place = await asked_of([END], lambda info: "x", ready=False)
    assert place.posted[0]["type"] == "message" and result.response_id == "r1"


@pytest.mark.parametrize("ended", [True, False])
async def test_a_result_is_posted_before_the_turn_is_said_to_have_ended(ended: bool) -> None:
    async def lookup(info: SessionToolCallInfo) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "found"

    events: list[SessionEvent] = [action(), OutputTextDeltaEvent(delta="x"), *([END] if ended else [])]
    result, place = await asked_of(events, lookup)
    assert place.posted[1]["data"] == {"call_id": "c1", "output": "found"}
    assert result.text == "x"


async def test_a_caller_that_cancels_at_the_call_never_runs_it(room: MakeRoom) -> None:
    place = await room([call("lookup"), call("lookup", "c2")], ["never"])
    lookup = Lookup()
    chat = await clerk(place, lookup)
    async for event in chat.send("go"):
        if isinstance(event, OutputItemDoneEvent) and event.item.status == "action_required":
            await chat.cancel()
    assert isinstance(event, ResponseCancelledEvent) and lookup.runs == []
