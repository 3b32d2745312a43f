"""Parts of the wire whose members can be read both ways: `error["code"]` and `error.code`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

from app.sessions.records import Json


class Shape(Json):
    """A JSON object. The members that a class names are attributes too, None where they are not set."""

    def __getattr__(self, name: str) -> Any:
        if name in self or any(name in vars(kind).get("__annotations__", ()) for kind in type(self).__mro__):
            return self.get(name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}.")

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> Self | None:
        """The same object in this shape; None stays None."""
        return value if value is None or isinstance(value, cls) else cls(value)


class ErrorInfo(Shape):
    """What went wrong. `code` is one word for programs, `message` a sentence for people."""

    code: str
    message: str
    title: str | None
    cause: str | None
    remediation: str | None
    detail: str | None


class Usage(Shape):
    """Tokens of a turn over all its replies; `context_tokens` is what the next one begins with."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    context_tokens: int | None


class IncompleteDetails(Shape):
    """Why a response stopped early."""

    reason: str


class ElicitationParams(Shape):
    """A question to a person, and what it is about."""

    mode: str
    message: str
    requestedSchema: Json | None
    url: str | None
    phase: str | None
    policy_name: str | None
    policy_names: list[str] | None
    content_preview: str | None
    target_session_id: str | None

    def asked_by(self, session_id: str) -> Self:
        """The question as those above hear it, of the session `session_id` or of one below it."""
        return type(self)({"target_session_id": session_id, **self})


class PendingElicitation(Shape):
    """An open question, as the event told it that asked."""

    type: str
    elicitation_id: str
    method: str
    params: ElicitationParams


class ConsumedInput(Shape):
    """An input as it was written to history; the ids that were told with it can be read from it too."""

    item_id: str
    type: str
    data: Json
    created_by: str | None
    cleared_pending_id: str | None

    def told_with(self, **fields: Any) -> Self:
        """The same input, with what the event tells of it."""
        vars(self).update(fields)
        return self

    def __missing__(self, name: str) -> Any:
        return vars(self)[name]


class Interruption(Shape):
    """When a turn was interrupted, in Unix seconds, and which."""

    requested_at: int
    response_id: str | None


class File(Shape):
    """A file that is kept with a chat; `bytes` is its size, `created_at` in Unix seconds."""

    id: str
    filename: str | None
    bytes: int | None
    created_at: int | None


_SHAPES: dict[str, type[Shape]] = {
    "error": ErrorInfo,
    "incomplete_details": IncompleteDetails,
    "last_task_error": ErrorInfo,
    "params": ElicitationParams,
    "usage": Usage,
}


def shape_fields(record: Any) -> None:
    """Give the fields of a dataclass their shapes in place, frozen or not: from its `__post_init__`."""
    fields = cast("dict[str, Any]", vars(record))
    for name in fields.keys() & _SHAPES.keys():
        value = fields[name]
        if isinstance(value, Mapping):
            object.__setattr__(record, name, _SHAPES[name].of(cast("Mapping[str, Any]", value)))
