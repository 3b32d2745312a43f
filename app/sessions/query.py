"""What a question to a session gives back: the answer's text and files, whole or as it comes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from app.sessions.errors import FiresideError
from app.sessions.events import (
    TERMINAL_TYPES,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    Response,
    ResponseEvent,
    SessionEvent,
    SessionInputConsumedEvent,
    SessionQueueEvent,
    SessionStatusEvent,
    response_of,
)
from app.sessions.items import Message, text_of
from app.sessions.records import Json
from app.sessions.shapes import File, Usage

Heard: TypeAlias = tuple[SessionEvent, bool]
"""An event, and whether it belongs to the turn that was asked for."""
FileOf: TypeAlias = Callable[[OutputFileDoneEvent], Awaitable[File]]


@dataclass(frozen=True)
class QueryResult:
    """A turn's answer. `text` may be empty.

    `finish_reason` is the response's status, or why it is incomplete.
    """

    text: str
    files: list[File] = field(default_factory=list[File])
    usage: Usage | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    duration_s: float = 0.0


class Gathered:
    """Collects a turn's answer from its events; deltas and final items never count twice.

    With `whole` the answer is what its end says it is, also for who came late.
    """

    def __init__(self, file_of: FileOf, *, whole: bool = False) -> None:
        self._file_of = file_of
        self._whole = whole
        self._parts: list[str] = []
        self._streamed: set[str | None] = set()
        self._foreign: set[str] = set()
        self._began = time.monotonic()
        self._response: Response | None = None
        self.files: list[File] = []

    def pass_over(self, event: SessionEvent) -> None:
        """Remember of an event that it is another question's."""
        if isinstance(event, OutputItemDoneEvent):
            self._foreign.add(event.item.id)

    async def take(self, event: SessionEvent) -> str:
        """Follow one event; returns the text it adds to the answer."""
        text = ""
        match event:
            case OutputTextDeltaEvent(delta=delta):
                self._streamed.add(event.message_id)
                text = delta
            case OutputItemDoneEvent(item=Message(role="assistant") as item):
                seen = item.id in self._streamed or None in self._streamed
                text = "" if seen else item.text
            case OutputFileDoneEvent():
                self.files.append(await self._file_of(event))
            case ResponseEvent() if isinstance(event, TERMINAL_TYPES):
                return self._end(event.response)
            case _:
                pass
        if text:
            self._parts.append(text)
        return text

    def _end(self, response: Response) -> str:
        self._response = response
        said = _text_of_output([item for item in response.output if item.get("id") not in self._foreign])
        if self._whole and said:
            self._parts = [said]
        elif response.status == "completed" and not self._parts and said:
            self._parts.append(said)
            return said
        return ""

    def result(self) -> QueryResult:
        """What was collected so far."""
        response = self._response
        reason = None
        if response is not None:
            reason = (response.incomplete_details or {}).get("reason") or response.status
        return QueryResult(
            text="".join(self._parts),
            files=list(self.files),
            usage=Usage.of(response.usage) if response else None,
            finish_reason=reason,
            response_id=response.id if response else None,
            duration_s=time.monotonic() - self._began,
        )


class QueryStream:
    """An answer's text as it comes. Nothing is sent until it is iterated, which works once."""

    def __init__(self, send: Callable[[], AsyncGenerator[Heard]], file_of: FileOf) -> None:
        self._send = send
        self._gathered = Gathered(file_of)
        self._used = False

    @property
    def files(self) -> list[File]:
        """The files so far; complete once the stream is exhausted."""
        return list(self._gathered.files)

    @property
    def result(self) -> QueryResult:
        """The answer so far, with usage and the reason of its end once there is one."""
        return self._gathered.result()

    def __aiter__(self) -> AsyncIterator[str]:
        if self._used:
            raise RuntimeError("A QueryStream can be iterated once.")
        self._used = True
        return self._texts()

    async def _texts(self) -> AsyncGenerator[str]:
        async with aclosing(self._send()) as events:
            async for event, is_own in events:
                if not is_own:
                    self._gathered.pass_over(event)
                elif text := await self._gathered.take(event):
                    yield text


@dataclass
class OwnTurn:
    """Which turn answers the message that was posted; other turns' events pass by.

    Without an `item_id` nothing tells them apart: all events count, and the first end is the end.
    """

    item_id: str | None
    response_id: str | None = None
    _waits: bool = False

    def owns(self, event: SessionEvent) -> bool:
        """Whether an event belongs to it. To be asked of every event, in their order."""
        if self.item_id is None:
            return True
        if isinstance(event, SessionInputConsumedEvent) and event.item_id == self.item_id:
            self.response_id = event.response_id
        return self.response_id is not None and response_of(event) in (None, self.response_id)

    def ends_with(self, event: SessionEvent) -> bool:
        """Whether this event ends it. Raises FiresideError where it died before its response."""
        match event:
            case SessionQueueEvent() if self.response_id is None and self.item_id is not None:
                present = any(item.get("id") == self.item_id for item in event.inputs)
                if self._waits and not present:
                    # Taken back before it was sent.
                    return True
                self._waits = present
            case ResponseEvent() if isinstance(event, TERMINAL_TYPES):
                return self.item_id is None or event.response.id == self.response_id
            case SessionStatusEvent(status="failed") if self._is_about(event.response_id):
                raise failure(event)
            case _:
                pass
        return False

    def _is_about(self, response_id: str | None) -> bool:
        if self.item_id is None:
            return True
        return self.response_id is not None and response_id in (None, self.response_id)


def failure(event: SessionStatusEvent) -> FiresideError:
    """The error of a turn that died before its response existed."""
    error = event.error or {}
    found = FiresideError(str(error.get("message") or "turn failed"), code=error.get("code"))
    found.remedy = str(error.get("remediation") or "")
    return found


def _text_of_output(output: Sequence[Json]) -> str:
    messages = (item for item in output if item.get("type") == "message" and item.get("role") == "assistant")
    return "".join(_text_of_content(message.get("content")) for message in messages)


def _text_of_content(content: Any) -> str:
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return text_of([cast(Json, block) for block in blocks if isinstance(block, dict)])
