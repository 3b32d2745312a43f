"""Stream hooks: named callbacks along a session's events, each start with exactly one end.

All are optional, sync or async, and awaited in stream order. What one raises ends the iteration;
only the elicitation hook is guarded: it refuses.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

from app.sessions.events import (
    TERMINAL_EVENTS,
    ChildSessionUpdatedEvent,
    CompactionCompletedEvent,
    CompactionFailedEvent,
    CompactionInProgressEvent,
    ElicitationRequestEvent,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    ReasoningStartedEvent,
    ReasoningSummaryTextDeltaEvent,
    ReasoningTextDeltaEvent,
    Response,
    ResponseErrorEvent,
    ResponseEvent,
    ResponseRetryEvent,
    SessionCreatedEvent,
    SessionEvent,
)
from app.sessions.items import FunctionCall, FunctionCallOutput, Message
from app.sessions.records import Json

logger = logging.getLogger("fireside")

Ctx = TypeVar("Ctx")
Hook: TypeAlias = Callable[[Ctx], Any]


@dataclass(frozen=True)
class ResponseStartCtx:
    response: Response


@dataclass(frozen=True)
class ResponseEndCtx:
    response: Response
    status: str


@dataclass(frozen=True)
class ReasoningStartCtx:
    pass


@dataclass(frozen=True)
class ReasoningEndCtx:
    reasoning_text: str
    summary_text: str


@dataclass(frozen=True)
class MessageStartCtx:
    response_id: str | None


@dataclass(frozen=True)
class MessageEndCtx:
    content: tuple[Json, ...]


@dataclass(frozen=True)
class ToolCallStartCtx:
    name: str
    arguments: Json
    """Empty where the model's text is no object."""
    call_id: str
    agent_name: str | None
    executed_by: str


@dataclass(frozen=True)
class ToolCallEndCtx:
    name: str
    call_id: str
    agent_name: str | None
    output: str


@dataclass(frozen=True)
class FileOutputCtx:
    file_id: str
    filename: str | None
    content_type: str | None


@dataclass(frozen=True)
class ElicitationRequestCtx:
    elicitation_id: str
    response_id: str | None
    params: Json
    target_session_id: str | None = None


@dataclass
class StreamHooks:
    """The callbacks; those left None are skipped."""

    on_response_start: Hook[ResponseStartCtx] | None = None
    on_response_end: Hook[ResponseEndCtx] | None = None
    on_reasoning_start: Hook[ReasoningStartCtx] | None = None
    on_reasoning_end: Hook[ReasoningEndCtx] | None = None
    on_message_start: Hook[MessageStartCtx] | None = None
    on_message_end: Hook[MessageEndCtx] | None = None
    on_tool_call_start: Hook[ToolCallStartCtx] | None = None
    on_tool_call_end: Hook[ToolCallEndCtx] | None = None
    on_file_output: Hook[FileOutputCtx] | None = None
    on_elicitation_request: Hook[ElicitationRequestCtx] | None = None
    """Returns whether to accept, or a whole answer `{action, content}`. Absent, raising or anything
    false refuses."""
    on_retry: Hook[ResponseRetryEvent] | None = None
    on_error: Hook[ResponseErrorEvent] | None = None
    on_compaction_start: Hook[CompactionInProgressEvent] | None = None
    on_compaction_end: Hook[CompactionCompletedEvent | CompactionFailedEvent] | None = None
    on_sub_agent_spawned: Hook[SessionCreatedEvent] | None = None
    on_sub_agent_updated: Hook[ChildSessionUpdatedEvent] | None = None


async def call(hook: Callable[[Any], Any] | None, context: object) -> Any:
    """Run a hook, if there is one, and await what it gives."""
    if hook is None:
        return None
    result = hook(context)
    return await result if inspect.isawaitable(result) else result


@dataclass
class HookState:
    """Where one subscription stands between starts and ends."""

    hooks: StreamHooks
    client_tools: frozenset[str] = frozenset()
    _response: Response | None = None
    _thinking: bool = False
    _thought: list[str] = field(default_factory=list[str])
    _summary: list[str] = field(default_factory=list[str])
    _writing: bool = False
    _text: list[str] = field(default_factory=list[str])
    _calls: dict[str, str] = field(default_factory=dict[str, str])
    _ended: set[str] = field(default_factory=set[str])

    async def observe(self, event: SessionEvent) -> None:
        """Fire the observer hooks of one event."""
        match event:
            case ResponseEvent(response=response):
                await self._start_response(response)
                if event.type in _TERMINALS:
                    await self._end_response(response)
            case ReasoningStartedEvent():
                await self._end_reasoning()
                await self._start_reasoning()
            case ReasoningTextDeltaEvent(delta=delta, held=held):
                await self._start_reasoning()
                self._thought += [] if held else [delta]
            case ReasoningSummaryTextDeltaEvent(delta=delta):
                await self._start_reasoning()
                self._summary.append(delta)
            case OutputTextDeltaEvent(delta=delta):
                await self._end_reasoning()
                await self._start_message()
                self._text.append(delta)
            case OutputItemDoneEvent(item=item):
                await self._item(item)
            case OutputFileDoneEvent():
                context = FileOutputCtx(event.file_id, event.filename, event.content_type)
                await call(self.hooks.on_file_output, context)
            case _:
                await self._pass_on(event)

    async def _pass_on(self, event: SessionEvent) -> None:
        """Hooks that are one event each, and get it as it is."""
        hooks = self.hooks
        match event:
            case ResponseErrorEvent():
                await call(hooks.on_error, event)
            case ResponseRetryEvent():
                await call(hooks.on_retry, event)
            case CompactionInProgressEvent():
                await call(hooks.on_compaction_start, event)
            case CompactionCompletedEvent() | CompactionFailedEvent():
                await call(hooks.on_compaction_end, event)
            case SessionCreatedEvent():
                await call(hooks.on_sub_agent_spawned, event)
            case ChildSessionUpdatedEvent():
                await call(hooks.on_sub_agent_updated, event)
            case _:
                pass

    async def answer(self, event: ElicitationRequestEvent) -> Json:
        """What the elicitation hook says, as a resolution; no is the answer where it says nothing."""
        context = ElicitationRequestCtx(
            event.elicitation_id,
            self._response.id if self._response else None,
            event.params,
            event.params.get("target_session_id"),
        )
        try:
            said = await call(self.hooks.on_elicitation_request, context)
        except Exception:  # Anybody's code; a broken hook must not let a call through.
            logger.exception("an elicitation hook failed; the request is declined")
            said = False
        if isinstance(said, Mapping):
            return dict(cast("Mapping[str, Any]", said))
        return {"action": "accept" if said else "decline"}

    async def ran_locally(self, item: FunctionCall, output: str) -> None:
        """The end of a call that the client ran itself."""
        await self._end_call(item.call_id, item.model, output)

    async def _item(self, item: object) -> None:
        match item:
            case Message(role="assistant"):
                await self._end_reasoning()
                await self._start_message()
                await self._end_message(item.content)
            case FunctionCall():
                await self._end_reasoning()
                if item.call_id not in self._calls:
                    self._calls[item.call_id] = item.name
                    by = "client" if item.name in self.client_tools else "server"
                    arguments = _arguments(item.arguments)
                    context = ToolCallStartCtx(item.name, arguments, item.call_id, item.model, by)
                    await call(self.hooks.on_tool_call_start, context)
            case FunctionCallOutput():
                await self._end_call(item.call_id, item.model, item.output)
            case _:
                pass

    async def _end_call(self, call_id: str, agent: str | None, output: str) -> None:
        if call_id in self._ended:
            return
        self._ended.add(call_id)
        context = ToolCallEndCtx(self._calls.get(call_id, ""), call_id, agent, output)
        await call(self.hooks.on_tool_call_end, context)

    async def _start_response(self, response: Response) -> None:
        if self._response is not None and self._response.id == response.id:
            return
        self._response = response
        await call(self.hooks.on_response_start, ResponseStartCtx(response))

    async def _end_response(self, response: Response) -> None:
        await self._end_reasoning()
        await self._end_message(({"type": "output_text", "text": "".join(self._text)},))
        await call(self.hooks.on_response_end, ResponseEndCtx(response, response.status))

    async def _start_reasoning(self) -> None:
        if not self._thinking:
            self._thinking = True
            await call(self.hooks.on_reasoning_start, ReasoningStartCtx())

    async def _end_reasoning(self) -> None:
        if not self._thinking:
            return
        context = ReasoningEndCtx("".join(self._thought), "".join(self._summary))
        self._thinking, self._thought, self._summary = False, [], []
        await call(self.hooks.on_reasoning_end, context)

    async def _start_message(self) -> None:
        if not self._writing:
            self._writing = True
            response_id = self._response.id if self._response else None
            await call(self.hooks.on_message_start, MessageStartCtx(response_id))

    async def _end_message(self, content: tuple[Json, ...]) -> None:
        if not self._writing:
            return
        self._writing, self._text = False, []
        await call(self.hooks.on_message_end, MessageEndCtx(content))


_TERMINALS = frozenset(kind.type for kind in TERMINAL_EVENTS.values())


def _arguments(text: str) -> Json:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast(Json, value) if isinstance(value, dict) else {}
