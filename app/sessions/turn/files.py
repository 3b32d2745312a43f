"""The files of a session: kept with the chat, found only through it, and what the model gets of them."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import sqlite3
import stat
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.files.attachments import decoded
from app.files.image_size import HEAD_BYTES, picture_size
from app.open_stores import refuse
from app.sessions.errors import FiresideError, InvalidInputError, not_found
from app.sessions.file_records import MAX_BYTES, SessionFile, kind_of, too_large
from app.sessions.records import Json, new_id
from app.sessions.shapes import File
from app.sessions.store.database import Database
from app.sessions.store.rows import add_file
from app.sessions.turn import media

_PDFS_REMEMBERED = 16
_MARKS_REMEMBERED = 1024


producing: ContextVar[tuple[str, str] | None] = ContextVar("producing", default=None)
"""Within a running call: the session and the response that it belongs to."""


class SessionFiles:
    """Files of all sessions of a store; one of another session is not found."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pdf_texts: OrderedDict[str, str] = OrderedDict()
        """What was read of the last PDFs, by file id: their content never changes, and reading is slow."""
        self._marks: OrderedDict[str, Json] = OrderedDict()
        """The words for pictures and sound that a model cannot take, by file id."""
        self.on_produced: Callable[[SessionFile, str], None] | None = None
        """Told of each file that is kept while a call runs, with the id of the response that made it."""

    def for_session(self, session_id: str) -> FilesOfSession:
        """The files of one session alone."""
        return FilesOfSession(self, session_id)

    async def upload(self, session_id: str, path: str | os.PathLike[str]) -> SessionFile:
        """Keep a copy of a file. 413 where it is too large, 415 where its kind is not taken."""
        source = Path(path)
        try:
            content = await asyncio.to_thread(_content_of, source)
        except OSError as err:
            raise InvalidInputError(f"{source} cannot be read: {err.strerror or err}.") from err
        return await self.add(session_id, source.name, content)

    async def add(self, session_id: str, name: str, content: bytes, *, made: bool = False) -> SessionFile:
        """Keep `content` under a file's `name`. What a tool made is for the person: any kind is taken."""
        file = SessionFile.made(session_id, name, content, any_kind=made)
        is_pdf = kind_of(file.content_type) == "pdf" and not made
        text = await _pdf_text(file.name, content) if is_pdf else None

        def work(connection: sqlite3.Connection) -> None:
            add_file(connection, {**vars(file), "content": content})

        await self._database.write(work)
        if text is not None:
            self._remember(file.id, text)
        producer = producing.get()
        if self.on_produced is not None and producer is not None and producer[0] == session_id:
            self.on_produced(file, producer[1])
        return file

    async def list(self, session_id: str) -> list[SessionFile]:
        """The files of a session, oldest first."""

        def work(connection: sqlite3.Connection) -> list[SessionFile]:
            rows: Any = connection.execute(
                "SELECT id, session_id, name, content_type, bytes, created_at FROM files "
                "WHERE session_id = ? ORDER BY created_at, id",
                (session_id,),
            )
            return [SessionFile(*row) for row in rows]

        return await self._database.read(work)

    async def get(self, session_id: str, file_id: str) -> SessionFile:
        """A file's metadata; 404 where this session has none of that id."""
        found = (await self.named(session_id, [file_id])).get(file_id)
        if found is None:
            raise not_found("file", file_id)
        return found

    async def named(self, session_id: str, file_ids: Sequence[str]) -> dict[str, SessionFile]:
        """Those of the ids that this session has files of."""
        if not file_ids:
            return {}
        return {file.id: file for file in await self.list(session_id) if file.id in file_ids}

    async def get_content(self, session_id: str, file_id: str) -> bytes:
        """A file's content."""
        return (await self._row(session_id, file_id))[1]

    async def download(self, session_id: str, file_id: str, to_path: str | os.PathLike[str]) -> Path:
        """Write a file's content to `to_path`, whose parents are made."""
        content = await self.get_content(session_id, file_id)
        target = Path(to_path)

        def write() -> None:
            refuse(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

        await asyncio.to_thread(write)
        return target

    async def copy(self, session_id: str, to_session_id: str) -> dict[str, str]:
        """Copy all files of a session to another; returns the new id of each."""
        names = {file.id: new_id("file") for file in await self.list(session_id)}

        def work(connection: sqlite3.Connection) -> None:
            for old, new in names.items():
                connection.execute(
                    "INSERT INTO files SELECT ?, ?, name, content_type, bytes, created_at, content "
                    "FROM files WHERE id = ?",
                    (new, to_session_id, old),
                )

        if names:
            await self._database.write(work)
        return names

    async def delete(self, session_id: str, file_id: str) -> None:
        """Remove a file; 404 where this session has none of that id."""

        def work(connection: sqlite3.Connection) -> None:
            gone = connection.execute(
                "DELETE FROM files WHERE id = ? AND session_id = ?", (file_id, session_id)
            )
            if not gone.rowcount:
                raise not_found("file", file_id)

        await self._database.write(work)

    async def _row(self, session_id: str, file_id: str) -> tuple[SessionFile, bytes]:
        def work(connection: sqlite3.Connection) -> tuple[SessionFile, bytes]:
            row = connection.execute(
                "SELECT id, session_id, name, content_type, bytes, created_at, content FROM files "
                "WHERE id = ? AND session_id = ?",
                (file_id, session_id),
            ).fetchone()
            if row is None:
                raise not_found("file", file_id)
            return SessionFile(*row[:6]), bytes(row[6])

        return await self._database.read(work)

    async def parts(
        self, session_id: str, blocks: Sequence[Mapping[str, Any]], senses: Collection[str] = media.ALL
    ) -> dict[str, Json]:
        """What a model gets for each file that `blocks` mention, by file id.

        `senses` are the media that it takes; for any other, and for a file that is gone, it gets words.
        """
        mentioned = {str(block["file_id"]): block for block in reversed(blocks) if "file_id" in block}
        files = await self.named(session_id, list(mentioned))
        found: dict[str, Json] = {}
        for file_id, block in mentioned.items():
            file = files.get(file_id)
            medium = None if file is None else media.medium_of(file)
            if file is None:
                found[file_id] = media.missing_part(block)
            elif medium is not None and medium not in senses:
                found[file_id] = await self._withheld(file)
            else:
                found[file_id] = await self._given(file)
        return found

    async def _given(self, file: SessionFile) -> Json:
        _, content = await self._row(file.session_id, file.id)
        text = await self._text_of_pdf(file, content) if kind_of(file.content_type) == "pdf" else None
        return _part(file, content, text)

    async def _withheld(self, file: SessionFile) -> Json:
        if file.id not in self._marks:
            self._marks[file.id] = media.withheld_part(file, picture_size(await self._head(file)))
            if len(self._marks) > _MARKS_REMEMBERED:
                self._marks.popitem(last=False)
        return self._marks[file.id]

    async def _head(self, file: SessionFile) -> bytes:
        def work(connection: sqlite3.Connection) -> bytes:
            row = connection.execute(
                "SELECT substr(content, 1, ?) FROM files WHERE id = ?", (HEAD_BYTES, file.id)
            ).fetchone()
            return bytes(row[0]) if row is not None else b""

        return await self._database.read(work)

    async def _text_of_pdf(self, file: SessionFile, content: bytes) -> str:
        if (known := self._pdf_texts.get(file.id)) is not None:
            return known
        try:
            text = await _pdf_text(file.name, content)
        except FiresideError:
            text = "[its text cannot be read]"
        self._remember(file.id, text)
        return text

    def _remember(self, file_id: str, text: str) -> None:
        self._pdf_texts[file_id] = text
        if len(self._pdf_texts) > _PDFS_REMEMBERED:
            self._pdf_texts.popitem(last=False)


@dataclass(frozen=True)
class FilesOfSession:
    """The files of one session, as a caller is told of them; another session's are not found."""

    files: SessionFiles
    session_id: str

    async def upload(self, path: str | os.PathLike[str]) -> File:
        """Keep a copy of a file. 413 where it is too large, 415 where its kind is not taken."""
        return (await self.files.upload(self.session_id, path)).told()

    async def list(
        self, *, limit: int = 20, after: str | None = None, order: Literal["asc", "desc"] = "desc"
    ) -> list[File]:
        """A page of the files, the newest first."""
        found = await self.files.list(self.session_id)
        if order == "desc":
            found.reverse()
        if after is not None:
            places = [place for place, file in enumerate(found) if file.id == after]
            if not places:
                raise not_found("file", after)
            found = found[places[0] + 1 :]
        return [file.told() for file in found[:limit]]

    async def get(self, file_id: str) -> File:
        """What is known of a file; 404 where this session has none of that id."""
        return (await self.files.get(self.session_id, file_id)).told()

    async def get_content(self, file_id: str) -> bytes:
        """A file's content."""
        return await self.files.get_content(self.session_id, file_id)

    async def download(self, file_id: str, to_path: str | os.PathLike[str]) -> Path:
        """Write a file's content to `to_path`, whose parents are made."""
        return await self.files.download(self.session_id, file_id, to_path)

    async def delete(self, file_id: str) -> None:
        """Remove a file."""
        await self.files.delete(self.session_id, file_id)


def _content_of(source: Path) -> bytes:
    """The content of a regular file: a device has no end, and a pipe may never give anything."""
    refuse(source)
    handle = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if about.st_size > MAX_BYTES:
            raise too_large(source.name, about.st_size, MAX_BYTES)
        # It may grow meanwhile.
        return file.read(MAX_BYTES + 1)


def _part(file: SessionFile, content: bytes, text: str | None) -> Json:
    """What the model gets of a file; `text` is what was read of it where that is not its content."""
    kind = kind_of(file.content_type)
    data = base64.b64encode(content).decode("ascii") if kind in ("image", "audio") else ""
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{file.content_type};base64,{data}"}}
    if kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": Path(file.name).suffix[1:]}}
    if text is None:
        text = _decoded(content) if kind == "text" else "[it is not a text]"
    return {"type": "text", "text": f"[attached file {file.name}]\n{text}\n[end of {file.name}]"}


def _decoded(content: bytes) -> str:
    try:
        return decoded(content)[0]
    except ValueError:
        return content.decode("utf-8", "replace")


async def _pdf_text(name: str, content: bytes) -> str:
    """The text of a PDF. 415 says why there is none."""
    from app.files.pdf import PdfError, pdf_text

    try:
        return (await asyncio.to_thread(pdf_text, content)).text
    except PdfError as err:
        raise FiresideError(f"{name} cannot be attached: {err}.", 415, "unsupported_file") from err
