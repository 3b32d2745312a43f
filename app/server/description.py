"""`/openapi.json`: the routes and the bodies that they take, for programs that make clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app import __version__
from app.server.openai.body import Body
from app.server.openai.chat import ChatBody
from app.server.openai.completions import CompletionBody
from app.server.openai.embeddings import EmbeddingBody
from app.server.openai.response_request import ResponseBody
from app.server.sessions.collection import Fork, NewSession, SessionChange

_BODIES: dict[tuple[str, str], type[Body]] = {
    ("POST", "/v1/chat/completions"): ChatBody,
    ("POST", "/v1/completions"): CompletionBody,
    ("POST", "/v1/embeddings"): EmbeddingBody,
    ("POST", "/v1/responses"): ResponseBody,
    ("POST", "/v1/sessions"): NewSession,
    ("PATCH", "/v1/sessions/{session_id}"): SessionChange,
    ("POST", "/v1/sessions/{session_id}/fork"): Fork,
}
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_ANY = {"type": "object", "additionalProperties": True}


async def show(request: Request) -> Response:
    """The description of this server."""
    return JSONResponse(described([route for route in request.app.routes if isinstance(route, Route)]))


def described(routes: Sequence[Route]) -> dict[str, Any]:
    """The description of some routes, in OpenAPI 3.1."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            paths.setdefault(path, {})[method.lower()] = _operation(route, method, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fireside", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(route: Route, method: str, schemas: dict[str, Any]) -> dict[str, Any]:
    described = (route.endpoint.__doc__ or "").strip()
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path.lower()).strip('_')}",
        "summary": described.partition("\n")[0],
        "responses": {
            "2XX": {"description": "The answer."},
            "4XX": {
                "description": "Why there is none.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if names := _PARAMETER.findall(route.path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if method in ("POST", "PATCH"):
        operation["requestBody"] = {"required": True, "content": _content(route, method, schemas)}
    return operation


def _content(route: Route, method: str, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.path.endswith("/resources/files"):
        file = {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}}
        return {"multipart/form-data": {"schema": file}}
    body = _BODIES.get((method, route.path))
    if body is None:
        return {"application/json": {"schema": _ANY}}
    schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    schemas[body.__name__] = schema
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}
