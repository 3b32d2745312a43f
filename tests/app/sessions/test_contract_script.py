"""A script as somebody writes it who has read the contract and nothing else: only public names, its tables,
its fields, its hooks."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import NoneType
from typing import Any, get_type_hints

import pytest

import fireside
from fireside import (
    Agent,
    CancelledEvent,
    CompletedEvent,
    CreatedEvent,
    ElicitationRequestEvent,
    FiresideError,
    InProgressEvent,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    QueryResult,
    ScriptedEngine,
    ServerStreamEvent,
    SessionInputConsumedEvent,
    SessionManager,
    SessionsChat,
    SessionStatusEvent,
    SessionToolCallInfo,
    StreamHooks,
    ToolCall,
    ToolContext,
    tool,
)

NAMES = """
SessionManager SessionsChat SessionToolCallInfo ToolCallable StreamHooks QueryResult QueryStream Agent
tool ToolContext FiresideError InvalidInputError ConflictError ServerError GenerationConfig ToolCall File
Session ServerStreamEvent CreatedEvent QueuedEvent InProgressEvent CompletedEvent FailedEvent
IncompleteEvent CancelledEvent OutputTextDeltaEvent OutputItemDoneEvent OutputFileDoneEvent
ReasoningStartedEvent ReasoningTextDeltaEvent ReasoningSummaryTextDeltaEvent ElicitationRequestEvent
ElicitationResolvedEvent SessionStatusEvent SessionCreatedEvent SessionChildSessionUpdatedEvent
SessionHeartbeatEvent SessionUsageEvent SessionModelEvent SessionTitleEvent SessionInputConsumedEvent
SessionInterruptedEvent SessionReasoningEffortEvent FunctionCallOutputDeltaEvent
CompactionInProgressEvent CompactionCompletedEvent CompactionFailedEvent PolicyDeniedEvent
ClientTaskCancelEvent ResponseStartCtx ResponseEndCtx ReasoningStartCtx ReasoningEndCtx MessageStartCtx
MessageEndCtx ToolCallStartCtx ToolCallEndCtx FileOutputCtx ElicitationRequestCtx RetryCtx ServerErrorCtx
TransportErrorCtx NativeToolCallCtx ToolResultsReadyCtx ToolResultInfo CompactionStartCtx
CompactionEndCtx SubAgentSpawnedCtx SubAgentInfo SubAgentCompletedCtx
""".split()

SLOTS = """
on_response_start on_response_end on_reasoning_start on_reasoning_end on_message_start on_message_end
on_tool_call_start on_tool_call_end on_file_output on_elicitation_request on_native_tool_call
on_tool_results_ready on_compaction_start on_compaction_end on_retry on_server_error on_transport_error
on_sub_agent_spawned on_sub_agent_completed
""".split()


@tool(does="write")
def draw(context: ToolContext, what: str) -> str:
    """Draw something.

    Args:
        what: What is in the picture.
    """
    context.add_file(f"{what}.svg", "<svg/>")
    return f"drew {what}"


def lookup_agent() -> bytes:
    config = (
        b"name: archer\ninstructions: Aim.\ntools:\n"
        b"  - name: lookup\n    runtime: client\n    description: Look a word up.\n"
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("config.yaml")
        member.size = len(config)
        archive.addfile(member, io.BytesIO(config))
    return packed.getvalue()


def calls(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("call_1", name, arguments)


@asynccontextmanager
async def managing(*scripts: Any, folder: Path, **options: Any) -> AsyncIterator[SessionManager]:
    async with SessionManager(
        engine=ScriptedEngine(scripts), store=folder / "chats.db", **options
    ) as manager:
        yield manager


# ---- names, signatures ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported(name: str) -> None:
    assert name in fireside.__all__ and getattr(fireside, name)


def test_every_hook_has_a_slot_and_all_are_optional() -> None:
    assert all(getattr(StreamHooks(), slot) is None for slot in SLOTS)


def test_the_helper_takes_what_the_table_says_in_its_order() -> None:
    given = list(inspect.signature(SessionsChat).parameters)
    assert given[:7] == (
        "namespace files_uploader files_getter session tool_callables agent_tools_getter hooks".split()
    )
    created = inspect.signature(SessionsChat.create).parameters
    keywords = {name for name, one in created.items() if one.kind is one.KEYWORD_ONLY}
    assert list(created)[:2] == ["namespace", "bundle"]
    assert keywords >= set(
        "filename files_uploader files_getter files_namespace tool_callables agent_tools_getter hooks".split()
    )
    assert created["filename"].default == "agent.tar.gz"
    assert inspect.isasyncgenfunction(SessionsChat.send) and inspect.isasyncgenfunction(SessionsChat.stream)
    assert inspect.signature(SessionsChat.await_turn).parameters["timeout"].default == 1200.0
    assert inspect.signature(SessionsChat.tree_busy).parameters["max_depth"].default == 3


@pytest.mark.parametrize(
    ("name", "status"), [("InvalidInputError", 400), ("ConflictError", 409), ("ServerError", 500)]
)
def test_errors_are_one_family(name: str, status: int) -> None:
    error = getattr(fireside, name)("what happened")
    assert isinstance(error, FiresideError) and error.status_code == status
    base = FiresideError("gone", status_code=404, code="not_found")
    assert (str(base), base.status_code, base.code) == ("gone", 404, "not_found")


# ---- the first example: send, cancel, query --------------------------------------------------


async def test_send_yields_typed_events_and_query_the_text(tmp_path: Path) -> None:
    async with managing(["hel", "lo"], ["short"], folder=tmp_path) as manager:
        chat = await manager.sessions_chat()
        seen: list[str] = []
        async for event in chat.send("hello"):
            assert isinstance(event, ServerStreamEvent) and isinstance(event.type, str)
            if isinstance(event, OutputTextDeltaEvent):
                seen.append(event.delta)
        assert isinstance(event, CompletedEvent) and "".join(seen) == "hello"
        await chat.cancel()
        result = await chat.query("summarize")
        assert isinstance(result, QueryResult) and (result.text, result.files) == ("short", [])
        with pytest.raises(FrozenInstanceError):
            result.text = ""  # type: ignore[misc]
        assert chat.session_id and chat.agent_id and chat.status == "idle"


async def test_a_query_is_streamed(tmp_path: Path) -> None:
    async with managing(["a", "b"], folder=tmp_path) as manager:
        stream = await (await manager.sessions_chat()).query("hello", stream=True)
        assert [chunk async for chunk in stream] == ["a", "b"]
        assert stream.files == [] and stream.files is not stream.files
        with pytest.raises(RuntimeError):
            async for _ in stream:
                pass


async def test_the_response_has_the_fields_of_the_table(tmp_path: Path) -> None:
    async with managing(["one"], ["two"], folder=tmp_path) as manager:
        agent = Agent("archer", instructions="Aim.")
        chat = await manager.sessions_chat(agent=agent)
        first = await chat.query("hi")
        events = [event async for event in chat.send("again")]
        created = next(event for event in events if isinstance(event, CreatedEvent))
        assert any(isinstance(event, InProgressEvent) for event in events)
        end = events[-1]
        assert isinstance(end, CompletedEvent)
        response = end.response
        assert (created.response.id, created.response.status) == (response.id, "in_progress")
        assert (response.status, response.model, response.instructions) == ("completed", "archer", "Aim.")
        assert isinstance(response.created_at, int) and isinstance(response.completed_at, int)
        assert response.previous_response_id == first.response_id
        assert (response.error, response.incomplete_details, response.background) == (None, None, False)
        assert isinstance(response.output, list) and response.output[-1]["type"] == "message"
        usage = response.usage
        assert usage is not None and usage.total_tokens == usage.input_tokens + usage.output_tokens
        assert usage["context_tokens"] == usage.context_tokens
        wire = end.to_wire()
        assert wire["type"] == "response.completed" and json.loads(json.dumps(wire)) == wire


async def test_the_events_of_a_turn_come_in_the_order_of_the_rules(tmp_path: Path) -> None:
    async with managing([calls("draw", what="cat")], ["done"], folder=tmp_path, tools=[draw]) as manager:
        chat = await manager.sessions_chat(hooks=StreamHooks(on_elicitation_request=lambda ctx: True))
        events = [event async for event in chat.send("draw a cat")]
    types = [event.type for event in events]
    order = (
        "session.heartbeat session.status response.created response.output_item.done "
        "response.elicitation_request response.elicitation_resolved response.output_file.done "
        "response.output_text.delta response.completed"
    ).split()
    assert [types.index(name) for name in order] == sorted(types.index(name) for name in order)
    consumed = next(event for event in events if isinstance(event, SessionInputConsumedEvent))
    assert consumed.data.item_id == consumed.item_id == consumed.data["item_id"]
    assert consumed.data.type == "message" and consumed.data.data["content"][0]["text"] == "draw a cat"
    assert set(consumed.to_wire()["data"]) >= {"item_id", "type", "data"}
    running = next(event for event in events if isinstance(event, SessionStatusEvent))
    assert (running.status, running.conversation_id, running.error) == ("running", chat.session_id, None)
    numbers = [event.sequence_number for event in events if event.sequence_number is not None]
    assert numbers == sorted(set(numbers))


async def test_an_item_is_the_flat_object_of_the_table(tmp_path: Path) -> None:
    async with managing([calls("draw", what="cat")], ["done"], folder=tmp_path, tools=[draw]) as manager:
        chat = await manager.sessions_chat(hooks=StreamHooks(on_elicitation_request=lambda ctx: True))
        items = [event.item async for event in chat.send("go") if isinstance(event, OutputItemDoneEvent)]
        snapshot = await chat.refresh()
    for item in items:
        assert isinstance(item, dict) and item
        assert isinstance(item["id"], str) and isinstance(item["created_at"], int)
        assert isinstance(item["response_id"], str) and item["model"] == "fireside"
        assert json.loads(json.dumps(item)) == item.to_wire()
    asked = next(item for item in items if item.get("type") == "function_call")
    assert (asked["name"], asked["call_id"], asked["status"]) == ("draw", "call_1", "in_progress")
    assert json.loads(asked["arguments"]) == {"what": "cat"}
    returned = next(item for item in items if item["type"] == "function_call_output")
    assert (returned["call_id"], returned["output"]) == ("call_1", "drew cat")
    spoken = items[-1]
    assert (spoken["type"], spoken["role"], spoken["agent"]) == ("message", "assistant", "fireside")
    assert spoken["content"] == [{"type": "output_text", "text": "done", "annotations": []}]
    assert isinstance(snapshot.items, list)
    assert [item["type"] for item in snapshot.items][:2] == ["message", "function_call"]
    assert snapshot.items[0]["content"] == [{"type": "input_text", "text": "go"}]


async def test_a_failed_turn_has_an_error_with_code_and_message(tmp_path: Path) -> None:
    engine = ScriptedEngine([[fireside.EngineError("boom")]])
    async with SessionManager(engine=engine, store=tmp_path / "x.db") as manager:
        chat = await manager.sessions_chat()
        last: Any = None
        with pytest.raises(FiresideError, match="boom") as raised:
            async for event in chat.send("hi"):
                last = event
        assert isinstance(last, SessionStatusEvent) and last.status == "failed"
        assert last.error is not None
        assert (last.error.message, last.error["code"]) == ("boom", raised.value.code)
        assert last.error.title is None and last.error.cause is None
        snapshot = await chat.refresh()
        assert snapshot.status == "failed" and snapshot.last_task_error.message == "boom"


# ---- the session --------------------------------------------------------------------------------


SNAPSHOT: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "agent_id": (str,),
    "agent_name": (str,),
    "status": (str,),
    "created_at": (int,),
    "updated_at": (int,),
    "title": (str, NoneType),
    "labels": (dict,),
    "reasoning_effort": (str, NoneType),
    "items": (list,),
    "llm_model": (str, NoneType),
    "model_override": (str, NoneType),
    "context_window": (int, NoneType),
    "last_total_tokens": (int, NoneType),
    "last_task_error": (dict, NoneType),
    "archived": (bool,),
}


async def test_the_snapshot_is_frozen_and_has_the_fields_of_the_table(tmp_path: Path) -> None:
    async with managing(["a"], folder=tmp_path) as manager:
        session = await manager.create(title="Tea", labels={"kind": "drink"}, reasoning_effort="low")
        for name, kinds in SNAPSHOT.items():
            assert isinstance(getattr(session, name), kinds), name
        assert isinstance(session, fireside.Session)
        with pytest.raises(FrozenInstanceError):
            session.title = "Coffee"  # type: ignore[misc]
        again = fireside.Session.from_dict(json.loads(json.dumps(session.to_wire())))
        assert again == session
        for missing in ("id", "agent_id", "status", "created_at"):
            with pytest.raises(KeyError):
                fireside.Session.from_dict({k: v for k, v in session.to_wire().items() if k != missing})
        listed = await manager.list(limit=20)
        assert [one.id for one in listed] == [session.id] and listed[0].pending_elicitations_count == 0


async def test_an_ack_tells_what_was_queued(tmp_path: Path) -> None:
    async with managing(["a"], folder=tmp_path) as manager:
        session = await manager.create()
        ack = await manager.post_event(session.id, {"type": "interrupt", "data": {}})
        assert ack.queued is False and ack["queued"] is False
        message = {
            "type": "message",
            "data": {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        }
        ack = await manager.post_event(session.id, message)
        assert ack.queued and ack["item_id"] == ack.item_id
        chat = SessionsChat.bind(manager, session)
        assert (await chat.await_turn()).text == "a"
        with pytest.raises(FiresideError) as refused:
            await chat.post_event({"type": "nonsense", "data": {}})
        assert refused.value.status_code == 400


# ---- client tools and bundles ---------------------------------------------------------------


async def test_a_bundle_with_a_client_tool(tmp_path: Path) -> None:
    seen: list[SessionToolCallInfo] = []

    async def lookup(info: SessionToolCallInfo) -> str:
        seen.append(info)
        return json.dumps({"found": info.arguments["word"]})

    async with managing([calls("lookup", word="ember")], ["a coal"], folder=tmp_path) as manager:
        chat = await manager.sessions_chat(
            lookup_agent(), filename="archer.tar.gz", tool_callables={"lookup": lookup}
        )
        events = [event async for event in chat.send("what is an ember?")]
    asked = [event.item for event in events if isinstance(event, OutputItemDoneEvent)]
    statuses = [item["status"] for item in asked if item["type"] == "function_call"]
    assert statuses == ["action_required", "completed"]
    assert (seen[0].name, seen[0].arguments, seen[0].call_id) == ("lookup", {"word": "ember"}, "call_1")
    assert seen[0].item_id == asked[0]["id"]


async def test_a_bad_bundle_is_named_as_it_was_given(tmp_path: Path) -> None:
    async with managing(folder=tmp_path) as manager:
        with pytest.raises(FiresideError, match=r"archer\.tar\.gz") as refused:
            await manager.sessions_chat(b"no archive", filename="archer.tar.gz")
        assert refused.value.status_code == 400


async def test_strict_tools_are_a_choice_wherever_a_helper_is_made(tmp_path: Path) -> None:
    def lookup(info: SessionToolCallInfo) -> Any:
        return 42

    tools = {"lookup": lookup}
    scripts = [[calls("lookup")]] * 3
    async with managing(*scripts, folder=tmp_path) as manager:
        one = await manager.sessions_chat(lookup_agent(), tool_callables=tools, strict_tools=True)
        two = SessionsChat.bind(
            manager, await manager.create(lookup_agent()), tool_callables=tools, strict_tools=True
        )
        three = await SessionsChat.create(
            manager,
            lookup_agent(),
            tool_callables=tools,
            agent_tools_getter=manager.agent_tools,
            strict_tools=True,
        )
        for chat in (one, two, three):
            with pytest.raises(TypeError):
                await chat.query("go")
            await chat.cancel()


# ---- files ------------------------------------------------------------------------------------


class Uploads:
    """A files namespace of somebody else, as the contract describes one."""

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id
        self.uploaded: list[str] = []
        self.bound: list[Uploads] = []

    def for_session(self, session_id: str) -> Uploads:
        self.bound.append(Uploads(session_id))
        return self.bound[-1]

    async def upload(self, path: str) -> fireside.File:
        self.uploaded.append(path)
        return fireside.File(id=f"file_{len(self.uploaded)}", filename=Path(path).name, bytes=1, created_at=0)

    async def get(self, file_id: str) -> fireside.File:
        return fireside.File(id=file_id, filename="made.txt", bytes=2, created_at=0)


class Played:
    """A sessions namespace of somebody else: plays fixed events after the first post."""

    def __init__(self, events: list[ServerStreamEvent]) -> None:
        self.events = events
        self.posted: list[dict[str, Any]] = []
        self.created: list[tuple[bytes, str]] = []

    async def create(self, bundle: bytes, *, filename: str) -> Any:
        self.created.append((bundle, filename))
        return await self.get("conv_1")

    async def get(self, session_id: str) -> Any:
        return fireside.Session(id=session_id, agent_id="ag_1", status="idle", created_at=0)

    async def post_event(self, session_id: str, event: Mapping[str, Any]) -> dict[str, Any]:
        self.posted.append(dict(event))
        return {"queued": True}

    async def stream(self, session_id: str) -> AsyncGenerator[ServerStreamEvent]:
        yield fireside.SessionHeartbeatEvent()
        while not self.posted:
            await asyncio.sleep(0)
        for event in self.events:
            yield event

    async def subtree_busy(self, session_id: str, *, max_depth: int = 3) -> bool:
        return False

    async def resolve_elicitation(self, session_id: str, elicitation_id: str, result: Any) -> None:
        self.posted.append({"session": session_id, "id": elicitation_id, **result})


def ended(status: str = "completed") -> ServerStreamEvent:
    kind = CompletedEvent if status == "completed" else CancelledEvent
    return kind(response=fireside.Response(id="resp_1", model="archer", status=status))


async def test_files_go_through_the_namespace_of_the_new_session() -> None:
    place = Played([OutputFileDoneEvent(file_id="file_9"), ended()])
    files, unused = Uploads(), Uploads()
    chat = await SessionsChat.create(
        namespace=place,
        bundle=b"x",
        filename="archer.tar.gz",
        files_namespace=files,
        files_uploader=unused.upload,
        files_getter=unused.get,
    )
    assert place.created == [(b"x", "archer.tar.gz")]
    result = await chat.query("look", files=["./shots/a.png", "/tmp/report.pdf", "noext"])
    assert [one.session_id for one in files.bound] == ["conv_1"] and unused.uploaded == []
    assert files.bound[0].uploaded == ["./shots/a.png", "/tmp/report.pdf", "noext"]
    assert place.posted[0]["data"]["content"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_file", "file_id": "file_2", "filename": "report.pdf"},
        {"type": "input_file", "file_id": "file_3", "filename": "noext"},
    ]
    made = result.files[0]
    assert (made.id, made.filename, made.bytes, made.created_at) == ("file_9", "made.txt", 2, 0)
    assert made["filename"] == "made.txt"


async def test_a_single_uploader_and_getter_do_as_well() -> None:
    place, files = Played([OutputFileDoneEvent(file_id="file_9"), ended()]), Uploads()
    chat = SessionsChat(place, files.upload, files.get, await place.get("conv_1"))
    assert [one.id for one in (await chat.query("", files=["a.txt"])).files] == ["file_9"]
    assert [block["type"] for block in place.posted[0]["data"]["content"]] == ["input_file"]
    without = SessionsChat(
        Played([OutputFileDoneEvent(file_id="f"), ended()]), None, None, await place.get("s")
    )
    with pytest.raises(RuntimeError, match="getter"):
        await without.query("x")
    with pytest.raises(RuntimeError, match="uploader"):
        await without.query("x", files=["a.txt"])


async def test_the_managers_files_are_narrowed_to_a_session(tmp_path: Path) -> None:
    async with managing(folder=tmp_path) as manager:
        session, other = await manager.create(), await manager.create()
        files = manager.files.for_session(session.id)
        (tmp_path / "a.txt").write_text("words")
        kept = await files.upload(str(tmp_path / "a.txt"))
        assert isinstance(kept, fireside.File) and isinstance(kept.created_at, int)
        assert (kept.filename, kept.bytes) == ("a.txt", 5) and kept == await files.get(kept.id)
        assert [one.id for one in await files.list()] == [kept.id]
        assert await files.get_content(kept.id) == b"words"
        target = await files.download(kept.id, tmp_path / "deep" / "er" / "b.txt")
        assert target.read_text() == "words"
        with pytest.raises(FiresideError) as foreign:
            await manager.files.for_session(other.id).get(kept.id)
        assert foreign.value.status_code == 404
        await files.delete(kept.id)
        assert await files.list() == []


async def test_pages_of_files_go_on_after_a_file(tmp_path: Path) -> None:
    async with managing(folder=tmp_path) as manager:
        session = await manager.create()
        files = manager.files.for_session(session.id)
        for number in range(3):
            await manager.files.add(session.id, f"{number}.txt", b"x")
        whole = [one.id for one in await files.list(order="asc")]
        assert [one.id for one in await files.list()] == whole[::-1]
        assert [one.id for one in await files.list(limit=1, after=whole[0], order="asc")] == [whole[1]]
        with pytest.raises(FiresideError):
            await files.list(after="file_gone")


# ---- hooks -------------------------------------------------------------------------------------


CONTEXTS: dict[str, dict[str, type]] = {
    "on_response_start": {"response": fireside.Response},
    "on_response_end": {"response": fireside.Response, "status": str},
    "on_reasoning_start": {},
    "on_reasoning_end": {"reasoning_text": str, "summary_text": str},
    "on_message_start": {"response_id": str},
    "on_message_end": {"content": list},
    "on_tool_call_start": {
        "name": str,
        "arguments": dict,
        "call_id": str,
        "agent_name": str,
        "executed_by": str,
    },
    "on_tool_call_end": {"name": str, "call_id": str, "agent_name": str, "output": str},
    "on_file_output": {"file_id": str, "filename": str, "content_type": str},
    "on_elicitation_request": {
        "elicitation_id": str,
        "message": str,
        "requested_schema": dict,
        "mode": str,
        "phase": str,
        "policy_name": str,
        "content_preview": str,
        "response_id": str,
        "url": NoneType,
        "target_session_id": NoneType,
    },
}


async def test_every_hook_is_fired_with_the_context_of_the_table_in_the_canonical_order(
    tmp_path: Path,
) -> None:
    fired: list[tuple[str, Any]] = []

    def note(slot: str) -> Any:
        def sync(context: Any) -> bool:
            fired.append((slot, context))
            return True

        async def later(context: Any) -> bool:
            return sync(context)

        return later if slot.endswith("start") else sync

    hooks = StreamHooks(**{slot: note(slot) for slot in CONTEXTS})
    script = [fireside.ReasoningPiece("hm"), "text ", calls("draw", what="cat")]
    async with managing(script, ["done"], folder=tmp_path, tools=[draw]) as manager:
        chat = await manager.sessions_chat(hooks=hooks)
        result = await chat.query("draw")
    assert [file.filename for file in result.files] == ["cat.svg"]
    assert [slot for slot, _ in fired] == [
        "on_response_start",
        "on_reasoning_start",
        "on_reasoning_end",
        "on_message_start",
        "on_message_end",
        "on_tool_call_start",
        "on_elicitation_request",
        "on_file_output",
        "on_tool_call_end",
        "on_message_start",
        "on_message_end",
        "on_response_end",
    ]
    for slot, context in fired:
        for name, kind in CONTEXTS[slot].items():
            assert isinstance(getattr(context, name), kind), (slot, name)
    by_slot = dict(fired)
    start, end = by_slot["on_tool_call_start"], by_slot["on_tool_call_end"]
    assert (start.name, start.arguments, start.executed_by) == ("draw", {"what": "cat"}, "server")
    assert (end.name, end.call_id, end.agent_name, end.output) == ("draw", "call_1", "fireside", "drew cat")
    asked = by_slot["on_elicitation_request"]
    assert (asked.mode, asked.phase, asked.requested_schema) == ("form", "tool_call", {})
    assert asked.message and asked.policy_name and "cat" in asked.content_preview
    assert asked.response_id == by_slot["on_response_start"].response.id
    assert by_slot["on_reasoning_end"].reasoning_text == "hm"
    assert by_slot["on_message_end"].content[0]["text"] == "done"
    assert by_slot["on_response_end"].status == "completed"


def test_contexts_can_be_made_by_hand_with_the_fields_of_the_table() -> None:
    context = fireside.ElicitationRequestCtx(
        elicitation_id="e",
        message="m",
        requested_schema={},
        mode="form",
        phase="",
        policy_name="",
        content_preview="",
        response_id="r",
    )
    assert (context.url, context.target_session_id) == (None, None)
    assert {"response", "status"} <= set(get_type_hints(fireside.ResponseEndCtx))


async def test_a_question_goes_to_the_hook_before_it_is_yielded_and_to_the_session_that_asks() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asking = ElicitationRequestEvent(
        elicitation_id="elicit_1",
        params={
            "mode": "url",
            "message": "Who?",
            "requestedSchema": schema,
            "url": "https://example.org/ok",
            "phase": "request",
            "policy_name": "names",
            "content_preview": "...",
            "target_session_id": "conv_child",
        },
    )
    params = asking.params
    assert (params.message, params.requestedSchema, params["mode"]) == ("Who?", schema, "url")
    assert asking.method == "elicitation/create" and params.policy_names is None
    place = Played([asking, ended()])
    seen: list[Any] = []

    def decide(context: Any) -> bool:
        seen.append(context)
        return True

    session = await place.get("conv_1")
    chat = SessionsChat(place, None, None, session, hooks=StreamHooks(on_elicitation_request=decide))
    async for event in chat.send("x"):
        if isinstance(event, ElicitationRequestEvent):
            assert place.posted[-1] == {"session": "conv_child", "id": "elicit_1", "action": "accept"}
    assert (seen[0].url, seen[0].requested_schema) == ("https://example.org/ok", schema)
    assert (seen[0].mode, seen[0].phase, seen[0].policy_name) == ("url", "request", "names")
    assert seen[0].target_session_id == "conv_child"
    refusing = SessionsChat(place, None, None, session)
    async for _ in refusing.send("x"):
        pass
    assert place.posted[-1]["action"] == "decline"


async def test_an_end_without_a_beginning_gets_one() -> None:
    log: list[tuple[str, str]] = []
    hooks = StreamHooks(
        on_response_start=lambda ctx: log.append(("start", ctx.response.id)),
        on_response_end=lambda ctx: log.append(("end", ctx.status)),
    )
    place = Played([ended("cancelled")])
    await SessionsChat(place, None, None, await place.get("s"), hooks=hooks).query("x")
    assert log == [("start", "resp_1"), ("end", "cancelled")]


async def test_hooks_beyond_the_ten_fire_where_it_happens(tmp_path: Path) -> None:
    fired: list[tuple[str, Any]] = []

    def note(slot: str) -> Any:
        return lambda context: fired.append((slot, context))

    slots = ("on_retry", "on_server_error", "on_tool_results_ready")
    hooks = StreamHooks(**{slot: note(slot) for slot in slots}, on_elicitation_request=lambda ctx: True)
    scripts = [
        [calls("draw", wrong=1)],
        [ToolCall("call_2", "draw", {"what": "cat"})],
        ["half", fireside.EngineError("boom")],
    ]
    async with managing(*scripts, folder=tmp_path, tools=[draw]) as manager:
        chat = await manager.sessions_chat(hooks=hooks)
        await chat.query("draw")
    assert [slot for slot, _ in fired] == [
        "on_tool_results_ready",
        "on_retry",
        "on_tool_results_ready",
        "on_server_error",
    ]
    rounds = [context for slot, context in fired if slot == "on_tool_results_ready"]
    assert [one.iteration for one in rounds] == [0, 1]
    assert [[result.call_id for result in one.results] for one in rounds] == [["call_1"], ["call_2"]]
    retry = fired[1][1]
    assert (retry.source, retry.tool_name, retry.attempt, retry.delay_seconds) == ("tool", "draw", 1, 0.0)
    assert retry.max_attempts >= 1 and retry.error.code == "invalid_call" and "what" in retry.error.message
    error = fired[3][1]
    assert (error.source, error.tool_name, error.error.message) == ("execution", None, "boom")


async def test_a_stream_that_breaks_is_told_and_raised() -> None:
    class Broken(Played):
        async def stream(self, session_id: str) -> AsyncGenerator[ServerStreamEvent]:
            yield fireside.SessionHeartbeatEvent()
            raise OSError("the wire is cut")

    told: list[Any] = []
    place = Broken([])
    hooks = StreamHooks(on_transport_error=told.append)
    with pytest.raises(OSError, match="cut"):
        await SessionsChat(place, None, None, await place.get("s"), hooks=hooks).query("x")
    assert [str(context.error) for context in told] == ["the wire is cut"]


# ---- the catalogue ------------------------------------------------------------------------------


CATALOGUE: dict[str, str] = {
    "SessionStatusEvent": "conversation_id status response_id error background_task_count blocked_on",
    "SessionInputConsumedEvent": "data",
    "SessionInterruptedEvent": "data",
    "SessionCreatedEvent": "conversation_id child_session_id agent_id parent_session_id",
    "SessionChildSessionUpdatedEvent": "conversation_id child_session_id child",
    "SessionHeartbeatEvent": "server_time",
    "SessionUsageEvent": "context_tokens context_window total_cost_usd usage_by_model",
    "SessionModelEvent": "model",
    "SessionTitleEvent": "title",
    "SessionReasoningEffortEvent": "reasoning_effort",
    "CreatedEvent": "response",
    "QueuedEvent": "response",
    "InProgressEvent": "response",
    "CompletedEvent": "response",
    "FailedEvent": "response",
    "IncompleteEvent": "response",
    "CancelledEvent": "response",
    "OutputTextDeltaEvent": "delta message_id index final",
    "ReasoningStartedEvent": "",
    "ReasoningTextDeltaEvent": "delta",
    "ReasoningSummaryTextDeltaEvent": "delta",
    "OutputItemDoneEvent": "item",
    "FunctionCallOutputDeltaEvent": "call_id delta",
    "OutputFileDoneEvent": "file_id filename content_type",
    "ResponseErrorEvent": "source tool_name error",
    "ResponseRetryEvent": "source tool_name attempt max_attempts delay_seconds error",
    "CompactionInProgressEvent": "",
    "CompactionCompletedEvent": "total_tokens summary summary_model compacted_messages",
    "CompactionFailedEvent": "",
    "ElicitationRequestEvent": "elicitation_id method params",
    "ElicitationResolvedEvent": "elicitation_id",
    "PolicyDeniedEvent": "conversation_id reason phase",
    "ClientTaskCancelEvent": "task_id call_id",
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_event_has_the_fields_of_the_catalogue(name: str) -> None:
    kind = getattr(fireside, name)
    has = {*get_type_hints(kind), *dir(kind)}
    assert {"type", "sequence_number", *CATALOGUE[name].split()} <= has
    assert isinstance(kind.type, str) and issubclass(kind, ServerStreamEvent)


async def test_an_interruption_is_told_as_the_catalogue_says(tmp_path: Path) -> None:
    from backend.engines.scripted import Pause

    async with managing(["one ", Pause(until=asyncio.Event())], folder=tmp_path) as manager:
        chat = await manager.sessions_chat()
        interrupted: Any = None
        async for event in chat.send("hi"):
            if isinstance(event, OutputTextDeltaEvent):
                await chat.cancel()
            if isinstance(event, fireside.SessionInterruptedEvent):
                interrupted = event
        assert isinstance(event, CancelledEvent) and event.response.status == "cancelled"
        assert isinstance(interrupted.data.requested_at, int)
        assert interrupted.data.response_id == event.response.id
        assert event.response.output[-1]["content"][0]["text"] == "one "
