"""What a person is asked, as typed values; each is the JSON of its request on the wire too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from app.characters import clean
from app.sessions.records import Json, plain
from app.sessions.shapes import ElicitationParams

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Decision, Scope

SCOPES = ("once", "session", "always")
PREVIEW_CHARS = 1024
CUT_MARK = " [...]"


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionQuestion(ElicitationParams):
    """A question. `target_session_id` is the session below that asks; None for the one it is told in."""

    message: str
    phase: str | None
    target_session_id: str | None = None

    def __post_init__(self) -> None:
        self.update(mode="form", message=clean(self.message), phase=self.phase)
        if self.target_session_id is not None:
            self.update(target_session_id=self.target_session_id)

    def asked_by(self, session_id: str) -> Self:
        """The question as those above hear it, of the session `session_id` or of one below it."""
        return self if self.target_session_id is not None else replace(self, target_session_id=session_id)

    def to_wire(self) -> Json:
        """The parameters of the request."""
        return plain(dict(self))


@dataclass(frozen=True)
class RuleOption:
    """A rule that may be saved with a yes. `id` names it in the answer."""

    id: str
    scope: Scope
    text: str
    rule: Json


@dataclass(frozen=True, eq=False, kw_only=True)
class CallQuestion(SessionQuestion):
    """Whether one call may run."""

    phase: str | None = "tool_call"
    tool: str
    call_id: str
    decision: Decision
    """What it would touch, and what may be remembered."""
    offers: tuple[RuleOption, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        preview, arguments = self.decision.preview, self.decision.arguments
        told: Json = {
            "requestedSchema": {},
            "policy_name": "approvals",
            "content_preview": shortened(preview.text),
            "preview": preview.text,
            "details": plain(vars(preview)),
            "tool": self.tool,
            "call_id": self.call_id,
            "arguments": arguments,
            "offers": [{**offer.rule, "id": offer.id} for offer in self.offers],
            "scopes": list(SCOPES if self.offers else SCOPES[:1]),
        }
        self.update(clean(told))

    @property
    def arguments(self) -> Json:
        """With which it would run."""
        return self.decision.arguments


@dataclass(frozen=True, eq=False, kw_only=True)
class FormQuestion(SessionQuestion):
    """A few things that a tool, or the chat itself, has to know. `schema` is a flat JSON Schema."""

    schema: Json
    tool: str | None = None
    policy_name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = {"tool": self.tool, "policy_name": self.policy_name}
        self.update({name: value for name, value in names.items() if value})
        self.update(requestedSchema=clean(self.schema))


def shortened(text: str) -> str:
    """A preview of at most 1,024 characters."""
    return text if len(text) <= PREVIEW_CHARS else text[:PREVIEW_CHARS] + CUT_MARK
