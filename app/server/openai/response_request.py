"""A request for a response: what is asked, what came before it, and what the client gets of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from app.server.errors import ApiError, refused
from app.server.models import Served
from app.server.openai.body import Body, mapping
from app.server.openai.chat import schema_of
from app.server.openai.response_items import items_of, outputs
from app.server.openai.sampling import Sampling, config_of
from app.server.openai.tools import choice_of, tools_of
from app.server.openai.usage import Usage
from app.server.service import Service
from app.sessions.errors import FiresideError
from app.sessions.items import Item
from app.sessions.records import Json, new_id
from app.sessions.turn.history import turns_of
from backend.chat_engine import Request
from backend.types import ChatOutcome

_CUT = {"length": "max_output_tokens"}


class ReasoningOptions(Body):
    """How much the model thinks."""

    effort: str | None = None


class ResponseBody(Sampling):
    """The body of a response."""

    model: str | None = None
    input: Any = None
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    store: bool | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    text: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    background: bool | None = None
    conversation: Any = None
    prompt: Any = None


@dataclass
class Asked:
    """One request, with what came before it."""

    body: ResponseBody
    model: Served
    request: Request
    said: list[Item]
    """What this request adds to the conversation."""
    before: tuple[str, str] | None
    """The session and the item that it goes on from; None for a new conversation."""
    id: str = field(default_factory=lambda: new_id("resp"))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def stored(self) -> bool:
        return self.body.store is not False


async def asked_of(service: Service, body: ResponseBody) -> Asked:
    """What a body asks. ApiError for what cannot be asked."""
    for name in ("background", "conversation", "prompt"):
        if getattr(body, name):
            raise refused(f"{name} is not possible here.", name)
    if body.n not in (None, 1):
        raise refused("A response is one reply.", "n")
    model = await service.models.find(body.model)
    said = items_of(body.input, model.name)
    before, path = None, list[Item]()
    if body.previous_response_id is not None:
        session_id, path = await conversation(service, body.previous_response_id)
        before = session_id, path[-1].id
    choice, tools = choice_of(body.tool_choice, tools_of(body.tools, flat=True))
    config = config_of(
        body,
        max_new_tokens=body.max_output_tokens,
        json_schema=schema_of(_form(body.text)),
        tool_choice=choice if tools else None,
        parallel_tool_calls=body.parallel_tool_calls,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        overflow="truncate_oldest" if body.truncation == "auto" else None,
    )
    turns = turns_of([*path, *said], system=body.instructions, mark_interrupted=False)
    return Asked(body, model, Request(messages=turns, tools=tools, config=config), said, before)


def _form(text: dict[str, Any] | None) -> dict[str, Any] | None:
    """The form of an answer, as chat completions name it."""
    if text is None or text.get("format") is None:
        return None
    form = mapping(text["format"])
    return {"type": "json_schema", "json_schema": form} if form.get("type") == "json_schema" else form


async def conversation(service: Service, response_id: str) -> tuple[str, list[Item]]:
    """The chat of a response that was stored, and what was said up to it. ApiError (404) for any other."""
    try:
        return await service.manager.conversation_of(response_id)
    except FiresideError as err:
        if err.status_code != 404:
            raise
        raise ApiError(
            404,
            "There is no such response here. Only those that were stored can be named.",
            code="previous_response_not_found",
            param="previous_response_id",
        ) from err


async def keep(service: Service, asked: Asked, items: Sequence[Item]) -> None:
    """Remember what was said, where the client wants it."""
    if asked.stored:
        await service.manager.add_exchange([*asked.said, *items], after=asked.before)


def response_json(
    asked: Asked,
    items: Sequence[Item] = (),
    outcome: ChatOutcome | None = None,
    *,
    error: Json | None = None,
) -> Json:
    """A response as a client gets it; without an outcome it is still being made, or has failed."""
    body = asked.body
    cut = _CUT.get(outcome.finish) if outcome else None
    status = "failed" if error else "in_progress" if outcome is None else "incomplete" if cut else "completed"
    return {
        "id": asked.id,
        "object": "response",
        "created_at": asked.created,
        "completed_at": int(time.time()) if outcome else None,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "model": asked.model.name,
        "output": outputs(items),
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "reasoning": {"effort": body.reasoning.effort if body.reasoning else None, "summary": None},
        "store": asked.stored,
        "temperature": body.temperature,
        "text": {"format": _form_json(body.text)},
        "tool_choice": body.tool_choice or "auto",
        "tools": body.tools or [],
        "top_p": body.top_p,
        "truncation": body.truncation or "disabled",
        "usage": Usage.of([outcome]).for_responses() if outcome else None,
        "metadata": body.metadata or {},
    }


def _form_json(text: dict[str, Any] | None) -> Json:
    return mapping((text or {}).get("format")) or {"type": "text"}
