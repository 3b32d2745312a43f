"""The newest items of a stored chat without a manager, which takes longer to import than they take to read.

It only reads. What it cannot read it leaves to the manager, which tells why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from app.sessions.items import Item
from app.sessions.store.asked import is_waiting
from app.sessions.store.schema import MIGRATIONS
from app.sessions.store.store import LAST_USED, newest_items

_ALIVE = "SELECT leaf_id FROM sessions WHERE deleted_at IS NULL"


def newest_of(file: Path, name: str | None, limit: int) -> Sequence[Item]:
    """At most `limit` of the newest items of a chat in the store `file`, oldest first.

    `name` is its id or the beginning of that; None is the chat that was used last. Nothing where
    that is no chat or several, or where the file is not one that this version writes, is damaged or held.
    """
    if name is None and is_waiting(file):
        return ()  # Of a question that the manager takes in first.
    uri = f"{file.absolute().as_uri()}?mode=ro"
    try:
        # No timeout: who waits for a store that is held waits in the manager, which says so.
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            leaves = _leaves(connection, name) if version == len(MIGRATIONS) else []
            return newest_items(connection, leaves[0], limit)[::-1] if len(leaves) == 1 else ()
    except (sqlite3.Error, TypeError, ValueError):  # the last ones by a row that holds other kinds of values
        return ()


def _leaves(connection: sqlite3.Connection, name: str | None) -> list[str | None]:
    """The ends of the chats that `name` may mean."""
    if name is None:
        found = connection.execute(f"SELECT leaf_id FROM sessions {LAST_USED}").fetchall()
    else:
        found = connection.execute(f"{_ALIVE} AND id = ?", (name,)).fetchall()
        if not found and name:
            start = f"sess_{name.removeprefix('sess_')}"
            sql = f"{_ALIVE} AND parent_id IS NULL AND substr(id, 1, ?) = ? LIMIT 2"
            found = connection.execute(sql, (len(start), start)).fetchall()
    return [leaf for (leaf,) in found]
