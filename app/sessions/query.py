"""What a question to a session gives back: the answer's text and files, whole or as it comes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from app.sessions.events import (
    TERMINAL_TYPES,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    Response,
    ResponseCompletedEvent,
    ResponseEvent,
    SessionEvent,
)
from app.sessions.items import Message, text_of
from app.sessions.records import Json

FileOf: TypeAlias = Callable[[OutputFileDoneEvent], Awaitable[Json]]


@dataclass(frozen=True)
class QueryResult:
    """A turn's answer. `text` may be empty.

    `finish_reason` is the response's status, or why it is incomplete.
    """

    text: str
    files: list[Json] = field(default_factory=list[Json])
    usage: Json | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    duration_s: float = 0.0


class Gathered:
    """Collects a turn's answer from its events; deltas and final items never count twice."""

    def __init__(self, file_of: FileOf) -> None:
        self._file_of = file_of
        self._parts: list[str] = []
        self._streamed: set[str | None] = set()
        self._any_delta = False
        self._began = time.monotonic()
        self._response: Response | None = None
        self.files: list[Json] = []

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
            case ResponseCompletedEvent() if not self._parts:
                text = _text_of_output(event.response.output)
            case _:
                pass
        if isinstance(event, TERMINAL_TYPES):
            self._response = cast(ResponseEvent, event).response
        if text:
            self._parts.append(text)
        return text

    def result(self) -> QueryResult:
        """What was collected so far."""
        response = self._response
        reason = None
        if response is not None:
            reason = (response.incomplete_details or {}).get("reason") or response.status
        return QueryResult(
            text="".join(self._parts),
            files=list(self.files),
            usage=response.usage if response else None,
            finish_reason=reason,
            response_id=response.id if response else None,
            duration_s=time.monotonic() - self._began,
        )


class QueryStream:
    """An answer's text as it comes. Nothing is sent until it is iterated, which works once."""

    def __init__(self, send: Callable[[], AsyncGenerator[SessionEvent]], file_of: FileOf) -> None:
        self._send = send
        self._gathered = Gathered(file_of)
        self._used = False

    @property
    def files(self) -> list[Json]:
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
            async for event in events:
                if text := await self._gathered.take(event):
                    yield text


def _text_of_output(output: tuple[Json, ...]) -> str:
    messages = (item for item in output if item.get("type") == "message" and item.get("role") == "assistant")
    return "".join(text_of(message.get("content") or ()) for message in messages)
