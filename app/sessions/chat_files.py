"""Files on their way between a caller and a session: paths become blocks, ids what is known of them."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from app.sessions.events import OutputFileDoneEvent
from app.sessions.items import input_text
from app.sessions.records import Json
from app.sessions.shapes import File

Upload: TypeAlias = Callable[[str], Awaitable[Any]]
GetFile: TypeAlias = Callable[[str], Awaitable[Any]]
Input: TypeAlias = str | Sequence[Mapping[str, Any]]
Paths: TypeAlias = Sequence[str | os.PathLike[str]]


class BoundFiles(Protocol):
    """The files of one session."""

    async def upload(self, path: str, /) -> Any: ...
    async def get(self, file_id: str, /) -> Any: ...


class FilesNamespace(Protocol):
    """The files of all sessions, to be narrowed to those of one."""

    def for_session(self, session_id: str, /) -> BoundFiles: ...


async def content_of(input: Input, files: Paths | None, upload: Upload | None) -> list[Json]:
    """The content blocks of a message: its text or its own blocks, then one for each file.

    TypeError for what is neither, and for files that are not a list of paths.
    """
    if isinstance(input, str):
        content = [input_text(input)] if input else []
    else:
        if not _holds_only(input, Mapping):
            kind = type(cast(object, input)).__name__
            raise TypeError(f"input must be a text or a list of content blocks, not {kind}.")
        content = [dict(block) for block in input]
    if files is not None and not _holds_only(files, str, os.PathLike):
        raise TypeError(f"files must be a list of paths, not {str(files)[:60]!r}.")
    if not files:
        return content
    if upload is None:
        raise RuntimeError("Files were given, and there is no uploader for them.")
    for path in [str(os.fspath(path)) for path in files]:
        file_id = _member(await upload(path), "id")
        if (mimetypes.guess_type(path)[0] or "").startswith("image/"):
            content.append({"type": "input_image", "file_id": file_id})
        else:
            content.append({"type": "input_file", "file_id": file_id, "filename": os.path.basename(path)})
    return content


def _holds_only(values: object, *kinds: type) -> bool:
    """Whether these are a list of such values; a text is not a list."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        return False
    return all(isinstance(value, kinds) for value in cast("Sequence[object]", values))


async def file_of(event: OutputFileDoneEvent, getter: GetFile | None) -> File:
    """What is known of a file that a turn made. RuntimeError where nobody can tell."""
    if getter is None:
        raise RuntimeError("The turn made a file, and there is no getter for it.")
    found = await getter(event.file_id)
    if isinstance(found, File):
        return found
    told = {name: _member(found, name) for name in ("filename", "bytes", "created_at")}
    return File(id=event.file_id, **told)


def _member(value: Any, name: str) -> Any:
    """A member of an object or of a mapping, or of the `metadata` of one."""
    if not isinstance(value, Mapping):
        return getattr(value, name, None)
    fields = cast("Mapping[str, Any]", value)
    metadata: Any = fields.get("metadata") or {}
    return fields.get(name, metadata.get(name))
