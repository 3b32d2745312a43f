"""Stream hooks: named callbacks along a session's events, each start with exactly one end.

All are optional, sync or async, and awaited in stream order. What one raises ends the iteration;
only the elicitation hook is guarded: it refuses.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

from app.sessions import hook_contexts as more
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
    response_of,
)
from app.sessions.items import FunctionCall, FunctionCallOutput, Message, NativeTool, arguments_of
from app.sessions.records import Json
from app.sessions.shapes import ElicitationParams

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
    response_id: str


@dataclass(frozen=True)
class MessageEndCtx:
    content: list[Json]


@dataclass(frozen=True)
class ToolCallStartCtx:
    name: str
    arguments: Json
    """Empty where the model's text is no object."""
    call_id: str
    agent_name: str
    executed_by: str


@dataclass(frozen=True)
class ToolCallEndCtx:
    name: str
    call_id: str
    agent_name: str
    output: str


@dataclass(frozen=True)
class FileOutputCtx:
    file_id: str
    filename: str | None
    content_type: str | None


@dataclass(frozen=True)
class ElicitationRequestCtx:
    """A question that a hook answers. A text is empty where whoever asks gave none."""

    elicitation_id: str
    message: str
    requested_schema: Json
    """Empty for a question that is answered with yes or no."""
    mode: str
    phase: str
    policy_name: str
    content_preview: str
    """What it is about, cut to 1,024 characters."""
    response_id: str
    url: str | None = None
    target_session_id: str | None = None
    """The session below this one that asks."""
    params: ElicitationParams = field(default_factory=ElicitationParams)
    """All that was asked with it."""


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
    on_tool_results_ready: Hook[more.ToolResultsReadyCtx] | None = None
    on_native_tool_call: Hook[more.NativeToolCallCtx] | None = None
    on_retry: Hook[ResponseRetryEvent] | None = None
    on_error: Hook[ResponseErrorEvent] | None = None
    on_server_error: Hook[ResponseErrorEvent] | None = None
    """The same as `on_error`."""
    on_transport_error: Hook[more.TransportErrorCtx] | None = None
    """The stream of events broke; what broke it is raised afterwards."""
    on_compaction_start: Hook[CompactionInProgressEvent] | None = None
    on_compaction_end: Hook[CompactionCompletedEvent | CompactionFailedEvent] | None = None
    on_sub_agent_spawned: Hook[more.SubAgentSpawnedCtx] | None = None
    on_sub_agent_updated: Hook[ChildSessionUpdatedEvent] | None = None
    on_sub_agent_completed: Hook[more.SubAgentCompletedCtx] | None = None
    """Once for each sub-agent whose start this subscription heard of."""


async def call(hook: Callable[[Any], Any] | None, context: object) -> Any:
    """Run a hook, if there is one, and await what it gives."""
    if hook is None:
        return None
    result = hook(context)
    return await result if inspect.isawaitable(result) else result


@dataclass
class _Flow:
    """Where one response stands between starts and ends."""

    response_id: str = ""
    thinking: bool = False
    thought: list[str] = field(default_factory=list[str])
    summary: list[str] = field(default_factory=list[str])
    writing: bool = False
    text: list[str] = field(default_factory=list[str])
    calls: dict[str, FunctionCall] = field(default_factory=dict[str, FunctionCall])
    results: dict[str, more.ToolResultInfo] = field(default_factory=dict[str, more.ToolResultInfo])
    """Of all calls that have ended, by call id."""
    rounds: list[int] = field(default_factory=list[int])
    """How many calls each round had."""


@dataclass
class HookState:
    """Fires the hooks of one subscription. Responses may overlap: each has its own starts and ends."""

    hooks: StreamHooks
    client_tools: frozenset[str] = frozenset()
    _flows: dict[str, _Flow] = field(default_factory=dict[str, _Flow])
    _current: _Flow = field(default_factory=_Flow)
    _started: set[str] = field(default_factory=set[str])
    _children: more.ChildHooks = field(default_factory=more.ChildHooks)

    async def observe(self, event: SessionEvent) -> None:
        """Fire the observer hooks of one event."""
        flow = self._flow(response_of(event))
        match event:
            case ResponseEvent(response=response):
                await self._start_response(response)
                if event.type in _TERMINALS:
                    await self._end_response(flow, response)
            case ReasoningStartedEvent():
                await self._end_reasoning(flow)
                await self._start_reasoning(flow)
            case ReasoningTextDeltaEvent(delta=delta, held=held):
                await self._start_reasoning(flow)
                flow.thought += [] if held else [delta]
            case ReasoningSummaryTextDeltaEvent(delta=delta):
                await self._start_reasoning(flow)
                flow.summary.append(delta)
            case OutputTextDeltaEvent(delta=delta):
                await self._end_reasoning(flow)
                await self._start_message(flow)
                flow.text.append(delta)
            case OutputItemDoneEvent(item=item):
                await self._item(flow, item)
            case OutputFileDoneEvent():
                context = FileOutputCtx(event.file_id, event.filename, event.content_type)
                await call(self.hooks.on_file_output, context)
            case _:
                await self._pass_on(event)

    def _flow(self, response_id: str | None) -> _Flow:
        """The flow of a response; of what names none, that of the last response that was heard of."""
        if response_id is not None and response_id != self._current.response_id:
            if not self._current.response_id and not self._flows:
                # What was heard before any response named itself was its beginning.
                self._current.response_id = response_id
                self._flows[response_id] = self._current
            self._current = self._flows.setdefault(response_id, _Flow(response_id))
        return self._current

    async def _pass_on(self, event: SessionEvent) -> None:
        """Hooks that are one event each, and get it as it is."""
        hooks = self.hooks
        match event:
            case ResponseErrorEvent():
                await call(hooks.on_error, event)
                await call(hooks.on_server_error, event)
            case ResponseRetryEvent():
                await call(hooks.on_retry, event)
            case CompactionInProgressEvent():
                await call(hooks.on_compaction_start, event)
            case CompactionCompletedEvent() | CompactionFailedEvent():
                await call(hooks.on_compaction_end, event)
            case SessionCreatedEvent():
                spawned = self._children.spawned(event, self._current.response_id)
                await call(hooks.on_sub_agent_spawned, spawned)
            case ChildSessionUpdatedEvent():
                await call(hooks.on_sub_agent_updated, event)
                if completed := self._children.completed(event):
                    await call(hooks.on_sub_agent_completed, completed)
            case _:
                pass

    async def answer(self, event: ElicitationRequestEvent) -> Json:
        """What the elicitation hook says, as a resolution; no is the answer where it says nothing."""
        params = event.params
        context = ElicitationRequestCtx(
            elicitation_id=event.elicitation_id,
            message=params.message or "",
            requested_schema=params.requestedSchema or {},
            mode=params.mode or "form",
            phase=params.phase or "",
            policy_name=params.policy_name or "",
            content_preview=params.content_preview or "",
            response_id=self._current.response_id,
            url=params.url,
            target_session_id=params.target_session_id,
            params=params,
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
        flow = self._flows.get(item.response_id or "", self._current)
        await self._end_call(flow, item.call_id, item.model, output)

    async def _item(self, flow: _Flow, item: object) -> None:
        match item:
            case Message(role="assistant"):
                await self._end_reasoning(flow)
                await self._start_message(flow)
                await self._end_message(flow, list(item.content))
            case FunctionCall():
                await self._end_reasoning(flow)
                if item.call_id not in flow.calls:
                    flow.calls[item.call_id] = item
                    await self._start_call(item)
            case FunctionCallOutput():
                await self._end_call(flow, item.call_id, item.model, item.output)
            case NativeTool(item=record):
                context = more.NativeToolCallCtx(str(record.get("type", "")), record)
                await call(self.hooks.on_native_tool_call, context)
            case _:
                pass

    async def _start_call(self, item: FunctionCall) -> None:
        is_ours = item.status == "action_required" or item.name in self.client_tools
        context = ToolCallStartCtx(
            name=item.name,
            arguments=arguments_of(item.arguments),
            call_id=item.call_id,
            agent_name=item.model or "",
            executed_by="client" if is_ours else "server",
        )
        await call(self.hooks.on_tool_call_start, context)

    async def _end_call(self, flow: _Flow, call_id: str, agent: str | None, output: str) -> None:
        if call_id in flow.results:
            return
        begun = flow.calls.get(call_id)
        name = begun.name if begun is not None else ""
        flow.results[call_id] = more.ToolResultInfo(call_id, name, output, agent or "")
        await call(self.hooks.on_tool_call_end, ToolCallEndCtx(name, call_id, agent or "", output))
        if flow.calls.keys() <= flow.results.keys():
            results = list(flow.results.values())[sum(flow.rounds) :]
            flow.rounds.append(len(results))
            context = more.ToolResultsReadyCtx(results, len(flow.rounds) - 1)
            await call(self.hooks.on_tool_results_ready, context)

    async def _start_response(self, response: Response) -> None:
        if response.id not in self._started:
            self._started.add(response.id)
            await call(self.hooks.on_response_start, ResponseStartCtx(response))

    async def _end_response(self, flow: _Flow, response: Response) -> None:
        await self._end_reasoning(flow)
        await self._end_message(flow, [{"type": "output_text", "text": "".join(flow.text)}])
        for call_id, item in flow.calls.items():
            # A turn that was stopped tells no more of its calls, but what became of them.
            await self._end_call(flow, call_id, item.model, _output_in(response.output, call_id))
        await call(self.hooks.on_response_end, ResponseEndCtx(response, response.status))
        self._flows.pop(flow.response_id, None)

    async def _start_reasoning(self, flow: _Flow) -> None:
        if not flow.thinking:
            flow.thinking = True
            await call(self.hooks.on_reasoning_start, ReasoningStartCtx())

    async def _end_reasoning(self, flow: _Flow) -> None:
        if not flow.thinking:
            return
        context = ReasoningEndCtx("".join(flow.thought), "".join(flow.summary))
        flow.thinking, flow.thought, flow.summary = False, [], []
        await call(self.hooks.on_reasoning_end, context)

    async def _start_message(self, flow: _Flow) -> None:
        if not flow.writing:
            flow.writing = True
            await call(self.hooks.on_message_start, MessageStartCtx(flow.response_id))

    async def _end_message(self, flow: _Flow, content: list[Json]) -> None:
        if not flow.writing:
            return
        flow.writing, flow.text = False, []
        await call(self.hooks.on_message_end, MessageEndCtx(content))


_TERMINALS = frozenset(kind.type for kind in TERMINAL_EVENTS.values())


def _output_in(output: Sequence[Mapping[str, Any]], call_id: str) -> str:
    """What a response says that a call returned, "" where it does not."""
    return next(
        (
            str(item.get("output", ""))
            for item in output
            if item.get("type") == "function_call_output" and item.get("call_id") == call_id
        ),
        "",
    )
