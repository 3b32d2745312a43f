"""What a session tells its subscribers. One file, because it is one catalogue.

Typed events in the shapes of the wire.
One class per row of the catalogue; an event of a type that is not here cannot be published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from app.characters import clean_fields
from app.sessions.items import Item
from app.sessions.records import Json, now, to_json
from app.sessions.shapes import ConsumedInput, ElicitationParams, Interruption, shape_fields


@dataclass(frozen=True, kw_only=True)
class SessionEvent:
    """What all events have."""

    type: ClassVar[str] = ""
    nested: ClassVar[bool] = False
    """Whether the fields travel under `data`."""
    sequence_number: int | None = None

    def __post_init__(self) -> None:
        clean_fields(self)
        shape_fields(self)

    def to_wire(self) -> Json:
        """The event as one JSON object."""
        fields = to_json(self)
        number = fields.pop("sequence_number", None)
        body = {"data": fields} if self.nested else fields
        return {"type": self.type, **body, **({} if number is None else {"sequence_number": number})}


@dataclass(frozen=True, kw_only=True)
class Response:
    """One answer of the agent, from its creation to its end. `model` is the agent's name."""

    id: str
    model: str
    status: str = "in_progress"
    created_at: int = field(default_factory=now)
    completed_at: int | None = None
    output: list[Json] = field(default_factory=list[Json])
    usage: Json | None = None
    error: Json | None = None
    incomplete_details: Json | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    reasoning: Json | None = None
    background: bool = False
    store: bool = True

    def __post_init__(self) -> None:
        clean_fields(self)
        shape_fields(self)

    def to_wire(self) -> Json:
        return to_json(self)


# ---- the session ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SessionStatusEvent(SessionEvent):
    type: ClassVar[str] = "session.status"
    conversation_id: str
    status: str
    response_id: str | None = None
    error: Json | None = None
    background_task_count: int | None = None
    """Sub-agents that work for the session; None where there are none."""
    blocked_on: str | None = None


@dataclass(frozen=True, kw_only=True)
class SessionInputConsumedEvent(SessionEvent):
    """An accepted input is now part of the conversation, and `response_id` will answer it."""

    type: ClassVar[str] = "session.input.consumed"
    nested: ClassVar[bool] = True
    item_id: str
    type_: str
    data: Json
    response_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        data = ConsumedInput(self.data).told_with(item_id=self.item_id, data=self.data)
        object.__setattr__(self, "data", data)

    def to_wire(self) -> Json:
        wire = super().to_wire()
        wire["data"]["type"] = wire["data"].pop("type_")
        return wire


@dataclass(frozen=True, kw_only=True)
class SessionInterruptedEvent(SessionEvent):
    type: ClassVar[str] = "session.interrupted"
    nested: ClassVar[bool] = True
    requested_at: int
    response_id: str | None = None

    @property
    def data(self) -> Interruption:
        """As on the wire."""
        return Interruption(requested_at=self.requested_at, response_id=self.response_id)


@dataclass(frozen=True, kw_only=True)
class SessionCreatedEvent(SessionEvent):
    """A child session was started; on the parent's stream."""

    type: ClassVar[str] = "session.created"
    conversation_id: str
    child_session_id: str
    agent_id: str | None = None
    parent_session_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChildSessionUpdatedEvent(SessionEvent):
    type: ClassVar[str] = "session.child_session.updated"
    conversation_id: str
    child_session_id: str
    child: Json


@dataclass(frozen=True, kw_only=True)
class SessionHeartbeatEvent(SessionEvent):
    type: ClassVar[str] = "session.heartbeat"
    server_time: int = field(default_factory=now)


@dataclass(frozen=True, kw_only=True)
class SessionUsageEvent(SessionEvent):
    type: ClassVar[str] = "session.usage"
    context_tokens: int | None = None
    context_window: int | None = None
    total_cost_usd: float | None = None
    """Models on this machine cost nothing that is known."""
    usage_by_model: Json | None = None
    """Tokens of the session's last turn, by the name of the model."""


@dataclass(frozen=True, kw_only=True)
class SessionModelEvent(SessionEvent):
    type: ClassVar[str] = "session.model"
    model: str | None


@dataclass(frozen=True, kw_only=True)
class SessionTitleEvent(SessionEvent):
    type: ClassVar[str] = "session.title"
    title: str | None


@dataclass(frozen=True, kw_only=True)
class SessionReasoningEffortEvent(SessionEvent):
    type: ClassVar[str] = "session.reasoning_effort"
    reasoning_effort: str | None


# ---- the session, beyond the reference (x-fireside) ----------------------------------------


@dataclass(frozen=True, kw_only=True)
class SessionBranchEvent(SessionEvent):
    """The active path changed: it now ends below `active`."""

    type: ClassVar[str] = "session.branch"
    item_id: str | None
    parent_id: str | None
    active: str | None


@dataclass(frozen=True, kw_only=True)
class SessionQueueEvent(SessionEvent):
    type: ClassVar[str] = "session.queue"
    inputs: tuple[Json, ...]


@dataclass(frozen=True, kw_only=True)
class SessionPrefillEvent(SessionEvent):
    """Tokens of the prompt read so far, in all, and taken from the cache."""

    type: ClassVar[str] = "session.prefill"
    done: int
    total: int
    reused: int


@dataclass(frozen=True, kw_only=True)
class SessionModelLoadEvent(SessionEvent):
    type: ClassVar[str] = "session.model_load"
    fraction: float


@dataclass(frozen=True, kw_only=True)
class SessionSpeedEvent(SessionEvent):
    """How fast the last generation went; times in seconds."""

    type: ClassVar[str] = "session.speed"
    response_id: str
    tokens_per_second: float
    time_to_first_token_s: float
    prompt_tokens: int
    reused_tokens: int
    new_tokens: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class SessionSettingsEvent(SessionEvent):
    type: ClassVar[str] = "session.settings"
    settings: Json


@dataclass(frozen=True, kw_only=True)
class SessionNoticeEvent(SessionEvent):
    """Something about the turn that the person should know, and that stops nothing."""

    type: ClassVar[str] = "session.notice"
    code: str
    message: str


# ---- the response --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ResponseEvent(SessionEvent):
    """An event that carries the whole response object."""

    response: Response


class ResponseCreatedEvent(ResponseEvent):
    type: ClassVar[str] = "response.created"


class ResponseQueuedEvent(ResponseEvent):
    type: ClassVar[str] = "response.queued"


class ResponseInProgressEvent(ResponseEvent):
    type: ClassVar[str] = "response.in_progress"


class ResponseCompletedEvent(ResponseEvent):
    type: ClassVar[str] = "response.completed"


class ResponseFailedEvent(ResponseEvent):
    type: ClassVar[str] = "response.failed"


class ResponseIncompleteEvent(ResponseEvent):
    type: ClassVar[str] = "response.incomplete"


class ResponseCancelledEvent(ResponseEvent):
    type: ClassVar[str] = "response.cancelled"


TERMINAL_EVENTS: dict[str, type[ResponseEvent]] = {
    "completed": ResponseCompletedEvent,
    "failed": ResponseFailedEvent,
    "incomplete": ResponseIncompleteEvent,
    "cancelled": ResponseCancelledEvent,
}
TERMINAL_TYPES = tuple(TERMINAL_EVENTS.values())

ServerStreamEvent: TypeAlias = SessionEvent
CreatedEvent: TypeAlias = ResponseCreatedEvent
QueuedEvent: TypeAlias = ResponseQueuedEvent
InProgressEvent: TypeAlias = ResponseInProgressEvent
CompletedEvent: TypeAlias = ResponseCompletedEvent
FailedEvent: TypeAlias = ResponseFailedEvent
IncompleteEvent: TypeAlias = ResponseIncompleteEvent
CancelledEvent: TypeAlias = ResponseCancelledEvent
SessionChildSessionUpdatedEvent: TypeAlias = ChildSessionUpdatedEvent


@dataclass(frozen=True, kw_only=True)
class OutputTextDeltaEvent(SessionEvent):
    type: ClassVar[str] = "response.output_text.delta"
    delta: str
    message_id: str | None = None
    index: int | None = None
    final: bool | None = None
    repeated: bool | None = None
    """What a continued reply begins with: it was told before, as a part of another reply."""
    response_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReasoningStartedEvent(SessionEvent):
    type: ClassVar[str] = "response.reasoning.started"
    response_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReasoningTextDeltaEvent(SessionEvent):
    type: ClassVar[str] = "response.reasoning_text.delta"
    delta: str
    message_id: str | None = None
    held: bool | None = None
    """Shown as thought for now; it may yet turn out to open a call, and is not stored."""
    response_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReasoningSummaryTextDeltaEvent(SessionEvent):
    type: ClassVar[str] = "response.reasoning_summary_text.delta"
    delta: str
    response_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class FunctionCallArgumentsDeltaEvent(SessionEvent):
    """A call is being written (x-fireside)."""

    type: ClassVar[str] = "response.function_call_arguments.delta"
    delta: str
    index: int
    name: str


@dataclass(frozen=True, kw_only=True)
class OutputItemDoneEvent(SessionEvent):
    """An item is complete, or a call needs the client."""

    type: ClassVar[str] = "response.output_item.done"
    item: Item

    def __post_init__(self) -> None:
        """An item is clean already."""


@dataclass(frozen=True, kw_only=True)
class FunctionCallOutputDeltaEvent(SessionEvent):
    type: ClassVar[str] = "response.function_call_output.delta"
    call_id: str
    delta: str


@dataclass(frozen=True, kw_only=True)
class OutputFileDoneEvent(SessionEvent):
    type: ClassVar[str] = "response.output_file.done"
    file_id: str
    filename: str | None = None
    content_type: str | None = None
    response_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ResponseErrorEvent(SessionEvent):
    type: ClassVar[str] = "response.error"
    source: str
    error: Json
    tool_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class ResponseRetryEvent(SessionEvent):
    type: ClassVar[str] = "response.retry"
    source: str
    attempt: int
    max_attempts: int
    delay_seconds: float
    error: Json
    tool_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class CompactionInProgressEvent(SessionEvent):
    type: ClassVar[str] = "response.compaction.in_progress"


@dataclass(frozen=True, kw_only=True)
class CompactionCompletedEvent(SessionEvent):
    type: ClassVar[str] = "response.compaction.completed"
    total_tokens: int | None = None
    summary: str | None = None
    summary_model: str | None = None
    compacted_messages: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompactionFailedEvent(SessionEvent):
    type: ClassVar[str] = "response.compaction.failed"
    error: Json | None = None


@dataclass(frozen=True, kw_only=True)
class ElicitationRequestEvent(SessionEvent):
    type: ClassVar[str] = "response.elicitation_request"
    elicitation_id: str
    params: ElicitationParams
    method: str = "elicitation/create"


@dataclass(frozen=True, kw_only=True)
class ElicitationResolvedEvent(SessionEvent):
    type: ClassVar[str] = "response.elicitation_resolved"
    elicitation_id: str


@dataclass(frozen=True, kw_only=True)
class PolicyDeniedEvent(SessionEvent):
    type: ClassVar[str] = "response.policy_denied"
    conversation_id: str
    reason: str
    phase: str


@dataclass(frozen=True, kw_only=True)
class ClientTaskCancelEvent(SessionEvent):
    type: ClassVar[str] = "response.client_task.cancel"
    task_id: str
    call_id: str | None = None


def _concrete(kind: type[SessionEvent]) -> dict[str, type[SessionEvent]]:
    found: dict[str, type[SessionEvent]] = {kind.type: kind} if kind.type else {}
    for below in kind.__subclasses__():
        found.update(_concrete(below))
    return found


EVENT_TYPES: dict[str, type[SessionEvent]] = _concrete(SessionEvent)


def response_of(event: SessionEvent) -> str | None:
    """The response that an event is about; None where it does not say."""
    match event:
        case ResponseEvent(response=response):
            return response.id
        case OutputItemDoneEvent(item=item):
            return item.response_id
        case (
            OutputTextDeltaEvent()
            | ReasoningStartedEvent()
            | ReasoningTextDeltaEvent()
            | ReasoningSummaryTextDeltaEvent()
            | OutputFileDoneEvent()
        ):
            return event.response_id
        case _:
            return None
