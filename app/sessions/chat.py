"""`SessionsChat`: one durable session with its stream, its files and the caller's own tools."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeAlias, cast, overload

from app.sessions.errors import FiresideError
from app.sessions.events import (
    TERMINAL_TYPES,
    ElicitationRequestEvent,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    ResponseEvent,
    SessionEvent,
    SessionInputConsumedEvent,
    SessionQueueEvent,
    SessionStatusEvent,
)
from app.sessions.hooks import HookState, StreamHooks
from app.sessions.items import FunctionCall, input_text
from app.sessions.query import Gathered, QueryResult, QueryStream
from app.sessions.records import Json
from app.sessions.snapshot import Ack, SessionSnapshot

ToolCallable: TypeAlias = Callable[["SessionToolCallInfo"], Any]
Upload: TypeAlias = Callable[[str, str], Awaitable[Json]]
GetFile: TypeAlias = Callable[[str, str], Awaitable[Json]]
GetTools: TypeAlias = Callable[[str, str], Any]
Input: TypeAlias = str | Sequence[Mapping[str, Any]]
Paths: TypeAlias = Sequence[str | os.PathLike[str]]
REST_STATUSES = ("idle", "waiting")


@dataclass(frozen=True)
class SessionToolCallInfo:
    """One call of a client tool."""

    name: str
    arguments: Json
    call_id: str
    item_id: str | None = None


class Namespace(Protocol):
    """What the helper asks of a session manager, here or behind a wire."""

    async def get(self, session_id: str, *, include_items: bool = True) -> SessionSnapshot: ...
    async def post_event(self, session_id: str, event: Mapping[str, Any]) -> Ack: ...
    async def resolve_elicitation(
        self, session_id: str, elicitation_id: str, result: Mapping[str, Any]
    ) -> None: ...
    async def subtree_busy(self, session_id: str, *, max_depth: int = 3) -> bool: ...
    def stream(self, session_id: str) -> AsyncGenerator[SessionEvent]: ...


@dataclass
class SessionsChat:
    """Binds one session to its manager. Construction does no I/O.

    With `strict_tools` what a client tool raises ends the iteration; by default the model reads it.
    """

    namespace: Namespace
    files_uploader: Upload | None
    files_getter: GetFile | None
    session: SessionSnapshot
    tool_callables: Mapping[str, ToolCallable] | None = None
    agent_tools_getter: GetTools | None = None
    hooks: StreamHooks | None = None
    strict_tools: bool = False
    _valid: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._callables = dict(self.tool_callables or {})
        self._hooks = self.hooks or StreamHooks()

    @classmethod
    def bind(
        cls,
        manager: Any,
        session: SessionSnapshot,
        *,
        tool_callables: Mapping[str, ToolCallable] | None = None,
        hooks: StreamHooks | None = None,
    ) -> Self:
        """A helper for a session of a `SessionManager`, with its files."""

        async def upload(session_id: str, path: str) -> Json:
            return (await manager.files.upload(session_id, path)).to_wire()

        async def get_file(session_id: str, file_id: str) -> Json:
            return (await manager.files.get(session_id, file_id)).to_wire()

        async def tools_of(agent_id: str, session_id: str) -> Sequence[Json]:
            return (await manager.record(session_id)).agent.get("tools") or []

        return cls(manager, upload, get_file, session, tool_callables, tools_of, hooks)

    @classmethod
    async def create(
        cls,
        namespace: Any,
        bundle: bytes | None,
        *,
        filename: str = "agent.tar.gz",
        files_uploader: Upload | None = None,
        files_getter: GetFile | None = None,
        files_namespace: Any = None,
        tool_callables: Mapping[str, ToolCallable] | None = None,
        agent_tools_getter: GetTools | None = None,
        hooks: StreamHooks | None = None,
    ) -> Self:
        """Create a session, then bind to it. `files_namespace` wins over the single functions."""
        session = await namespace.create(bundle=bundle)
        if files_namespace is not None:
            files = files_namespace

            async def upload(session_id: str, path: str) -> Json:
                return (await files.upload(session_id, path)).to_wire()

            async def get_file(session_id: str, file_id: str) -> Json:
                return (await files.get(session_id, file_id)).to_wire()

            files_uploader, files_getter = upload, get_file
        return cls(
            namespace, files_uploader, files_getter, session, tool_callables, agent_tools_getter, hooks
        )

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def agent_id(self) -> str:
        return self.session.agent_id

    @property
    def status(self) -> str:
        """As of the last `refresh`."""
        return self.session.status

    async def refresh(self) -> SessionSnapshot:
        """Read the session anew. FiresideError with status 404 where it is gone."""
        self.session = await self.namespace.get(self.session_id)
        return self.session

    async def tree_busy(self, *, max_depth: int = 3) -> bool:
        """Whether any sub-agent works; this session itself does not count."""
        return await self.namespace.subtree_busy(self.session_id, max_depth=max_depth)

    async def cancel(self) -> None:
        """Stop what runs; harmless when nothing does."""
        await self.namespace.post_event(self.session_id, {"type": "interrupt", "data": {}})

    async def post_event(self, event: Mapping[str, Any]) -> None:
        """Post an input event as it is."""
        await self.namespace.post_event(self.session_id, event)

    # ---- sending ---------------------------------------------------------------------------

    async def send(
        self,
        input: Input,
        *,
        files: Paths | None = None,
    ) -> AsyncGenerator[SessionEvent]:
        """Post a message and yield the session's events up to the end of the turn that answers it.

        FiresideError for a turn that died before its response existed, and for a stream that ends
        before the message could be posted. A failed response is yielded, not raised.
        """
        await self._validate()
        content = await self._content(input, files)
        state = HookState(self._hooks, frozenset(self._callables))
        async with aclosing(self.namespace.stream(self.session_id)) as events:
            # Nothing is replayed: whoever posts before listening may miss the whole turn.
            first = await anext(events, None)
            if first is None:
                raise FiresideError("The session's stream ended before the message was posted.")
            data = {"role": "user", "content": content}
            ack = await self.namespace.post_event(self.session_id, {"type": "message", "data": data})
            turn = _OwnTurn(ack.item_id)
            async for event in _chained(first, events):
                await self._observe(state, event)
                yield event
                await self._dispatch(state, event)
                if turn.ends_with(event):
                    return

    async def stream(self) -> AsyncGenerator[SessionEvent]:
        """All events of the session, turn after turn, until it is closed."""
        await self._validate()
        state = HookState(self._hooks, frozenset(self._callables))
        async with aclosing(self.namespace.stream(self.session_id)) as events:
            async for event in events:
                await self._observe(state, event)
                yield event
                await self._dispatch(state, event)

    @overload
    async def query(
        self, input: Input, *, files: Paths | None = None, stream: Literal[False] = False
    ) -> QueryResult: ...
    @overload
    async def query(
        self, input: Input, *, files: Paths | None = None, stream: Literal[True]
    ) -> QueryStream: ...
    async def query(
        self, input: Input, *, files: Paths | None = None, stream: bool = False
    ) -> QueryResult | QueryStream:
        """Send a message and give its answer: whole, or as a stream that begins when it is iterated."""
        if stream:
            return QueryStream(lambda: self.send(input, files=files), self._file)
        gathered = Gathered(self._file)
        async with aclosing(self.send(input, files=files)) as events:
            async for event in events:
                await gathered.take(event)
        return gathered.result()

    async def await_turn(self, *, timeout: float | None = 1200.0) -> QueryResult:
        """Follow the next turn that the session starts by itself.

        Time that runs out raises nothing: what came so far is returned. FiresideError where the
        turn fails before its response exists.
        """
        gathered = Gathered(self._file)
        try:
            async with asyncio.timeout(timeout), aclosing(self.stream()) as events:
                async for event in events:
                    await gathered.take(event)
                    if isinstance(event, TERMINAL_TYPES):
                        break
                    if isinstance(event, SessionStatusEvent):
                        if event.status == "failed":
                            raise _failure(event)
                        if event.status in REST_STATUSES:
                            break
        except TimeoutError:
            pass
        return gathered.result()

    # ---- parts -----------------------------------------------------------------------------

    async def _content(
        self,
        input: Input,
        files: Paths | None,
    ) -> list[Json]:
        if isinstance(input, str):
            content = [input_text(input)] if input else []
        else:
            content = [dict(block) for block in input]
        if not files:
            return content
        if self.files_uploader is None:
            raise RuntimeError("Files were given, and there is no uploader for them.")
        for path in files:
            uploaded = await self.files_uploader(self.session_id, os.fspath(path))
            kind = str(uploaded.get("metadata", {}).get("content_type", ""))
            if kind.startswith("image/"):
                content.append({"type": "input_image", "file_id": uploaded["id"]})
            else:
                name = os.path.basename(str(path))
                content.append({"type": "input_file", "file_id": uploaded["id"], "filename": name})
        return content

    async def _observe(self, state: HookState, event: SessionEvent) -> None:
        await state.observe(event)
        if isinstance(event, ElicitationRequestEvent):
            await self._answer(state, event)

    async def _answer(self, state: HookState, event: ElicitationRequestEvent) -> None:
        result = await state.answer(event)
        target = event.params.get("target_session_id") or self.session_id
        await self.namespace.resolve_elicitation(str(target), event.elicitation_id, result)

    async def _dispatch(self, state: HookState, event: SessionEvent) -> None:
        """Run the caller's own tool where an event asks for it, and post its result."""
        item = event.item if isinstance(event, OutputItemDoneEvent) else None
        if not isinstance(item, FunctionCall) or item.status != "action_required":
            return
        if self.strict_tools:
            output = await self._run_tool(item)
        else:
            try:
                output = await self._run_tool(item)
            except Exception as err:  # The caller's code; its failure is the model's to read.
                output = f"error: {type(err).__name__}: {err}"
        await state.ran_locally(item, output)
        data = {"call_id": item.call_id, "output": output}
        await self.namespace.post_event(self.session_id, {"type": "function_call_output", "data": data})

    async def _run_tool(self, item: FunctionCall) -> str:
        function = self._callables.get(item.name)
        if function is None:
            raise ValueError(f"There is no callable for the tool {item.name!r}.")
        arguments = json.loads(item.arguments or "{}")
        if not isinstance(arguments, dict):
            raise TypeError(f"The arguments of {item.name} are no object.")
        info = SessionToolCallInfo(item.name, cast(Json, arguments), item.call_id, item.id)
        result = function(info)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, str):
            return result
        if self.strict_tools:
            raise TypeError(f"The tool {item.name} returned {type(result).__name__}, not a text.")
        return str(result)

    async def _validate(self) -> None:
        """Check that callables and the agent's client tools are the same, once."""
        if self._valid:
            return
        if self.agent_tools_getter is None:
            if self._callables:
                raise RuntimeError("Client tools cannot be validated: the agent's tools are not known.")
            self._valid = True
            return
        found = self.agent_tools_getter(self.agent_id, self.session_id)
        entries = cast("Sequence[Any]", await found if inspect.isawaitable(found) else found)
        declared = {name for entry in entries if (name := _client_tool(entry))}
        missing, unknown = sorted(declared - set(self._callables)), sorted(set(self._callables) - declared)
        if missing or unknown:
            raise ValueError(
                f"Client tools do not match the agent's. Declared without a callable: {missing}; "
                f"callables that are not declared: {unknown}."
            )
        self._valid = True

    async def _file(self, event: OutputFileDoneEvent) -> Json:
        if self.files_getter is None:
            raise RuntimeError("The turn made a file, and there is no getter for it.")
        found = await self.files_getter(self.session_id, event.file_id)
        metadata = found.get("metadata", {})
        return {
            "id": event.file_id,
            "filename": metadata.get("filename"),
            "bytes": metadata.get("bytes"),
            "created_at": metadata.get("created_at"),
        }


@dataclass
class _OwnTurn:
    """Which turn answers the message that was posted; other turns' events pass by."""

    item_id: str | None
    response_id: str | None = None
    waits: bool = False

    def ends_with(self, event: SessionEvent) -> bool:
        """Whether this event ends it. Raises FiresideError where it died before its response."""
        match event:
            case SessionInputConsumedEvent() if event.item_id == self.item_id:
                self.response_id = event.response_id
            case SessionQueueEvent() if self.response_id is None:
                present = any(item.get("id") == self.item_id for item in event.inputs)
                if self.waits and not present:
                    # Taken back before it was sent.
                    return True
                self.waits = present
            case ResponseEvent() if isinstance(event, TERMINAL_TYPES):
                return self.response_id is not None and event.response.id == self.response_id
            case SessionStatusEvent(status="failed") if self.response_id is not None:
                if event.response_id in (None, self.response_id):
                    raise _failure(event)
            case _:
                pass
        return False


def _client_tool(entry: Any) -> str:
    """The name of an entry that the client runs; "" for any other."""
    fields: Json = dict(cast(Json, entry)) if isinstance(entry, Mapping) else {}
    name = fields.get("name")
    return name if fields.get("runtime") == "client" and isinstance(name, str) else ""


def _failure(event: SessionStatusEvent) -> FiresideError:
    error = event.error or {}
    found = FiresideError(str(error.get("message") or "turn failed"), code=error.get("code"))
    found.remedy = str(error.get("remediation") or "")
    return found


async def _chained(first: SessionEvent, events: AsyncIterator[SessionEvent]) -> AsyncGenerator[SessionEvent]:
    yield first
    async for event in events:
        yield event
