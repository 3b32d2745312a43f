"""What is told of a session at one moment: the snapshot of one, the line of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeAlias

from app.sessions.items import Item, item_from_wire
from app.sessions.records import Json, to_json
from app.sessions.shapes import PendingElicitation, shape_fields
from app.sessions.store.rows import SessionRecord

SNAPSHOT_ITEMS = 200


@dataclass(frozen=True)
class SessionSnapshot:
    """A session with the newest items of its active path; `has_more_items` tells of older ones."""

    id: str
    agent_id: str
    status: str
    created_at: int
    agent_name: str | None = None
    updated_at: int | None = None
    title: str | None = None
    labels: Json = field(default_factory=dict[str, Any])
    reasoning_effort: str | None = None
    items: list[Item] = field(default_factory=list[Item])
    has_more_items: bool = False
    llm_model: str | None = None
    model_override: str | None = None
    context_window: int | None = None
    last_total_tokens: int | None = None
    last_task_error: Json | None = None
    archived: bool = False
    pinned: bool = False
    parent_session_id: str | None = None
    workspace: str | None = None
    draft: str = ""
    pending_elicitations: list[PendingElicitation] = field(default_factory=list[PendingElicitation])
    pending_inputs: list[Json] = field(default_factory=list[Json])

    def __post_init__(self) -> None:
        shape_fields(self)

    def to_wire(self) -> Json:
        """The snapshot as a JSON object."""
        return to_json(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """The snapshot that a JSON object describes; KeyError names a field that it must have."""
        known = {field.name: raw[field.name] for field in fields(cls) if field.name in raw}
        for name in ("id", "agent_id", "status", "created_at"):
            known[name] = raw[name]
        known["items"] = [item_from_wire(item) for item in known.get("items") or ()]
        return cls(**known)


Session: TypeAlias = SessionSnapshot


@dataclass(frozen=True)
class SessionSummary:
    """A session in a list."""

    id: str
    agent_id: str
    agent_name: str
    status: str
    created_at: int
    updated_at: int
    title: str | None
    labels: Json
    archived: bool
    pinned: bool
    parent_session_id: str | None
    pending_elicitations_count: int
    last_task_error: Json | None = None

    def to_wire(self) -> Json:
        """The summary as a JSON object."""
        return to_json(self)


@dataclass(frozen=True)
class Ack(Json):
    """What posting an event gives back: `queued` for items, False for controls. Its own JSON too."""

    queued: bool
    item_id: str | None = None

    def __post_init__(self) -> None:
        self.update(to_json(self))


def summary_of(record: SessionRecord, pending: int) -> SessionSummary:
    """The line of a list for a session with `pending` open questions."""
    name = str(record.agent.get("name"))
    return SessionSummary(
        id=record.id,
        agent_id=f"agent_{name}",
        agent_name=name,
        status=record.status,
        created_at=record.created_at,
        updated_at=record.updated_at,
        title=record.title,
        labels=record.labels,
        archived=record.archived,
        pinned=record.pinned,
        parent_session_id=record.parent_id,
        pending_elicitations_count=pending,
        last_task_error=record.last_error,
    )
