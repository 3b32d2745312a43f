"""What happens in a chat: inputs that are posted, answers to its questions, and the stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.server.errors import refused
from app.server.openai.body import read_json
from app.server.service import Service, service_of
from app.server.sessions.collection import session_of
from app.server.streams import EventStream, end, frame
from app.sessions.events import SessionEvent, SessionHeartbeatEvent

DONE = b"event: done\ndata: [DONE]\n\n"
QUIET_S = 15.0
_TAKEN = frozenset(
    "message function_call_output interrupt stop_session compact approval slash_command".split()
)


async def post(request: Request) -> Response:
    """Take one input; 202 says whether it was queued."""
    event = await read_json(request)
    service, session_id = service_of(request), session_of(request)
    kind, data = event.get("type"), event.get("data")
    if not isinstance(kind, str) or kind not in _TAKEN:
        raise refused("There is no such type of input.", "type")
    if kind == "message":
        await service.rights.require_served(service.manager, session_id)
    if kind == "approval" and isinstance(data, dict):
        await _require_answerable(service, session_id, data.get("elicitation_id"), data)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    ack = await service.manager.post_event(session_id, event)
    return JSONResponse(dict(ack), 202)


async def resolve(request: Request) -> Response:
    """Answer a question of the chat; a late or repeated answer is harmless."""
    answer = await read_json(request)
    service, session_id = service_of(request), session_of(request)
    elicitation_id = str(request.path_params["elicitation_id"])
    if answer.get("action") not in ("accept", "decline", "cancel"):
        raise refused("action is accept, decline or cancel.", "action")
    await _require_answerable(service, session_id, elicitation_id, answer)
    await service.manager.resolve_elicitation(session_id, elicitation_id, answer)
    return JSONResponse({"queued": False})


async def _require_answerable(
    service: Service, session_id: str, elicitation_id: object, answer: dict[str, Any]
) -> None:
    await service.rights.require_answerable(service.manager, session_id, str(elicitation_id), answer)


async def stream(request: Request) -> Response:
    """The events of the chat from now on, until the server ends or the client goes."""
    service, session_id = service_of(request), session_of(request)
    await service.manager.record(session_id)
    return EventStream(_frames(service, session_id))


async def _frames(service: Service, session_id: str) -> AsyncGenerator[bytes]:
    events = service.manager.stream(session_id)
    closing = asyncio.ensure_future(service.closing.wait())
    reading: asyncio.Future[SessionEvent] | None = None
    try:
        while True:
            reading = reading or asyncio.ensure_future(anext(events))
            await asyncio.wait({reading, closing}, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                try:
                    event = reading.result()
                except StopAsyncIteration:
                    break
                finally:
                    reading = None
                yield framed(event)
            elif closing.done():
                break
            else:
                yield framed(SessionHeartbeatEvent())
        yield DONE
    finally:
        closing.cancel()
        if reading is not None:
            await end(reading)
        await events.aclose()


def framed(event: SessionEvent) -> bytes:
    """An event as it is sent."""
    return frame(event.to_wire(), event.type)
