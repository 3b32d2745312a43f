"""The routes of a server, put together, and what happens around each request."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import __version__
from app.server import description
from app.server.errors import ApiError, described
from app.server.models import Served
from app.server.openai import chat, completions, embeddings, responses
from app.server.security import Access, Guard
from app.server.service import Service, service_of
from app.server.sessions import collection, events, files

Handler = Callable[[Request], Awaitable[Response]]
Listen = Callable[[str, str, int, float], None]
"""Is told of each request: method, path, status, seconds."""


def make_app(service: Service, access: Access, listen: Listen) -> ASGIApp:
    """The application. `listen(method, path, status, seconds)` is told of each request that ended."""
    app = Starlette(routes=_routes(), exception_handlers={HTTPException: _unrouted})
    app.state.service = service
    return _Noted(Guard(app, access), service, listen)


def _routes() -> list[Route]:
    return [
        _route("/health", health),
        _route("/v1/health", health),
        _route("/openapi.json", description.show),
        _route("/metrics", metrics),
        _route("/v1/models", list_models),
        _route("/v1/models/{name:path}", show_model),
        _route("/v1/chat/completions", chat.complete, "POST"),
        _route("/v1/completions", completions.complete, "POST"),
        _route("/v1/embeddings", embeddings.embed, "POST"),
        _route("/v1/responses", responses.create, "POST"),
        _route("/v1/responses/{response_id}", responses.show),
        _route("/v1/agents", collection.list_agents),
        _route("/v1/sessions", collection.find),
        _route("/v1/sessions", collection.create, "POST"),
        *(_of_session(*entry) for entry in _OF_SESSION),
    ]


_OF_SESSION: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "", collection.show),
    ("PATCH", "", collection.change),
    ("DELETE", "", collection.delete),
    ("GET", "/items", collection.list_items),
    ("GET", "/agent", collection.show_agent),
    ("GET", "/child_sessions", collection.list_children),
    ("POST", "/events", events.post),
    ("GET", "/stream", events.stream),
    ("POST", "/elicitations/{elicitation_id}/resolve", events.resolve),
    ("POST", "/fork", collection.fork),
    ("POST", "/resources/files", files.upload),
    ("GET", "/resources/files", files.find),
    ("GET", "/resources/files/{file_id}", files.show),
    ("DELETE", "/resources/files/{file_id}", files.delete),
    ("GET", "/resources/files/{file_id}/content", files.content),
)


def _of_session(method: str, path: str, handler: Handler) -> Route:
    return _route(f"/v1/sessions/{{session_id}}{path}", handler, method)


def _route(path: str, handler: Handler, *methods: str) -> Route:
    """A route whose errors are answers."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        except Exception as err:
            return described(err).response()

    handle.__doc__ = handler.__doc__
    return Route(path, handle, methods=list(methods or ("GET",)), name=handler.__name__)


async def _unrouted(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "There is no such address here.", 405: "This address does not take this method."}
    headers = getattr(error, "headers", None)
    return ApiError(
        status, words.get(status, "The request failed."), code="no_route", headers=headers
    ).response()


async def health(request: Request) -> Response:
    """Whether the server lives, and whether its model is in memory; it says no more."""
    service = service_of(request)
    closing = service.closing.is_set()
    # An engine in a process of its own has none while it sleeps.
    is_loaded = service.manager.card is not None and getattr(service.manager.engine, "pid", 0) is not None
    engine = "loaded" if is_loaded else "unloaded"
    return JSONResponse({"status": "closing" if closing else "ok", "engine": engine}, 503 if closing else 200)


async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    return Response(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def list_models(request: Request) -> Response:
    """The models that requests may name."""
    return JSONResponse({"object": "list", "data": await service_of(request).models.listed()})


async def show_model(request: Request) -> Response:
    """One of them."""
    models = service_of(request).models
    found: Served = await models.find(request.path_params["name"])
    entries: list[dict[str, Any]] = await models.listed()
    return JSONResponse(next(entry for entry in entries if entry["id"] == found.name))


class _Noted:
    """Counts and tells of each request, and says which server answers."""

    def __init__(self, app: ASGIApp, service: Service, listen: Listen) -> None:
        self._app = app
        self._service = service
        self._listen = listen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 500, time.monotonic()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"server", f"fireside/{__version__}".encode()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            # The path of a route, for those that somebody makes up would be counted without end.
            route = scope.get("route")
            self._service.metrics.request(getattr(route, "path", "none"), status)
            self._listen(scope["method"], scope["path"], status, time.monotonic() - began)
