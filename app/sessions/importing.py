"""Reading exports: Fireside's own, ChatGPT's, and those of llama.cpp's web UI.

A file from outside is not trusted: its ids are replaced, its calls are closed, and nothing it
says is carried out. It is taken whole or not at all.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from app.sessions.agents import DEFAULT_AGENT, agent_from_wire
from app.sessions.errors import InvalidInputError
from app.sessions.foreign_exports import foreign_session
from app.sessions.import_text import JsonError, content_of, parsed, require_plain
from app.sessions.imported import MAX_OPEN_CALLS, ImportedSession, text_of, time_of, title_of
from app.sessions.items import (
    ITEM_TYPES,
    FunctionCall,
    FunctionCallOutput,
    Item,
    item_from_wire,
)
from app.sessions.records import Json, new_id

MAX_SESSIONS = 20_000
MAX_ALL_ITEMS = 400_000
MAX_FILES = 1_000
MAX_FILES_BYTES = 150_000_000
MAX_LINE = 40_000_000
MAX_LINES = 450_000
_OWN = (b'{"type": "fireside.session"', b'{"type":"fireside.session"')
_BOM = b"\xef\xbb\xbf"


def read_export(path: Path) -> list[ImportedSession]:
    """Every session in a file. InvalidInputError says why there is none, and in which line."""
    content = content_of(path).removeprefix(_BOM).lstrip()
    sessions = _Own().read(content) if content.startswith(_OWN) else _foreign(content)
    if not sessions:
        raise InvalidInputError(f"{path.name} is not an export from Fireside, ChatGPT or llama.cpp's web UI.")
    return sessions


def _foreign(content: bytes) -> list[ImportedSession]:
    try:
        data = parsed(content.decode("utf-8", "replace"))
    except JsonError as err:
        if content[:1] in (b"{", b"["):
            raise InvalidInputError(f"The export cannot be read: {err}.") from err
        return []
    entries: list[Any] = cast("list[Any]", data) if isinstance(data, list) else [data]
    found: list[ImportedSession] = []
    count = 0
    for number, entry in enumerate(entries, 1):
        session = foreign_session(cast(Json, entry)) if isinstance(entry, dict) else None
        if session is None or session.leaf is None:
            continue
        found.append(session)
        count += session.size
        if len(found) > MAX_SESSIONS or count > MAX_ALL_ITEMS:
            raise InvalidInputError(
                f"The export is too large: its chat {number:,} is over the limit of {MAX_SESSIONS:,} chats "
                f"or {MAX_ALL_ITEMS:,} messages."
            )
    return found


@dataclass
class _Chat:
    """One chat of ours while its lines are read."""

    session: ImportedSession
    wanted: str | None
    """The end of its active path, by the id in the file."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    responses: dict[str, str] = field(default_factory=dict[str, str])
    open: dict[str | None, int] = field(default_factory=dict[str | None, int])
    """How many calls wait below an item, where there are any."""

    def count_open(self, above: str | None, item: Item) -> None:
        """Take note of an item. InvalidInputError where more calls wait than anybody makes at once."""
        waiting = self.open.get(above, 0)
        match item:
            case FunctionCall() if waiting >= MAX_OPEN_CALLS:
                raise InvalidInputError(f"More than {MAX_OPEN_CALLS} calls are open at once.")
            case FunctionCall():
                self.open[item.id] = waiting + 1
            case FunctionCallOutput() if waiting > 1:
                self.open[item.id] = waiting - 1
            case _:
                pass


class _Own:
    """Reads JSON lines of Fireside's own."""

    def __init__(self) -> None:
        self._chats: list[_Chat] = []
        self._items = 0
        self._files = 0
        self._file_bytes = 0

    def read(self, content: bytes) -> list[ImportedSession]:
        """The sessions. InvalidInputError names the line that is wrong."""
        lines_there = content.count(b"\n")
        if lines_there > MAX_LINES:
            raise InvalidInputError(f"The export has {lines_there:,} lines; at most {MAX_LINES:,} are read.")
        lines = io.BytesIO(content)
        is_torn = not content.endswith(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except (JsonError, InvalidInputError) as err:
                is_last = lines.tell() == len(content)
                if isinstance(err, JsonError) and is_torn and is_last and self._chats and number > 1:
                    break  # Whoever wrote it was stopped in the middle of a line.
                text = str(err).rstrip(".")
                raise InvalidInputError(f"Line {number:,} of the export is wrong: {text}.") from err
        for chat in self._chats:
            chat.session.leaf = chat.ids.get(chat.wanted or "", chat.session.leaf)
        return [chat.session for chat in self._chats]

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if len(line) > MAX_LINE:
            raise InvalidInputError(f"It has {len(line):,} bytes; at most {MAX_LINE:,} are read.")
        data = parsed(line.removeprefix(_BOM).decode("utf-8", "replace"))  # it may be several files in a row
        try:
            require_plain(data)
        except JsonError as err:  # It is whole, so it is not torn.
            raise InvalidInputError(f"It cannot be saved: {err}") from err
        if not isinstance(data, dict):
            raise InvalidInputError("It should be an object.")
        entry = cast(Json, data)
        match entry.get("type"):
            case "fireside.session":
                self._begin(entry)
            case "fireside.file" if self._chats:
                self._take_file(self._chats[-1], entry)
            case "fireside.item" if self._chats:
                self._take_item(self._chats[-1], entry)
            case _:
                pass

    def _begin(self, data: Json) -> None:
        if len(self._chats) >= MAX_SESSIONS:
            raise InvalidInputError(f"An export may contain at most {MAX_SESSIONS:,} chats.")
        self._chats.append(_Chat(_header(data), text_of(data.get("leaf_id"))))

    def _take_file(self, chat: _Chat, data: Json) -> None:
        if not isinstance(data.get("data"), str):
            return
        if not isinstance(data.get("id"), str):
            raise InvalidInputError("A file needs an id.")
        if data["id"] in chat.session.files:
            raise InvalidInputError(f"There is already a file {data['id'][:80]!r}.")
        try:
            content = base64.b64decode(data["data"], validate=True)
        except (binascii.Error, ValueError) as err:
            raise InvalidInputError(f"The content of the file is not base64: {err}.") from err
        self._files += 1
        self._file_bytes += len(content)
        if self._files > MAX_FILES or self._file_bytes > MAX_FILES_BYTES:
            raise InvalidInputError(
                f"An export may contain at most {MAX_FILES:,} files, and {MAX_FILES_BYTES:,} bytes of them."
            )
        chat.session.files[data["id"]] = (text_of(data.get("name")) or "file", content)

    def _take_item(self, chat: _Chat, data: Json) -> None:
        body = data.get("item")
        if not isinstance(body, dict):
            raise InvalidInputError("Its item should be an object.")
        kind = ITEM_TYPES.get(str(cast(Json, body).get("type")))
        if kind is None:  # A later version may have more.
            return
        self._items += 1
        if self._items > MAX_ALL_ITEMS:
            raise InvalidInputError(f"An export may contain at most {MAX_ALL_ITEMS:,} items.")
        old = cast(Json, body).get("id")
        if not isinstance(old, str | None):
            raise InvalidInputError("The id of an item should be text.")
        if old in chat.ids:
            raise InvalidInputError(f"There is already an item {old[:80]!r}.")
        item = item_from_wire(_renamed(chat, cast(Json, body), new_id(kind.prefix)))
        # An item whose parent was lost hangs on the last one that was read.
        session, parent = chat.session, data.get("parent_id")
        above = chat.ids.get(parent, session.leaf) if isinstance(parent, str) else None
        chat.count_open(above, item)
        session.leaf = session.add(above, item)
        if old is not None:
            chat.ids[old] = item.id


def _header(data: Json) -> ImportedSession:
    agent: Json = {"name": DEFAULT_AGENT}
    if isinstance(data.get("agent"), dict):
        with contextlib.suppress(InvalidInputError):
            # What another machine loaded and called is no choice that was made on this one.
            agent = {**agent_from_wire(data["agent"]).to_wire(), "tools": [], "model": None}
    return ImportedSession(
        title=title_of(data.get("title")),
        created_at=time_of(data.get("created_at")),
        updated_at=time_of(data.get("updated_at")),
        agent=agent,
        system=text_of(data.get("system")),
    )


def _renamed(chat: _Chat, body: Json, item_id: str) -> Json:
    """An item's object with ids of its own, as it is made of: making items twice takes twice as long."""
    # Nothing from outside is hidden from the person.
    made = {**body, "id": item_id, "created_at": time_of(body.get("created_at")), "is_meta": None}
    response, last = body.get("response_id"), body.get("last_item_id")
    if isinstance(response, str) and response:
        made["response_id"] = chat.responses.setdefault(response, new_id("resp"))
    if isinstance(last, str):
        made["last_item_id"] = chat.ids.get(last, last)
    return made
