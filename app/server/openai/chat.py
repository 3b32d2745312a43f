"""`/v1/chat/completions`: the engine's request made of what is asked, and its answer, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from app import __version__
from app.server.errors import described, refused
from app.server.models import Served
from app.server.openai.body import Body, read
from app.server.openai.calls import CallWriter, arguments_of
from app.server.openai.logprobs import content_of
from app.server.openai.messages import turns_of
from app.server.openai.sampling import Sampling, config_of
from app.server.openai.tools import choice_of, tools_of
from app.server.openai.usage import Usage
from app.server.service import Service, service_of
from app.server.streams import DONE, Ahead, EventStream, frame, unless_gone
from app.sessions.records import new_id
from backend.chat_engine import Request
from backend.types import ChatOutcome, Piece, ReasoningPiece, TextPiece, TokenLogprob, ToolCall, ToolCallPiece

FINGERPRINT = f"fireside-{__version__}"
_FINISH = {"stop_string": "stop"}
MOST_MESSAGES = 10_000


class StreamOptions(Body):
    """What a stream contains beside the reply."""

    include_usage: bool | None = None


class ChatBody(Sampling):
    """The body of a chat completion."""

    model: str | None = None
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[str] | None = None


async def complete(http: HttpRequest) -> Response:
    """Answer a chat completion."""
    body = await read(http, ChatBody)
    service = service_of(http)
    model = await service.models.find(body.model)
    request = request_of(body, model)
    head = Head(model.name)
    if body.stream:
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        return await _stream(http, request, model, head, with_usage=with_usage)
    return JSONResponse(await unless_gone(http, _whole(service, request, model, head)))


def request_of(body: ChatBody, model: Served) -> Request:
    """What the engine is asked. ApiError or ValueError for what cannot be asked."""
    if body.functions:
        raise refused("functions are long deprecated; offer tools instead.", "functions")
    if set(body.modalities or ()) - {"text"}:
        raise refused(f"{model.name} writes text only.", "modalities", "unsupported_content")
    if body.top_logprobs is not None and not body.logprobs:
        raise refused("top_logprobs needs logprobs to be true.", "top_logprobs")
    choice, tools = choice_of(body.tool_choice, tools_of(body.tools))
    config = config_of(
        body,
        max_new_tokens=body.max_completion_tokens or body.max_tokens,
        json_schema=schema_of(body.response_format),
        tool_choice=choice if tools else None,
        parallel_tool_calls=body.parallel_tool_calls,
        enable_thinking=_thinking(body.chat_template_kwargs),
        reasoning_effort=body.reasoning_effort,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
    return Request(messages=turns_of(body.messages, model.name), tools=tools, config=config, n=body.n or 1)


def _thinking(values: dict[str, Any] | None) -> bool | None:
    value = (values or {}).get("enable_thinking")
    return value if isinstance(value, bool) else None


def schema_of(form: dict[str, Any] | None) -> dict[str, Any] | None:
    """The JSON Schema that a `response_format` asks for; None for text."""
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object", "schema": {**schema}} if schema:  # llama-server's addition
            return dict(schema)
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": {**schema}}}:
            return dict(schema)
        case {"type": "json_schema"}:
            raise refused(
                "A response_format of type json_schema needs json_schema.schema.", "response_format"
            )
        case _:
            raise refused(
                "response_format is of type text, json_object or json_schema.", "response_format.type"
            )


@dataclass
class Head:
    """What every part of one answer begins with."""

    model: str
    id: str = field(default_factory=lambda: new_id("chatcmpl"))
    created: int = field(default_factory=lambda: int(time.time()))

    def of(self, kind: str) -> dict[str, Any]:
        """The fields, of an object of this kind."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }


def finish_of(outcome: ChatOutcome) -> str:
    """Why a reply ended, in OpenAI's words."""
    return _FINISH.get(outcome.finish, outcome.finish)


# ---- a whole answer ------------------------------------------------------------------------


async def _whole(service: Service, request: Request, model: Served, head: Head) -> dict[str, Any]:
    outcomes: list[ChatOutcome] = []
    spoken: list[list[TokenLogprob]] = [[] for _ in range(request.n)]
    async with aclosing(service.answer(request, model)) as steps:
        async for pieces in steps:
            for piece in pieces:
                if isinstance(piece, ChatOutcome):
                    outcomes.append(piece)
                elif isinstance(piece, TextPiece):
                    spoken[piece.reply] += piece.tokens
    outcomes.sort(key=lambda outcome: outcome.reply)
    wants_logprobs = request.config.logprobs is not None
    choices = [_choice(outcome, spoken[outcome.reply] if wants_logprobs else None) for outcome in outcomes]
    return {**head.of("chat.completion"), "choices": choices, "usage": Usage.of(outcomes).for_chat()}


def _choice(outcome: ChatOutcome, logprobs: list[TokenLogprob] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": outcome.text, "refusal": None}
    if outcome.reasoning:
        message["reasoning_content"] = outcome.reasoning
    if outcome.tool_calls:
        message["content"] = outcome.text or None
        message["tool_calls"] = [_call(call) for call in outcome.tool_calls]
    return {
        "index": outcome.reply,
        "message": message,
        "logprobs": None if logprobs is None else content_of(logprobs),
        "finish_reason": finish_of(outcome),
    }


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_of(call)}
    return {"id": call.id, "type": "function", "function": function}


# ---- a stream ------------------------------------------------------------------------------


async def _stream(
    http: HttpRequest, request: Request, model: Served, head: Head, *, with_usage: bool
) -> EventStream:
    """The stream, once the engine has begun: what fails before is an answer with a status of its own."""
    steps = Ahead(service_of(http).answer(request, model))
    try:
        first = await unless_gone(http, anext(steps))
    except BaseException:
        await steps.aclose()
        raise
    chunks = _Chunks(head, request, with_usage=with_usage)
    return EventStream(_frames(first, steps, chunks))


async def _frames(first: list[Piece], steps: Ahead[list[Piece]], chunks: _Chunks) -> AsyncGenerator[bytes]:
    try:
        for chunk in chunks.opening():
            yield frame(chunk)
        for chunk in chunks.of(first):
            yield frame(chunk)
        async for pieces in steps:
            if made := chunks.of(pieces):
                yield b"".join(map(frame, made))
        if chunks.with_usage:
            yield frame(chunks.usage())
        yield DONE
    except Exception as err:
        yield frame(described(err).body)
    finally:
        await steps.aclose()


class _Chunks:
    """The chunks of one answer, made of the pieces of its replies."""

    def __init__(self, head: Head, request: Request, *, with_usage: bool) -> None:
        self.with_usage = with_usage
        self._head = head.of("chat.completion.chunk")
        self._n = request.n
        self._wants_logprobs = request.config.logprobs is not None
        self._calls = [CallWriter() for _ in range(request.n)]
        self._outcomes: list[ChatOutcome] = []

    def opening(self) -> list[dict[str, Any]]:
        return [self._chunk(reply, {"role": "assistant", "content": ""}) for reply in range(self._n)]

    def of(self, pieces: list[Piece]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for piece in pieces:
            match piece:
                case TextPiece(text, tokens, reply) if text:
                    made.append(self._chunk(reply, {"content": text}, tokens=tokens))
                case ReasoningPiece(text, _, reply) if text:
                    made.append(self._chunk(reply, {"reasoning_content": text}))
                case ToolCallPiece():
                    deltas = self._calls[piece.reply].take(piece)
                    made += [self._chunk(piece.reply, {"tool_calls": [delta]}) for delta in deltas]
                case ChatOutcome():
                    made += self._end(piece)
                case _:
                    pass
        return made

    def _end(self, outcome: ChatOutcome) -> list[dict[str, Any]]:
        self._outcomes.append(outcome)
        rest = self._calls[outcome.reply].finish(outcome.tool_calls)
        made = [self._chunk(outcome.reply, {"tool_calls": [delta]}) for delta in rest]
        return [*made, self._chunk(outcome.reply, {}, finish=finish_of(outcome))]

    def _chunk(
        self,
        reply: int,
        delta: dict[str, Any],
        *,
        tokens: tuple[TokenLogprob, ...] = (),
        finish: str | None = None,
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": reply, "delta": delta, "logprobs": None, "finish_reason": finish}
        if self._wants_logprobs and tokens:
            choice["logprobs"] = content_of(tokens)
        chunk = {**self._head, "choices": [choice]}
        return {**chunk, "usage": None} if self.with_usage else chunk

    def usage(self) -> dict[str, Any]:
        return {**self._head, "choices": [], "usage": Usage.of(self._outcomes).for_chat()}
