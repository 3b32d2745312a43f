"""What hooks beyond the ten of the contract are told: of sub-agents, of a round's results, of faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from app.sessions.events import (
    ChildSessionUpdatedEvent,
    CompactionCompletedEvent,
    CompactionFailedEvent,
    CompactionInProgressEvent,
    ResponseErrorEvent,
    ResponseRetryEvent,
    SessionCreatedEvent,
)
from app.sessions.records import Json
from app.sessions.turn.children import is_busy

RetryCtx: TypeAlias = ResponseRetryEvent
ServerErrorCtx: TypeAlias = ResponseErrorEvent
CompactionStartCtx: TypeAlias = CompactionInProgressEvent
CompactionEndCtx: TypeAlias = CompactionCompletedEvent | CompactionFailedEvent


@dataclass(frozen=True)
class TransportErrorCtx:
    """What ended a stream of events before its time."""

    error: Exception


@dataclass(frozen=True)
class NativeToolCallCtx:
    """A tool that ran elsewhere: its kind, and its record as it came."""

    tool_type: str
    data: Json


@dataclass(frozen=True)
class ToolResultInfo:
    """What one call of a round returned."""

    call_id: str
    name: str
    output: str
    agent_name: str


@dataclass(frozen=True)
class ToolResultsReadyCtx:
    """All calls of a round have their results; the first round of a response is 0."""

    results: list[ToolResultInfo]
    iteration: int


@dataclass(frozen=True)
class SubAgentInfo:
    """A sub-agent. `response_id` is the id of its session, in starts and ends alike."""

    response_id: str
    agent_name: str


@dataclass(frozen=True)
class SubAgentSpawnedCtx:
    """A sub-agent was started, by the response that is running."""

    parent_response_id: str
    sub_agents: list[SubAgentInfo]
    conversation_id: str = ""
    child_session_id: str = ""
    agent_id: str | None = None
    parent_session_id: str | None = None


@dataclass(frozen=True)
class SubAgentCompletedCtx:
    """A sub-agent came to its end: `status` is completed, failed or cancelled."""

    response_id: str
    agent_name: str
    status: str
    output_summary: str | None


@dataclass
class ChildHooks:
    """Which sub-agents one subscription heard of."""

    _running: dict[str, SubAgentInfo] = field(default_factory=dict[str, SubAgentInfo])

    def spawned(self, event: SessionCreatedEvent, response_id: str) -> SubAgentSpawnedCtx:
        """What a hook is told of a start."""
        child = SubAgentInfo(event.child_session_id, event.agent_id or "")
        self._running[child.response_id] = child
        return SubAgentSpawnedCtx(
            response_id,
            [child],
            event.conversation_id,
            event.child_session_id,
            event.agent_id,
            event.parent_session_id,
        )

    def completed(self, event: ChildSessionUpdatedEvent) -> SubAgentCompletedCtx | None:
        """What a hook is told of an end; None while the sub-agent works, and for one that had no start."""
        child, begun = event.child, self._running.get(event.child_session_id)
        status = child.get("current_task_status")
        if begun is None or not isinstance(status, str) or is_busy(child):
            return None
        del self._running[event.child_session_id]
        name = child.get("tool") or child.get("agent_name") or begun.agent_name
        preview = child.get("last_message_preview") or None
        return SubAgentCompletedCtx(event.child_session_id, str(name), status, preview)
