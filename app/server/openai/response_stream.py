"""A response as a stream of events: each item is announced, written, and told once more when it is whole."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request as HttpRequest

from app.server.errors import described
from app.server.openai.calls import CallWriter
from app.server.openai.response_items import made_of, shown, shown_call, shown_text, shown_thought
from app.server.openai.response_request import Asked, keep, response_json
from app.server.service import Service, service_of
from app.server.streams import Ahead, EventStream, frame, unless_gone
from app.sessions.agents import DEFAULT_AGENT
from app.sessions.items import FunctionCall, Item, Message, Reasoning
from app.sessions.records import Json, new_id
from backend.types import ChatOutcome, Piece, ReasoningPiece, TextPiece, ToolCallPiece


async def stream(http: HttpRequest, asked: Asked) -> EventStream:
    """The stream, once the engine has begun."""
    service = service_of(http)
    steps = Ahead(service.answer(asked.request, asked.model))
    try:
        first = await unless_gone(http, anext(steps))
    except BaseException:
        await steps.aclose()
        raise
    return EventStream(_frames(service, asked, first, steps))


async def _frames(
    service: Service, asked: Asked, first: list[Piece], steps: Ahead[list[Piece]]
) -> AsyncGenerator[bytes]:
    writer = _Writer()
    try:
        yield writer.told("response.created", response=response_json(asked))
        yield writer.told("response.in_progress", response=response_json(asked))
        outcome: ChatOutcome | None = None
        pending: list[Piece] | None = first
        while pending is not None:
            for piece in pending:
                if isinstance(piece, ChatOutcome):
                    outcome = piece
                elif data := writer.take(piece):
                    yield data
            pending = await anext(steps, None)
        assert outcome is not None
        items = writer.named(made_of(outcome, asked.id, asked.model.name, DEFAULT_AGENT))
        if data := writer.finish(outcome, items):
            yield data
        await keep(service, asked, items)
        whole = response_json(asked, items, outcome)
        yield writer.told(f"response.{whole['status']}", response=whole)
    except Exception as err:
        error = described(err)
        failed = {"code": error.code or "server_error", "message": error.message}
        yield writer.told("response.failed", response=response_json(asked, error=failed))
    finally:
        await steps.aclose()


class _Writer:
    """Makes events of pieces. `ids` are those of the items in their order: thought, text, calls."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._open: tuple[str, str, int] | None = None
        """Kind, id and place of the item that is being written."""
        self._text = ""
        self._places = itertools.count()
        self._ids: dict[str, str] = {}
        """Of the items that were announced: `reasoning`, `message`, and each call by its number."""
        self._calls = CallWriter()
        self._calls_by_place: dict[str, tuple[int, str, str]] = {}

    def told(self, kind: str, **fields: Any) -> bytes:
        """An event, with its number."""
        return frame({"type": kind, "sequence_number": next(self._numbers), **fields}, kind)

    def take(self, piece: Piece) -> bytes:
        """The events of a piece."""
        match piece:
            case TextPiece(text) if text:
                return self._begin("message") + self._more("response.output_text.delta", text, logprobs=[])
            case ReasoningPiece(text) if text:
                return self._begin("reasoning") + self._more("response.reasoning_text.delta", text)
            case ToolCallPiece():
                return b"".join(map(self._call, self._calls.take(piece)))
            case _:
                return b""

    def finish(self, outcome: ChatOutcome, items: list[Item]) -> bytes:
        """The events that are missing now that the reply is whole."""
        data = b"".join(map(self._call, self._calls.finish(outcome.tool_calls)))
        if not self._ids:
            data += self._begin("message")
        return data + self._end(items)

    def named(self, items: list[Item]) -> list[Item]:
        """The items of the finished reply under the ids that they were announced by."""
        from dataclasses import replace

        calls = 0
        named: list[Item] = []
        for item in items:
            key = "message" if isinstance(item, Message) else "reasoning"
            if isinstance(item, FunctionCall):
                key, calls = f"call{calls}", calls + 1
                if key in self._calls_by_place:
                    item = replace(item, call_id=self._calls_by_place[key][1])
            named.append(replace(item, id=self._ids.setdefault(key, item.id)))
        return named

    # ---- one item ----------------------------------------------------------------------------

    def _begin(self, kind: str) -> bytes:
        if self._open is not None and self._open[0] == kind:
            return b""
        data = self._end(None)
        place = next(self._places)
        item_id = self._ids.setdefault(kind, new_id("msg" if kind == "message" else "rs"))
        self._open, self._text = (kind, item_id, place), ""
        if kind == "message":
            item: Json = {
                "id": item_id,
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            part: Json = shown_text("")
        else:
            item, part = shown_thought(item_id, "", "in_progress"), {"type": "reasoning_text", "text": ""}
        data += self.told("response.output_item.added", output_index=place, item=item)
        return data + self.told("response.content_part.added", **self._where(), part=part)

    def _more(self, event: str, text: str, **fields: Any) -> bytes:
        self._text += text
        return self.told(event, **self._where(), delta=text, **fields)

    def _where(self) -> Json:
        assert self._open is not None
        return {"item_id": self._open[1], "output_index": self._open[2], "content_index": 0}

    def _end(self, items: list[Item] | None) -> bytes:
        """End the item that is open; `items` are the whole ones, at the end of the reply."""
        if self._open is None:
            return b""
        kind, item_id, place = self._open
        text = self._text
        if kind.startswith("call"):
            index, call_id, name = self._calls_by_place[kind]
            arguments = self._calls.sent(index)
            data = self.told(
                "response.function_call_arguments.done",
                item_id=item_id,
                output_index=place,
                name=name,
                arguments=arguments,
            )
            item = shown_call(item_id, call_id, name, arguments)
        elif kind == "message":
            part = shown_text(text)
            data = self.told("response.output_text.done", **self._where(), text=text, logprobs=[])
            data += self.told("response.content_part.done", **self._where(), part=part)
            item = {"id": item_id, "type": "message", "role": "assistant", "status": "completed"}
            item = {**item, "content": [part]}
        else:
            part = {"type": "reasoning_text", "text": text}
            data = self.told("response.reasoning_text.done", **self._where(), text=text)
            data += self.told("response.content_part.done", **self._where(), part=part)
            item = shown_thought(item_id, text)
        whole = next((one for one in items or () if one.id == item_id), None)
        if whole is not None and isinstance(whole, Message | Reasoning):
            item = {**item, "status": shown(whole).get("status", "completed")}
        self._open = None
        return data + self.told("response.output_item.done", output_index=place, item=item)

    def _call(self, delta: Json) -> bytes:
        """A call begins, or its arguments go on."""
        key, function = f"call{delta['index']}", delta["function"]
        data = b""
        if "id" in delta:
            data = self._end(None)
            place, item_id = next(self._places), self._ids.setdefault(key, new_id("fc"))
            self._calls_by_place[key] = (delta["index"], delta["id"], function["name"])
            self._open = (key, item_id, place)
            item = shown_call(item_id, delta["id"], function["name"], "", "in_progress")
            data += self.told("response.output_item.added", output_index=place, item=item)
        if not function["arguments"] or self._open is None or self._open[0] != key:
            return data
        where = {"item_id": self._open[1], "output_index": self._open[2]}
        event = "response.function_call_arguments.delta"
        return data + self.told(event, **where, delta=function["arguments"])
