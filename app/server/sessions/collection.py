"""Chats as a collection: made, listed, read, changed, copied, deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import Field
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.characters import clean
from app.server.errors import refused
from app.server.openai.body import Body, as_kind, read
from app.server.service import Service, service_of
from app.sessions.agents import Agent
from app.sessions.bundles import agent_from_bundle
from app.sessions.records import Json
from app.sessions.snapshot import SessionSnapshot

# What is uploaded stays in memory, which is bounded: of a private chat nothing reaches a disk.
MultiPartParser.spool_max_size = 1 << 30
MAX_BUNDLE = 5_000_000
MOST_LISTED = 1000
_CLEARED = "default"
"""What the reference client sends to take a choice back."""
Order = Literal["asc", "desc"]


class NewSession(Body):
    """What a new chat is made of."""

    agent_id: str | None = None
    title: str | None = Field(None, max_length=2000)
    labels: dict[str, str] | None = None
    reasoning_effort: str | None = None
    workspace: str | None = None
    initial_items: list[dict[str, Any]] | None = Field(None, max_length=10_000)


class SessionChange(Body):
    """What is changed of a chat; what is left out or null stays."""

    title: str | None = Field(None, max_length=2000)
    labels: dict[str, str] | None = None
    model_override: str | None = None
    reasoning_effort: str | None = None
    archived: bool | None = None


class Fork(Body):
    """How a chat is copied."""

    title: str | None = Field(None, max_length=2000)
    up_to_response_id: str | None = None


async def create(request: Request) -> Response:
    """A new chat: on a registered agent (JSON), or on the agent of an uploaded bundle (a form)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _create_from_bundle(request)
    wanted = await read(request, NewSession)
    service = service_of(request)
    agent = service.manager.agents.get(wanted.agent_id) if wanted.agent_id else None
    made = await _made(service, agent, wanted)
    return JSONResponse(snapshot_json(made), 201)


async def _create_from_bundle(request: Request) -> Response:
    service = service_of(request)
    async with request.form(max_files=1, max_fields=4, max_part_size=1 << 20) as form:
        metadata, bundle = _parts(form)
        content = await bundle.read()
    if len(content) > MAX_BUNDLE:
        raise refused(f"A bundle has at most {MAX_BUNDLE:,} bytes.", "bundle")
    wanted = as_kind(metadata, NewSession)
    agent = agent_from_bundle(content, bundle.filename or "agent.tar.gz")
    made = await _made(service, await service.rights.agent(agent, service.models), wanted)
    return JSONResponse({"session_id": made.id}, 201)


def _parts(form: FormData) -> tuple[Json, UploadFile]:
    text, bundle = form.get("metadata", "{}"), form.get("bundle")
    if not isinstance(bundle, UploadFile):
        raise refused("The form needs a file named bundle.", "bundle")
    try:
        metadata = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as err:
        raise refused("metadata has to be a JSON object.", "metadata") from err
    if not isinstance(metadata, dict):
        raise refused("metadata has to be a JSON object.", "metadata")
    return clean(cast(Json, metadata)), bundle


async def _made(service: Service, agent: Agent | None, wanted: NewSession) -> SessionSnapshot:
    folder = service.rights.folder(wanted.workspace)
    return await service.manager.create(
        agent,
        title=wanted.title,
        labels=wanted.labels,
        reasoning_effort=wanted.reasoning_effort,
        workspace=folder,
        initial_items=[_message(item, index) for index, item in enumerate(wanted.initial_items or ())],
    )


def _message(item: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    """An item of the past that a client brings: what somebody said, never a call."""
    if item.get("type", "message") != "message" or item.get("role") not in ("user", "assistant"):
        raise refused("initial_items are messages of the user and the assistant.", f"initial_items.{index}")
    known = {name: item[name] for name in ("role", "content") if name in item}
    return {**known, "type": "message", "status": "completed", "agent": str(item.get("agent") or "fireside")}


def snapshot_json(snapshot: SessionSnapshot) -> Json:
    """A snapshot as a client gets it."""
    return {**snapshot.to_wire(), "object": "session"}


async def find(request: Request) -> Response:
    """A page of the chats."""
    query, service = request.query_params, service_of(request)
    words = query.get("search_query")
    limit = whole(request, "limit", 20, MOST_LISTED)
    if query.get("kind") == "sub_agent":
        return JSONResponse(page([], has_more=False))
    agent = query.get("agent_name") or (query.get("agent_id") or "").removeprefix("agent_") or None
    found = await service.manager.list(
        MOST_LISTED if words else limit + 1,
        after=query.get("after"),
        before=query.get("before"),
        agent=agent,
        order=order_of(request, "desc"),
        sort=query.get("sort_by", "updated_at"),
        include_archived=query.get("include_archived") == "true" or query.get("visibility") == "archived",
    )
    entries = [{**summary.to_wire(), "object": "session"} for summary in found]
    if query.get("visibility") == "archived":
        entries = [entry for entry in entries if entry["archived"]]
    if words:
        hits = {str(hit["session_id"]) for hit in await service.manager.search(words, limit=MOST_LISTED)}
        folded = words.casefold()
        titled = {one["id"] for one in entries if folded in str(one["title"] or "").casefold()}
        entries = [one for one in entries if one["id"] in hits | titled]
    return JSONResponse(page(entries[:limit], has_more=len(entries) > limit))


async def show(request: Request) -> Response:
    """A chat with its newest items."""
    with_items = request.query_params.get("include_items", "true") != "false"
    snapshot = await service_of(request).manager.get(session_of(request), include_items=with_items)
    return JSONResponse(snapshot_json(snapshot))


async def change(request: Request) -> Response:
    """Title, labels, model, effort, and whether it is put away."""
    wanted = await read(request, SessionChange)
    service, session_id = service_of(request), session_of(request)
    manager = service.manager
    await manager.record(session_id)
    if wanted.model_override is not None:
        named = None if wanted.model_override == _CLEARED else wanted.model_override
        found = await service.models.find(named) if named else None
        await manager.set_model_override(session_id, found.source if found else None)
    if wanted.reasoning_effort is not None:
        effort = None if wanted.reasoning_effort == _CLEARED else wanted.reasoning_effort
        await manager.set_reasoning_effort(session_id, effort)
    if wanted.title is not None:
        await manager.rename(session_id, wanted.title)
    if wanted.labels is not None:
        await manager.set_labels(session_id, wanted.labels)
    if wanted.archived is not None:
        await manager.archive(session_id, wanted.archived)
    return JSONResponse(snapshot_json(await manager.get(session_id)))


async def delete(request: Request) -> Response:
    """Put a chat away for 30 days."""
    await service_of(request).manager.delete(session_of(request))
    return JSONResponse({"id": session_of(request), "object": "session.deleted", "deleted": True})


async def fork(request: Request) -> Response:
    """A copy of a chat."""
    wanted = await read(request, Fork)
    manager = service_of(request).manager
    copy = await manager.fork(session_of(request), wanted.title, wanted.up_to_response_id)
    return JSONResponse(snapshot_json(await manager.get(copy)), 201)


async def list_items(request: Request) -> Response:
    """A page of what was said."""
    limit = whole(request, "limit", 100, MOST_LISTED)
    after = request.query_params.get("after")
    manager, session_id = service_of(request).manager, session_of(request)
    order = order_of(request, "asc")
    found = await manager.list_items(session_id, limit=limit + 1, after=after, order=order)
    return JSONResponse(page([item.to_wire() for item in found[:limit]], has_more=len(found) > limit))


async def show_agent(request: Request) -> Response:
    """Who answers in a chat, with its tools."""
    record = await service_of(request).manager.record(session_of(request))
    name, given = str(record.agent.get("name")), record.agent.get("tools") or ()
    tools = [{**entry, "runtime": entry.get("runtime", "server")} for entry in given]
    return JSONResponse({"id": f"agent_{name}", "object": "agent", "name": name, "tools": tools})


async def list_children(request: Request) -> Response:
    """The sub-agents of a chat."""
    limit = whole(request, "limit", 100, MOST_LISTED)
    found = await service_of(request).manager.child_sessions(session_of(request))
    found = _beyond(found, request.query_params.get("after"))
    return JSONResponse(page(found[:limit], has_more=len(found) > limit))


async def list_agents(request: Request) -> Response:
    """The agents that a chat can be made with."""
    agents = [
        {"id": agent.id, "object": "agent", "name": agent.name}
        for agent in service_of(request).manager.agents.list()
    ]
    limit = whole(request, "limit", 20, MOST_LISTED)
    agents = _beyond(agents, request.query_params.get("after"))
    return JSONResponse(page(agents[:limit], has_more=len(agents) > limit))


# ---- parameters ----------------------------------------------------------------------------


def session_of(request: Request) -> str:
    """The id of the chat in a path."""
    return str(request.path_params["session_id"])


def page(entries: Sequence[Mapping[str, Any]], *, has_more: bool) -> Json:
    """A list as a client gets it."""
    ids = [entry.get("id") for entry in entries]
    return {
        "object": "list",
        "data": list(entries),
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
        "has_more": has_more,
    }


def whole(request: Request, name: str, default: int, most: int) -> int:
    """A number in the query. ApiError for one that is out of bounds."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise refused(f"{name} is a number from 1 to {most}.", name)
    return int(text)


def order_of(request: Request, default: Order) -> Order:
    """The order in the query."""
    order = request.query_params.get("order", default)
    if order not in ("asc", "desc"):
        raise refused("order is asc or desc.", "order")
    return order


def _beyond(entries: list[Json], after: str | None) -> list[Json]:
    if after is None:
        return entries
    places = [place for place, entry in enumerate(entries) if entry.get("id") == after]
    return entries[places[0] + 1 :] if places else []
