"""The files of a chat."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.server.errors import refused
from app.server.service import service_of
from app.server.sessions.collection import MOST_LISTED, order_of, page, session_of, whole
from app.sessions.file_records import MAX_BYTES, too_large


async def upload(request: Request) -> Response:
    """Keep a file with the chat."""
    manager, session_id = service_of(request).manager, session_of(request)
    await manager.record(session_id)
    async with request.form(max_files=1, max_fields=4) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise refused("The form needs a file named file.", "file")
        name = file.filename or "file"
        content = await file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise too_large(name, file.size or len(content), MAX_BYTES)
    return JSONResponse((await manager.files.add(session_id, name, content)).to_wire(), 201)


async def find(request: Request) -> Response:
    """A page of the files."""
    manager, session_id = service_of(request).manager, session_of(request)
    await manager.record(session_id)
    limit, after = whole(request, "limit", 20, MOST_LISTED), request.query_params.get("after")
    found = await manager.files.list(session_id)
    if order_of(request, "desc") == "desc":
        found.reverse()
    if after is not None:
        places = [place for place, file in enumerate(found) if file.id == after]
        found = found[places[0] + 1 :] if places else []
    entries = [file.to_wire() for file in found[:limit]]
    return JSONResponse(page(entries, has_more=len(found) > limit))


async def show(request: Request) -> Response:
    """What is known of a file."""
    file = await service_of(request).manager.files.get(session_of(request), _file_of(request))
    return JSONResponse(file.to_wire())


async def content(request: Request) -> Response:
    """The file itself, as something to keep and never to show: it may come from anywhere."""
    files = service_of(request).manager.files
    file = await files.get(session_of(request), _file_of(request))
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    data = await files.get_content(session_of(request), file.id)
    return Response(data, media_type="application/octet-stream", headers=headers)


async def delete(request: Request) -> Response:
    """Remove a file."""
    await service_of(request).manager.files.delete(session_of(request), _file_of(request))
    return JSONResponse({"id": _file_of(request), "object": "session.file.deleted", "deleted": True})


def _file_of(request: Request) -> str:
    return str(request.path_params["file_id"])
