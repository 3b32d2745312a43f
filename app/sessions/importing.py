"""Reading exports: Fireside's own, ChatGPT's, and those of llama.cpp's web UI.

A file from outside is not trusted: its ids are replaced, its calls are closed, and nothing it
says is carried out.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from app.sessions.agents import DEFAULT_AGENT, agent_from_wire
from app.sessions.errors import FiresideError, InvalidInputError
from app.sessions.items import (
    Compaction,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    item_from_wire,
    output_text,
    reasoning_item,
    user_message,
)
from app.sessions.records import Json, new_id, now
from app.sessions.recovery import lost_result

MAX_BYTES = 500_000_000
MAX_FILES_BYTES = 200_000_000
MAX_ITEMS = 200_000
NOT_HERE = "[This call was open when the chat was exported; it has no result.]"


@dataclass
class ImportedSession:
    """A session as read, with ids of its own; `leaf` is the end of its active path."""

    title: str | None = None
    created_at: int = field(default_factory=now)
    updated_at: int = field(default_factory=now)
    agent: Json = field(default_factory=lambda: {"name": DEFAULT_AGENT})
    system: str | None = None
    leaf: str | None = None
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    _nodes: list[tuple[str | None, Item]] = field(default_factory=list[tuple[str | None, Item]])

    def add(self, parent: str | None, item: Item) -> str:
        """Put an item below another; returns its id."""
        if len(self._nodes) >= MAX_ITEMS:
            raise InvalidInputError(f"The export holds a chat of more than {MAX_ITEMS:,} items.")
        self._nodes.append((parent, item))
        return item.id

    def nodes(self, files: Mapping[str, str]) -> list[tuple[str | None, Item]]:
        """The tree in writing order, with attachments under their new ids and every call closed."""
        return _closed([(parent, _attached(item, files)) for parent, item in self._nodes], self)


def read_export(path: Path) -> list[ImportedSession]:
    """Every session in a file. InvalidInputError says why there is none."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as err:
        raise InvalidInputError(f"{path} cannot be read: {err.strerror or err}.") from err
    if size > MAX_BYTES:
        raise InvalidInputError(f"{path.name} has {size:,} bytes; at most {MAX_BYTES:,} are read.")
    text = (_unzipped(path.name, content) if content[:2] == b"PK" else content).decode("utf-8", "replace")
    sessions = _read(text.lstrip("\ufeff"))
    if not sessions:
        raise InvalidInputError(
            f"{path.name} is no export of Fireside, ChatGPT or llama.cpp's web UI that could be read."
        )
    return sessions


def _unzipped(name: str, content: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inner = next(
                (item for item in archive.infolist() if item.filename.endswith("conversations.json")), None
            )
            if inner is None or inner.file_size > MAX_BYTES:
                raise InvalidInputError(f"{name} holds no conversations.json of a size that is read.")
            return archive.read(inner)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as err:
        raise InvalidInputError(f"{name} is a damaged archive: {err}.") from err


def _read(text: str) -> list[ImportedSession]:
    if text.startswith('{"type": "fireside.session"') or text.startswith('{"type":"fireside.session"'):
        return _fireside(text.split("\n"))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return []
    entries: list[Any] = cast("list[Any]", data) if isinstance(data, list) else [data]
    found: list[ImportedSession] = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        session = _foreign(cast(Json, entry))
        if session is not None and session.leaf is not None:
            found.append(session)
    return found


def _foreign(entry: Json) -> ImportedSession | None:
    if isinstance(entry.get("mapping"), dict):
        return _chatgpt(entry)
    if isinstance(entry.get("messages"), list) and isinstance(entry.get("conv"), dict):
        return _llama(entry)
    return None


# ---- our own -------------------------------------------------------------------------------


def _fireside(lines: Iterable[str]) -> list[ImportedSession]:
    sessions: list[ImportedSession] = []
    ids: dict[str, str] = {}
    wanted: list[str | None] = []
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict):
            continue
        data = cast(Json, entry)
        match data.get("type"):
            case "fireside.session":
                sessions.append(_header(data))
                wanted.append(_text(data.get("leaf_id")))
                ids = {}
            case "fireside.file" if sessions:
                _take_file(sessions[-1], data)
            case "fireside.item" if sessions:
                _take_item(sessions[-1], data, ids)
            case _:
                continue
        if sessions and wanted[-1] in ids:
            sessions[-1].leaf = ids[wanted[-1]]
    return sessions


def _header(data: Json) -> ImportedSession:
    agent: Json = {"name": DEFAULT_AGENT}
    if isinstance(data.get("agent"), dict):
        with contextlib.suppress(FiresideError):
            # What another machine loaded and called is no choice that was made on this one.
            agent = {**agent_from_wire(data["agent"]).to_wire(), "tools": [], "model": None}
    return ImportedSession(
        title=_text(data.get("title")),
        created_at=_time(data.get("created_at")),
        updated_at=_time(data.get("updated_at")),
        agent=agent,
        system=_text(data.get("system")),
    )


def _take_file(session: ImportedSession, data: Json) -> None:
    total = sum(len(content) for _, content in session.files.values())
    if not isinstance(data.get("data"), str):
        return
    try:
        content = base64.b64decode(data["data"], validate=True)
    except (binascii.Error, ValueError):
        return
    if total + len(content) <= MAX_FILES_BYTES and isinstance(data.get("id"), str):
        session.files[data["id"]] = (_text(data.get("name")) or "file", content)


def _take_item(session: ImportedSession, data: Json, ids: dict[str, str]) -> None:
    body = data.get("item")
    if not isinstance(body, dict):
        return
    try:
        item = item_from_wire(cast(Json, body))
    except InvalidInputError:
        return
    # An item whose parent was lost hangs on the last one that was read.
    parent = ids.get(str(data.get("parent_id")), session.leaf if data.get("parent_id") else None)
    old = item.id
    response = item.response_id
    item = replace(
        item, id=new_id(item.prefix), response_id=response and ids.setdefault(response, new_id("resp"))
    )
    if isinstance(item, Message):
        # Nothing from outside is hidden from the person.
        item = replace(item, is_meta=None)
    if isinstance(item, Compaction):
        item = replace(item, last_item_id=ids.get(item.last_item_id, item.last_item_id))
    ids[old] = session.leaf = session.add(parent, item)


# ---- ChatGPT -------------------------------------------------------------------------------


def _chatgpt(entry: Json) -> ImportedSession:
    session = ImportedSession(
        title=_text(entry.get("title")),
        created_at=_time(entry.get("create_time")),
        updated_at=_time(entry.get("update_time")),
    )
    mapping = cast(Json, entry["mapping"])

    def children(node: Json) -> list[str]:
        listed = node.get("children")
        return [str(child) for child in cast("list[Any]", listed)] if isinstance(listed, list) else []

    def item_of(node: Json) -> Item | None:
        message = node.get("message")
        return _chatgpt_message(cast(Json, message), session) if isinstance(message, dict) else None

    _walk(session, mapping, children, item_of, _text(entry.get("current_node")))
    return session


def _chatgpt_message(message: Json, session: ImportedSession) -> Item | None:
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(content, dict):
        return None
    body = cast(Json, content)
    parts: Any = body.get("parts")
    if isinstance(parts, list):
        text = "\n".join(part for part in cast("list[Any]", parts) if isinstance(part, str))
    else:
        text = _text(body.get("text")) or ""
    at = _time(message.get("create_time"))
    role = cast(Json, author).get("role")
    if role == "system":
        if text.strip() and session.system is None:
            session.system = text
        return None
    return _spoken(role, text, at, thinks=body.get("content_type") in ("thoughts", "reasoning_recap"))


# ---- llama.cpp's web UI --------------------------------------------------------------------


def _llama(entry: Json) -> ImportedSession:
    conversation = cast(Json, entry["conv"])
    changed = conversation.get("lastModified")
    session = ImportedSession(
        title=_text(conversation.get("name")),
        created_at=_time(changed, scale=1000),
        updated_at=_time(changed, scale=1000),
    )
    listed = cast("list[Any]", entry["messages"])
    messages = [cast(Json, item) for item in listed if isinstance(item, dict)]
    mapping = {str(message.get("id")): message for message in messages}
    for message in messages:
        parent = message.get("parent")
        message.setdefault("_parent", None if parent in (None, -1, "") else str(parent))
    below: dict[str, list[str]] = {}
    for name, message in mapping.items():
        below.setdefault(str(message["_parent"]), []).append(name)

    def item_of(message: Json) -> Item | None:
        if message.get("type") == "root":
            return None
        text = _text(message.get("content")) or ""
        if message.get("role") == "system":
            session.system = session.system or text
            return None
        return _spoken(message.get("role"), text, _time(message.get("timestamp"), scale=1000))

    for message in mapping.values():
        message["parent"] = message["_parent"]
    current = conversation.get("currNode")
    _walk(
        session,
        mapping,
        lambda node: below.get(str(node.get("id")), []),
        item_of,
        None if current is None else str(current),
    )
    return session


# ---- both ----------------------------------------------------------------------------------


def _walk(
    session: ImportedSession,
    mapping: Json,
    children: Callable[[Json], list[str]],
    item_of: Callable[[Json], Item | None],
    current: str | None,
) -> None:
    """Take a foreign tree in, from its roots on; nodes without words are passed over."""
    roots = [
        name
        for name, node in mapping.items()
        if isinstance(node, dict) and str(cast(Json, node).get("parent")) not in mapping
    ]
    last: dict[str, str | None] = {}
    todo: list[tuple[str, str | None]] = [(name, None) for name in reversed(roots)]
    while todo:
        name, parent = todo.pop()
        node = mapping.get(name)
        # A node that was seen already would make a circle.
        if name in last or not isinstance(node, dict):
            continue
        item = item_of(cast(Json, node))
        last[name] = parent if item is None else session.add(parent, item)
        todo += [(child, last[name]) for child in reversed(children(cast(Json, node)))]
    ends = [end for end in last.values() if end is not None]
    session.leaf = last.get(current or "") or (ends[-1] if ends else None)


def _spoken(role: Any, text: str, at: int, *, thinks: bool = False) -> Item | None:
    if not text.strip():
        return None
    match role:
        case "user":
            return user_message(text, created_at=at)
        case "assistant" if thinks:
            return reasoning_item(text, created_at=at)
        case "assistant":
            return Message(role="assistant", agent=DEFAULT_AGENT, content=(output_text(text),), created_at=at)
        case _:
            return None


def _attached(item: Item, files: Mapping[str, str]) -> Item:
    if not isinstance(item, Message):
        return item
    blocks = [
        {**block, "file_id": files.get(str(block["file_id"]), "file_gone")} if "file_id" in block else block
        for block in item.content
    ]
    return replace(item, content=tuple(blocks))


def _closed(nodes: list[tuple[str | None, Item]], session: ImportedSession) -> list[tuple[str | None, Item]]:
    """The tree with a result for every call, and without results that nobody asked for."""
    open_at: dict[str | None, list[tuple[str, FunctionCall]]] = {None: []}
    moved: dict[str, str | None] = {}
    kept: list[tuple[str | None, Item]] = []
    parents = {parent for parent, _ in nodes}
    for wanted, item in nodes:
        parent = moved.get(wanted, wanted) if wanted is not None else None
        waiting = list(open_at.get(parent, []))
        match item:
            case FunctionCall():
                wrote = item.call_id
                taken = any(call.call_id == wrote for _, call in waiting)
                item = replace(item, status="completed", call_id=new_id("call") if taken else wrote)
                waiting.append((wrote, item))
            case FunctionCallOutput():
                found = next((pair for pair in waiting if pair[0] == item.call_id), None)
                if found is None:
                    moved[item.id] = parent
                    if session.leaf == item.id:
                        session.leaf = parent
                    continue
                waiting.remove(found)
                item = replace(item, call_id=found[1].call_id)
            case _:
                for _, call in waiting:
                    result = lost_result(call, NOT_HERE)
                    kept.append((parent, result))
                    parent = result.id
                waiting = []
        kept.append((parent, item))
        open_at[item.id] = waiting
        end = item.id
        if item.id not in parents:
            for _, call in waiting:
                result = lost_result(call, NOT_HERE)
                kept.append((end, result))
                end = result.id
            if session.leaf == item.id:
                session.leaf = end
    return kept


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: Any, *, scale: int = 1) -> int:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14
    return int(value / scale) if good else now()
