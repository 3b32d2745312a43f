"""`/v1/responses`: answers that the server remembers, so that the next request names only the last one.

They are kept as chats in the store of the sessions; two requests that go on from the same answer are two
branches of one chat.
"""

from __future__ import annotations

from contextlib import aclosing

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from app.server.openai.body import read
from app.server.openai.response_items import made_of, outputs
from app.server.openai.response_request import (
    Asked,
    ResponseBody,
    asked_of,
    conversation,
    keep,
    response_json,
)
from app.server.openai.response_stream import stream
from app.server.service import Service, service_of
from app.server.streams import unless_gone
from app.sessions.agents import DEFAULT_AGENT
from app.sessions.records import Json
from backend.types import ChatOutcome


async def create(http: HttpRequest) -> Response:
    """Answer a request, whole or as a stream."""
    body = await read(http, ResponseBody)
    service = service_of(http)
    asked = await asked_of(service, body)
    if body.stream:
        return await stream(http, asked)
    return JSONResponse(await unless_gone(http, _whole(service, asked)))


async def _whole(service: Service, asked: Asked) -> Json:
    outcome: ChatOutcome | None = None
    async with aclosing(service.answer(asked.request, asked.model)) as steps:
        async for pieces in steps:
            for piece in pieces:
                if isinstance(piece, ChatOutcome):
                    outcome = piece
    assert outcome is not None
    items = made_of(outcome, asked.id, asked.model.name, DEFAULT_AGENT)
    await keep(service, asked, items)
    return response_json(asked, items, outcome)


# ---- those that were stored ------------------------------------------------------------------


async def show(http: HttpRequest) -> Response:
    """A response that was stored."""
    response_id = str(http.path_params["response_id"])
    _, path = await conversation(service_of(http), response_id)
    items = [item for item in path if item.response_id == response_id]
    cut = any(item.status == "incomplete" for item in items)
    answer = {
        "id": response_id,
        "object": "response",
        "created_at": items[0].created_at,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "model": items[0].llm_model,
        "output": outputs(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {},
    }
    return JSONResponse(answer)
