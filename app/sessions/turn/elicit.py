"""Questions to a person: asked once, answered at most once, and no answer is a no."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.characters import clean
from app.sessions.events import ElicitationRequestEvent, ElicitationResolvedEvent, SessionEvent
from app.sessions.questions import SessionQuestion
from app.sessions.records import Json, new_id
from app.sessions.shapes import PendingElicitation

Action = Literal["accept", "decline", "cancel"]
ASK_TIMEOUT_S = 86_400.0


@dataclass(frozen=True)
class Answer:
    """What a person said. Only "accept" allows anything."""

    action: Action
    content: Json = field(default_factory=dict[str, Any])

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@dataclass
class _Pending:
    event: ElicitationRequestEvent
    answer: asyncio.Future[Answer]


class Elicitations:
    """The open questions of one session. `publish` reaches its subscribers and its ancestors'."""

    def __init__(self, publish: Callable[[SessionEvent], None]) -> None:
        self._publish = publish
        self._pending: dict[str, _Pending] = {}

    @property
    def pending(self) -> list[PendingElicitation]:
        """The open questions, oldest first."""
        events = (pending.event for pending in self._pending.values())
        return [
            PendingElicitation(
                type=event.type,
                elicitation_id=event.elicitation_id,
                params=event.params,
                method=event.method,
            )
            for event in events
        ]

    async def ask(self, question: SessionQuestion, *, timeout_s: float = ASK_TIMEOUT_S) -> Answer:
        """Ask and wait. Time that runs out is "cancel"; whoever waits may also be cancelled."""
        event = ElicitationRequestEvent(elicitation_id=new_id("elicit"), params=question)
        pending = _Pending(event, asyncio.get_running_loop().create_future())
        self._pending[event.elicitation_id] = pending
        try:
            self._publish(event)
            async with asyncio.timeout(timeout_s):
                return await pending.answer
        except TimeoutError:
            return Answer("cancel", {"timeout": True})
        finally:
            self._pending.pop(event.elicitation_id, None)
            self._publish(ElicitationResolvedEvent(elicitation_id=event.elicitation_id))

    def resolve(self, elicitation_id: str, result: Mapping[str, Any]) -> bool:
        """Answer a question. A late or repeated answer changes nothing and returns False."""
        pending = self._pending.get(elicitation_id)
        if pending is None or pending.answer.done():
            return False
        pending.answer.set_result(read_answer(result))
        return True

    def cancel_all(self) -> None:
        """Close every open question as not accepted."""
        for elicitation_id in list(self._pending):
            self.resolve(elicitation_id, {"action": "cancel"})


def read_answer(result: Mapping[str, Any]) -> Answer:
    """The answer in a body from outside; anything but an exact "accept" refuses."""
    content = result.get("content")
    kept: Json = {}
    if isinstance(content, Mapping):
        try:
            kept = clean(dict(content))  # pyright: ignore[reportUnknownArgumentType]
        except RecursionError:  # Nobody can have meant that.
            return Answer("decline")
    match result.get("action"):
        case "accept":
            return Answer("accept", kept)
        case "cancel":
            return Answer("cancel", kept)
        case _:
            return Answer("decline", kept)
