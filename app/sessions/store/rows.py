"""Rows of the store as values, and values as rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from app.characters import clean, clean_fields
from app.sessions.errors import not_found
from app.sessions.items import ITEM_TYPES, FunctionCall, Item, Message
from app.sessions.records import Json, now
from app.sessions.store.search import indexed, preview


@dataclass(frozen=True)
class SessionRecord:
    """A session's row."""

    id: str
    agent: Json
    created_at: int = field(default_factory=now)
    updated_at: int = field(default_factory=now)
    parent_id: str | None = None
    root_id: str | None = None
    title: str | None = None
    labels: Json = field(default_factory=dict[str, Any])
    status: str = "idle"
    archived: bool = False
    pinned: bool = False
    deleted_at: int | None = None
    leaf_id: str | None = None
    draft: str = ""
    settings: Json = field(default_factory=dict[str, Any])
    last_total_tokens: int | None = None
    last_error: Json | None = None
    changed: int = 0
    """Grows with every change of any session: tells which of two came last within one second."""
    made: int = 0
    """The `changed` it was made with: tells which of two was made last within one second."""
    used: int = 0
    """Grows with every message of any session, whatever the clock says; 0 for one that was only imported."""

    def __post_init__(self) -> None:
        # A workspace among the settings stays as it is: its name may be no text, and still leads there.
        clean_fields(self, "title", "labels", "draft", "last_error")


@dataclass(frozen=True)
class Node:
    """An item with its place in the tree."""

    item: Item
    session_id: str
    parent_id: str | None


@dataclass(frozen=True)
class Writing:
    """A reply that is being written, as far as it was saved."""

    response_id: str
    session_id: str
    parent_id: str | None
    agent: str
    reasoning: str
    text: str

    def __post_init__(self) -> None:
        clean_fields(self)


@dataclass(frozen=True)
class Change:
    """What one transaction does to a session.

    `items` are added below `parent`, each below the one before; with `move_leaf` the active path
    then ends at the last of them. `settled` are calls whose status or approved arguments are now
    known. `fields` are columns of the session's row.
    """

    items: Sequence[Item] = ()
    parent: str | None = None
    move_leaf: bool = True
    settled: Sequence[FunctionCall] = ()
    enqueue: Sequence[Item] = ()
    dequeue: Sequence[str] = ()
    written: Sequence[str] = ()
    """Responses whose checkpoint is no longer needed."""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    uses: bool | None = None
    """Whether this makes the session the one that was used last; None where that follows from the rest."""


@dataclass(frozen=True)
class Whole:
    """A session that is written at once: its row, its tree in order, its files with their content."""

    record: SessionRecord
    nodes: Sequence[tuple[str | None, Item]]
    files: Sequence[Json] = ()


# ---- rows ----------------------------------------------------------------------------------

_JSON_COLUMNS = ("agent", "labels", "settings", "last_error")
_FLAG_COLUMNS = ("archived", "pinned")


def columns_of(fields: Mapping[str, Any]) -> Json:
    return {name: _column(name, value) for name, value in fields.items()}


def _column(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS and value is not None:
        return text_json(value)
    return clean(value)


class BrokenRowError(sqlite3.DatabaseError):
    """A row is not what was written: the file was damaged where SQLite does not look."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT

    def __init__(self) -> None:
        super().__init__("a row of it cannot be read")


def record_of(row: Json) -> SessionRecord:
    try:
        for name in _JSON_COLUMNS:
            row[name] = None if row[name] is None else _object(row[name])
        for name in _FLAG_COLUMNS:
            row[name] = bool(row[name])
        return SessionRecord(**row)
    except (ValueError, LookupError, TypeError) as err:
        raise BrokenRowError from err


def _object(text: str) -> Json:
    return dict(_parsed(text))


@lru_cache(256)
def _parsed(text: str) -> Json:
    # Thousands of chats share one agent; reading its text once makes lists quick.
    return json.loads(text)


def next_change(connection: sqlite3.Connection) -> int:
    """The number of a change that is being written."""
    return int(connection.execute("SELECT coalesce(max(changed), 0) + 1 FROM sessions").fetchone()[0])


def next_use(connection: sqlite3.Connection) -> int:
    """The number of a message that is being written."""
    return int(connection.execute("SELECT coalesce(max(used), 0) + 1 FROM sessions").fetchone()[0])


def update_session(
    connection: sqlite3.Connection, session_id: str, fields: Mapping[str, Any], *, uses: bool = False
) -> None:
    """Change columns of a session's row; `uses` makes it the one that was used last."""
    columns = columns_of(fields)
    if uses:
        columns["used"] = next_use(connection)
    if "updated_at" in columns:
        columns["changed"] = next_change(connection)
    sets = ", ".join(f"{name} = ?" for name in columns)
    changed = connection.execute(f"UPDATE sessions SET {sets} WHERE id = ?", (*columns.values(), session_id))
    if not changed.rowcount:
        raise not_found("chat", session_id)


def add_items(
    connection: sqlite3.Connection, session_id: str, items: Sequence[Item], parent: str | None
) -> None:
    depth, seq = -1, None
    if parent is not None:
        row = connection.execute(
            "SELECT depth, seq FROM items WHERE id = ? AND session_id = ?", (parent, session_id)
        ).fetchone()
        if row is None:
            raise not_found("item", parent)
        depth, seq = row
    for item in items:
        depth += 1
        seq = _add_item(connection, session_id, item, (parent, seq), depth)
        parent = item.id


def add_tree(
    connection: sqlite3.Connection, session_id: str, nodes: Sequence[tuple[str | None, Item]]
) -> None:
    """Write a whole tree, each item after its parent."""
    places: dict[str | None, tuple[int, int | None]] = {None: (-1, None)}
    for parent, item in nodes:
        depth, seq = places[parent]
        places[item.id] = depth + 1, _add_item(connection, session_id, item, (parent, seq), depth + 1)


def add_session(
    connection: sqlite3.Connection, record: SessionRecord, number: int, *, uses: bool = True
) -> None:
    """Write a session's row, as the change of that number; `uses` makes it the one that was used last."""
    columns = {**columns_of(vars(record)), "changed": number, "made": number}
    columns["used"] = next_use(connection) if uses else 0
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    connection.execute(f"INSERT INTO sessions({names}) VALUES ({marks})", list(columns.values()))


def remove_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove a session's row and all that belongs to it."""
    connection.execute(
        "DELETE FROM found WHERE rowid IN (SELECT seq FROM items WHERE session_id = ?)", (session_id,)
    )
    for table in ("items", "queue", "writing", "rules", "decisions", "files"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def add_file(connection: sqlite3.Connection, file: Json) -> None:
    """Write a file with its content."""
    connection.execute(
        "INSERT INTO files(id, session_id, name, content_type, bytes, created_at, content) "
        "VALUES (:id, :session_id, :name, :content_type, :bytes, :created_at, :content)",
        file,
    )


def _add_item(
    connection: sqlite3.Connection,
    session_id: str,
    item: Item,
    parent: tuple[str | None, int | None],
    depth: int,
) -> int:
    seq = connection.execute(
        "INSERT INTO items(id, session_id, parent_id, parent_seq, depth, response_id, type, data) "
        "VALUES (?,?,?,?,?,?,?,?)",
        (item.id, session_id, *parent, depth, item.response_id, item.type, text_json(item.to_wire())),
    ).lastrowid
    assert seq is not None
    if (text := item.searchable) and not (isinstance(item, Message) and item.is_meta):
        connection.execute("INSERT INTO found(rowid, body) VALUES (?, ?)", (seq, indexed(text)))
    return seq


def settle(connection: sqlite3.Connection, call: FunctionCall) -> None:
    connection.execute("UPDATE items SET data = ? WHERE id = ?", (text_json(call.to_wire()), call.id))


def hit(session_id: str, title: str | None, archived: int, data: str, *, query: str) -> Json:
    item = item_of(data)
    return {
        "session_id": session_id,
        "title": title,
        "archived": bool(archived),
        "item_id": item.id,
        "type": item.type,
        "role": item.role if isinstance(item, Message) else None,
        "llm_model": item.llm_model,
        "created_at": item.created_at,
        "preview": preview(item.searchable, query),
    }


def title_hit(session_id: str, title: str, archived: int, updated_at: int) -> Json:
    """A chat that was found by its title, in the form of `hit`."""
    return {
        "session_id": session_id,
        "title": title,
        "archived": bool(archived),
        "item_id": None,
        "type": "title",
        "role": None,
        "llm_model": None,
        "created_at": updated_at,
        "preview": title,
    }


def item_of(data: str) -> Item:
    """The item of a row. Rows were checked when they were written, so this only builds it."""
    try:
        fields: Json = json.loads(data)
        kind = ITEM_TYPES[fields.pop("type")]
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(cast("list[Any]", value))
        return kind(**fields)
    except (ValueError, LookupError, TypeError, AttributeError) as err:
        raise BrokenRowError from err


def text_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # A path with bytes that are no text has halves of pairs; escaped, it still leads where it led.
    return text if _encodes(text) else json.dumps(value, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
