"""`/v1/completions`: raw text goes on, without a chat template."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from app.server.errors import described, refused
from app.server.models import Served
from app.server.openai.body import read
from app.server.openai.chat import Head, StreamOptions, finish_of
from app.server.openai.logprobs import flat
from app.server.openai.sampling import MOST_REPLIES, Sampling, config_of
from app.server.openai.usage import Usage
from app.server.service import Service, service_of
from app.server.streams import DONE, Ahead, EventStream, frame, unless_gone
from app.sessions.records import new_id
from backend.chat_engine import Request
from backend.types import ChatOutcome, Piece, TextPiece, TokenLogprob

USUAL_TOKENS = 16
"""Of a completion that names no number, as OpenAI's API has it."""
Prompt = str | list[str] | list[int] | list[list[int]]


class CompletionBody(Sampling):
    """The body of a completion."""

    model: str | None = None
    prompt: Prompt = Field("", union_mode="left_to_right")
    suffix: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: int | None = Field(None, ge=0, le=20)
    echo: bool | None = None
    best_of: int | None = Field(None, ge=1)


async def complete(http: HttpRequest) -> Response:
    """Answer a completion."""
    body = await read(http, CompletionBody)
    service = service_of(http)
    model = await service.models.find(body.model)
    if body.suffix:
        raise refused("This server writes on at the end only.", "suffix")
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise refused("best_of is not possible; give n alone.", "best_of")
    head = Head(model.name, id=new_id("cmpl"))
    prompts = await unless_gone(http, _texts(service, model, body.prompt))
    requests = _requests(body, prompts)
    if body.stream:
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        return await _stream(http, requests, model, head, body, with_usage=with_usage)
    return JSONResponse(await unless_gone(http, _whole(service, requests, model, head, body)))


async def _texts(service: Service, model: Served, prompt: Prompt) -> list[str]:
    """The prompts as texts: tokens are read as the model's."""
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise refused("The list of prompts is empty.", "prompt")
    if len(prompt) > MOST_REPLIES and not isinstance(prompt[0], int):
        raise refused(f"A request has at most {MOST_REPLIES} prompts.", "prompt")
    if isinstance(prompt[0], str):
        return [str(text) for text in prompt]
    lists: list[Any] = [prompt] if isinstance(prompt[0], int) else list(prompt)
    async with service.engine(model, 0) as engine:
        return [await engine.detokenize(ids_of(ids)) for ids in lists]


def ids_of(value: object) -> list[int]:
    """The ids of tokens in a list."""
    return [item for item in cast("list[object]", value) if isinstance(item, int)]


def _requests(body: CompletionBody, prompts: list[str]) -> list[Request]:
    config = config_of(body, max_new_tokens=body.max_tokens or USUAL_TOKENS, logprobs=body.logprobs)
    return [Request(text=text, config=config, n=body.n or 1) for text in prompts]


async def _whole(
    service: Service, requests: list[Request], model: Served, head: Head, body: CompletionBody
) -> dict[str, Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_answer(service, request, model)) for request in requests]
    choices: list[dict[str, Any]] = []
    outcomes: list[ChatOutcome] = []
    usages: list[Usage] = []
    for request, task in zip(requests, tasks, strict=True):
        replies, tokens = task.result()
        usages.append(Usage.of(replies))
        for outcome in replies:
            spoken = tokens[outcome.reply] if body.logprobs is not None else None
            text = f"{request.text}{outcome.text}" if body.echo else outcome.text
            choices.append(_choice(len(choices), text, finish_of(outcome), spoken))
        outcomes += replies
    return {**head.of("text_completion"), "choices": choices, "usage": _sum(usages).for_chat()}


async def _answer(
    service: Service, request: Request, model: Served
) -> tuple[list[ChatOutcome], list[list[TokenLogprob]]]:
    outcomes: list[ChatOutcome] = []
    tokens: list[list[TokenLogprob]] = [[] for _ in range(request.n)]
    async with aclosing(service.answer(request, model)) as steps:
        async for pieces in steps:
            for piece in pieces:
                if isinstance(piece, ChatOutcome):
                    outcomes.append(piece)
                elif isinstance(piece, TextPiece):
                    tokens[piece.reply] += piece.tokens
    return sorted(outcomes, key=lambda outcome: outcome.reply), tokens


def _choice(
    index: int, text: str, finish: str | None, tokens: list[TokenLogprob] | None = None
) -> dict[str, Any]:
    logprobs = None if tokens is None else flat(tokens)
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


def _sum(usages: list[Usage]) -> Usage:
    """Of all prompts of a request."""
    total = Usage(0)
    for one in usages:
        total = replace(
            total,
            prompt=total.prompt + one.prompt,
            written=total.written + one.written,
            cached=total.cached + one.cached,
        )
    return total


# ---- a stream ------------------------------------------------------------------------------


async def _stream(
    http: HttpRequest,
    requests: list[Request],
    model: Served,
    head: Head,
    body: CompletionBody,
    *,
    with_usage: bool,
) -> EventStream:
    if len(requests) > 1:
        raise refused("A stream has one prompt.", "prompt")
    steps = Ahead(service_of(http).answer(requests[0], model))
    try:
        first = await unless_gone(http, anext(steps))
    except BaseException:
        await steps.aclose()
        raise
    return EventStream(_frames(first, steps, requests[0], head, body, with_usage=with_usage))


async def _frames(
    first: list[Piece],
    steps: Ahead[list[Piece]],
    request: Request,
    head: Head,
    body: CompletionBody,
    *,
    with_usage: bool,
) -> AsyncGenerator[bytes]:
    outcomes: list[ChatOutcome] = []
    same = {**head.of("text_completion"), **({"usage": None} if with_usage else {})}

    def chunks(pieces: list[Piece]) -> bytes:
        made: list[dict[str, Any]] = []
        for piece in pieces:
            if isinstance(piece, TextPiece) and piece.text:
                tokens = list(piece.tokens) if body.logprobs is not None else None
                made.append(_choice(piece.reply, piece.text, None, tokens))
            elif isinstance(piece, ChatOutcome):
                outcomes.append(piece)
                made.append(_choice(piece.reply, "", finish_of(piece)))
        return b"".join(frame({**same, "choices": [choice]}) for choice in made)

    try:
        if body.echo and request.text:
            for reply in range(request.n):
                yield frame({**same, "choices": [_choice(reply, request.text, None)]})
        if data := chunks(first):
            yield data
        async for pieces in steps:
            if data := chunks(pieces):
                yield data
        if with_usage:
            yield frame({**same, "choices": [], "usage": Usage.of(outcomes).for_chat()})
        yield DONE
    except Exception as err:
        yield frame(described(err).body)
    finally:
        await steps.aclose()
