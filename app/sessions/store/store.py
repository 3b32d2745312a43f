"""The store: sessions as trees of items. One file, because one writer has all of the SQL.

Durable before anybody hears of them, never overwritten.
Owns the SQL. It knows nothing of turns; what belongs together is given to it as one `Change`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from app import paths
from app.open_stores import STORE_FILE
from app.sessions.errors import ConflictError, FiresideError, InvalidInputError, not_found
from app.sessions.items import Item
from app.sessions.records import Json, now
from app.sessions.store import asked
from app.sessions.store.database import Database
from app.sessions.store.locks import LOCKS, SessionLocks
from app.sessions.store.rows import (
    Change,
    Node,
    SessionRecord,
    Whole,
    Writing,
    add_file,
    add_items,
    add_session,
    add_tree,
    hit,
    item_of,
    next_change,
    record_of,
    remove_session,
    settle,
    text_json,
    title_hit,
    update_session,
)
from app.sessions.store.search import in_title, match_expression
from app.sessions.store.store_file import unusable
from backend.places import ForeignPathError

Order = Literal["asc", "desc"]
DELETED_KEPT_S = 30 * 24 * 3600
MAX_PAGE = 10_000
_NOT_CONVERSATION = {"status", "draft", "pinned", "archived", "deleted_at"}
"""What changes without the conversation: it does not make a chat the newest."""

_PATH = """
    WITH RECURSIVE path(seq, parent_seq, depth) AS (
        SELECT seq, parent_seq, depth FROM items WHERE id = ?1
        UNION ALL
        SELECT i.seq, i.parent_seq, i.depth FROM path p JOIN items i ON i.seq = p.parent_seq
    )
"""

LAST_USED = (
    "WHERE deleted_at IS NULL AND parent_id IS NULL AND archived = 0 "
    "ORDER BY used DESC, updated_at DESC, changed DESC, id DESC LIMIT 1"
)


def newest_items(connection: sqlite3.Connection, leaf_id: str | None, limit: int) -> list[Item]:
    """At most `limit` items from `leaf_id` towards the root."""
    sql = f"{_PATH} SELECT i.data FROM path p JOIN items i ON i.seq = p.seq LIMIT ?2"
    return [item_of(data) for (data,) in connection.execute(sql, (leaf_id, limit))]


class Store:
    """The chats of one person. `path` is a file or a folder; None keeps everything in memory."""

    def __init__(self, path: Path | None) -> None:
        if path is not None and path.is_dir():
            path = path / STORE_FILE
        self.database = Database(path)
        self.file = path = self.database.path
        self.locks = SessionLocks(None if path is None else path.with_name(LOCKS))
        if path is not None and asked.is_waiting(path):
            with contextlib.suppress(OSError, FiresideError):  # The next opening tries again.
                self._take_in(path)

    @classmethod
    def default(cls) -> Store:
        """The store in the data folder. ServerError where there can be none, ForeignPathError."""
        file = paths.data_dir() / STORE_FILE
        try:
            paths.make_private_dir(file.parent)
        except ForeignPathError:
            raise
        except OSError as err:
            raise unusable(file, err) from err
        return cls(paths.require_own(file))

    def _take_in(self, file: Path) -> None:
        for done in self.database.write_at_once(lambda connection: asked.take_in(connection, file)):
            done.unlink(missing_ok=True)

    @property
    def private(self) -> bool:
        """Whether nothing of it reaches a disk."""
        return self.file is None

    async def close(self) -> None:
        await self.database.close()
        self.locks.release_all()

    # ---- sessions --------------------------------------------------------------------------

    async def add_session(
        self, record: SessionRecord, items: Sequence[Item] = (), *, uses: bool = True
    ) -> None:
        """Write a new session, with what it begins with; `uses` makes it the one that was used last."""

        def work(connection: sqlite3.Connection) -> None:
            add_session(connection, record, next_change(connection), uses=uses)
            if items:
                add_items(connection, record.id, items, None)
                connection.execute("UPDATE sessions SET leaf_id = ? WHERE id = ?", (items[-1].id, record.id))

        await self.database.write(work)

    async def session(self, session_id: str, *, deleted: bool = False) -> SessionRecord:
        """A session's row; a FiresideError with status 404 where there is none."""

        def work(connection: sqlite3.Connection) -> SessionRecord:
            cursor = connection.execute("SELECT * FROM sessions WHERE id = ?", (session_id,))
            row = cursor.fetchone()
            if row is None:
                raise not_found("chat", session_id)
            record = record_of(dict(zip((column[0] for column in cursor.description), row, strict=True)))
            if record.deleted_at is not None and not deleted:
                raise not_found("chat", session_id)
            return record

        return await self.database.read(work)

    async def sessions(
        self,
        *,
        limit: int = 20,
        after: str | None = None,
        before: str | None = None,
        agent: str | None = None,
        order: Order = "desc",
        sort: str = "updated_at",
        include_archived: bool = False,
        parent_id: str | None = None,
        statuses: Sequence[str] = (),
        deleted: bool = False,
    ) -> list[SessionRecord]:
        """A page of sessions, top-level ones unless `parent_id` is given."""
        if sort not in ("created_at", "updated_at"):
            raise InvalidInputError(f"Chats are sorted by created_at or updated_at, not by {sort[:40]!r}.")
        where = ["deleted_at IS NOT NULL" if deleted else "deleted_at IS NULL"]
        values: list[Any] = []
        if statuses:
            where.append(f"status IN ({', '.join('?' * len(statuses))})")
            values.extend(statuses)
        else:
            where.append("parent_id IS ?")
            values.append(parent_id)
        if not include_archived and not statuses:
            where.append("archived = 0")
        if agent is not None:
            where.append("json_extract(agent, '$.name') = ?")
            values.append(agent)
        # Times are whole seconds; within one the last change is the newest.
        keys = "updated_at, changed, id" if sort == "updated_at" else "created_at, made, id"
        back = order == "desc"
        for cursor_id, further in ((after, back), (before, not back)):
            if cursor_id is not None:
                sign = "<" if further else ">"
                where.append(f"({keys}) {sign} (SELECT {keys} FROM sessions WHERE id = ?)")
                values.append(cursor_id)
        # The page before a cursor is the one nearest to it.
        turned = back != (before is not None)
        direction = "DESC" if turned else "ASC"
        sql = (
            f"SELECT * FROM sessions WHERE {' AND '.join(where)} "
            f"ORDER BY {keys.replace(',', f' {direction},')} {direction} LIMIT ?"
        )
        values.append(max(1, min(limit, MAX_PAGE)))

        def work(connection: sqlite3.Connection) -> list[SessionRecord]:
            cursor = connection.execute(sql, values)
            names = [column[0] for column in cursor.description]
            found = [record_of(dict(zip(names, row, strict=True))) for row in cursor]
            return found[::-1] if before is not None else found

        return await self.database.read(work)

    async def last_used(self) -> SessionRecord | None:
        """The top-level session that was written in last; None where there is none. No clock decides it."""

        def work(connection: sqlite3.Connection) -> SessionRecord | None:
            cursor = connection.execute(f"SELECT * FROM sessions {LAST_USED}")
            names = [column[0] for column in cursor.description]
            return next((record_of(dict(zip(names, row, strict=True))) for row in cursor), None)

        return await self.database.read(work)

    async def add_replies(self, session_id: str, question: str, branches: Sequence[Sequence[Item]]) -> None:
        """End the turn of a running session: each branch below `question`, the first one active."""

        def work(connection: sqlite3.Connection) -> None:
            for branch in branches:
                add_items(connection, session_id, branch, question)
            leaf = next((branch[-1].id for branch in branches if branch), question)
            fields = {"leaf_id": leaf, "status": "idle", "updated_at": now()}
            update_session(connection, session_id, fields, uses=True)

        await self.database.write(work)

    async def remove(self, session_id: str) -> None:
        """Remove a session for good, as if it had never been."""
        await self.database.write(lambda connection: remove_session(connection, session_id))

    async def apply(self, session_id: str, change: Change, *, durable: bool = True) -> None:
        """Do everything in `change`, or nothing of it."""

        def work(connection: sqlite3.Connection) -> None:
            fields = dict(change.fields)
            if change.items:
                add_items(connection, session_id, change.items, change.parent)
                if change.move_leaf:
                    fields["leaf_id"] = change.items[-1].id
            for call in change.settled:
                settle(connection, call)
            for item_id in change.dequeue:
                gone = connection.execute(
                    "DELETE FROM queue WHERE item_id = ? AND session_id = ?", (item_id, session_id)
                )
                if not gone.rowcount:
                    raise ConflictError("That queued message has been sent or removed already.")
            for item in change.enqueue:
                connection.execute(
                    "INSERT INTO queue SELECT ?, ?, coalesce(max(position), 0) + 1, ? FROM queue",
                    (item.id, session_id, text_json(item.to_wire())),
                )
            for response_id in change.written:
                connection.execute("DELETE FROM writing WHERE response_id = ?", (response_id,))
            says = bool(change.items or change.enqueue or "leaf_id" in fields)
            uses = says if change.uses is None else change.uses
            if change.uses is not False and (change.items or fields.keys() - _NOT_CONVERSATION):
                fields.setdefault("updated_at", now())
            if fields or uses:
                update_session(connection, session_id, fields, uses=uses)

        await self.database.write(work, durable=durable)

    async def checkpoint(self, writing: Writing) -> None:
        """Save a reply as far as it is written."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO writing(response_id, session_id, parent_id, agent, reasoning, text) "
                "VALUES (:response_id, :session_id, :parent_id, :agent, :reasoning, :text)",
                vars(writing),
            )

        await self.database.write(work, durable=False)

    async def writings(self, session_id: str | None = None) -> list[Writing]:
        """The replies that were being written: of one session, or of all."""

        def work(connection: sqlite3.Connection) -> list[Writing]:
            rows = connection.execute(
                "SELECT response_id, session_id, parent_id, agent, reasoning, text FROM writing "
                "WHERE ?1 IS NULL OR session_id = ?1",
                (session_id,),
            )
            return [Writing(*row) for row in rows]

        return await self.database.read(work)

    async def purge(self, before: int | None = None) -> list[str]:
        """Remove what was deleted more than 30 days ago, for good; returns the ids."""
        limit = now() - DELETED_KEPT_S if before is None else before

        def work(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute("SELECT id FROM sessions WHERE deleted_at < ?", (limit,)).fetchall()
            for (session_id,) in rows:
                remove_session(connection, session_id)
            return [row[0] for row in rows]

        return await self.database.write(work)

    async def add_whole(self, sessions: Sequence[Whole], *, uses: bool = True) -> None:
        """Write new sessions with all they have: every one of them, or none.

        Without `uses` they are older than all that a person used here.
        """

        def work(connection: sqlite3.Connection) -> None:
            for number, one in enumerate(sessions, next_change(connection)):
                add_session(connection, one.record, number, uses=uses)
                add_tree(connection, one.record.id, one.nodes)
                for file in one.files:
                    add_file(connection, file)

        await self.database.write(work)

    # ---- items -----------------------------------------------------------------------------

    async def node(self, item_id: str) -> Node:
        """An item with its place; 404 where there is none."""

        def work(connection: sqlite3.Connection) -> Node:
            row = connection.execute(
                "SELECT data, session_id, parent_id FROM items WHERE id = ?", (item_id,)
            ).fetchone()
            if row is None:
                raise not_found("item", item_id)
            return Node(item_of(row[0]), row[1], row[2])

        return await self.database.read(work)

    async def branch(
        self,
        leaf_id: str | None,
        *,
        limit: int | None = None,
        after: str | None = None,
        order: Order = "asc",
    ) -> list[Item]:
        """The items from the root to `leaf_id`; with `limit` one page of them, beyond `after`."""
        direction = "ASC" if order == "asc" else "DESC"
        beyond = ">" if order == "asc" else "<"
        sql = (
            f"{_PATH} SELECT i.data FROM path p JOIN items i ON i.seq = p.seq "
            f"WHERE ?2 IS NULL OR p.depth {beyond} (SELECT depth FROM items WHERE id = ?2) "
            f"ORDER BY p.depth {direction} LIMIT ?3"
        )

        def work(connection: sqlite3.Connection) -> list[Item]:
            start, cursor = leaf_id, after
            if order == "desc" and after is not None:
                # Walking on from the cursor costs a page, not the whole chat.
                row = connection.execute("SELECT parent_id FROM items WHERE id = ?", (after,)).fetchone()
                start, cursor = (row[0] if row else None), None
            if order == "desc" and limit is not None:
                return newest_items(connection, start, limit)
            rows = connection.execute(sql, (start, cursor, -1 if limit is None else limit))
            return [item_of(data) for (data,) in rows]

        items = await self.database.read(work)
        if not items and leaf_id is not None and after is None:
            # A session tells its leaf while that is still being written.
            await self.database.settled()
            items = await self.database.read(work)
        return items

    async def tree(self, session_id: str) -> list[Node]:
        """Every item of a session, on whatever branch, in the order they were written."""

        def work(connection: sqlite3.Connection) -> list[Node]:
            rows = connection.execute(
                "SELECT data, session_id, parent_id FROM items WHERE session_id = ? ORDER BY seq",
                (session_id,),
            )
            return [Node(item_of(data), owner, parent) for data, owner, parent in rows]

        return await self.database.read(work)

    async def added_since(self, session_id: str, seq: int) -> list[tuple[int, Item]]:
        """Items written after `seq`, with theirs; how a second process follows."""

        def work(connection: sqlite3.Connection) -> list[tuple[int, Item]]:
            rows = connection.execute(
                "SELECT seq, data FROM items WHERE session_id = ? AND seq > ? ORDER BY seq", (session_id, seq)
            )
            return [(number, item_of(data)) for number, data in rows]

        return await self.database.read(work)

    async def last_seq(self, session_id: str) -> int:
        """The number of the item that was written last; 0 where there is none."""

        def work(connection: sqlite3.Connection) -> int:
            row = connection.execute(
                "SELECT max(seq) FROM items WHERE session_id = ?", (session_id,)
            ).fetchone()
            return int(row[0] or 0)

        return await self.database.read(work)

    async def children(self, item_id: str | None, session_id: str) -> list[Item]:
        """The items right below one, oldest first; of the root where it is None."""

        def work(connection: sqlite3.Connection) -> list[Item]:
            rows = connection.execute(
                "SELECT data FROM items WHERE parent_id IS ? AND session_id = ? ORDER BY seq",
                (item_id, session_id),
            )
            return [item_of(data) for (data,) in rows]

        return await self.database.read(work)

    async def newest_leaf(self, item_id: str) -> str:
        """The end of the newest branch through an item."""

        def work(connection: sqlite3.Connection) -> str:
            leaf = item_id
            while row := connection.execute(
                "SELECT id FROM items WHERE parent_id = ? ORDER BY seq DESC LIMIT 1", (leaf,)
            ).fetchone():
                leaf = row[0]
            return leaf

        return await self.database.read(work)

    async def response(self, response_id: str) -> list[Node]:
        """The items of a response, in order; 404 where there is none."""

        def work(connection: sqlite3.Connection) -> list[Node]:
            rows = connection.execute(
                "SELECT data, session_id, parent_id FROM items WHERE response_id = ? ORDER BY seq",
                (response_id,),
            ).fetchall()
            if not rows:
                raise not_found("response", response_id)
            return [Node(item_of(data), owner, parent) for data, owner, parent in rows]

        return await self.database.read(work)

    async def queued(self, session_id: str) -> list[Item]:
        """Inputs that wait, oldest first."""

        def work(connection: sqlite3.Connection) -> list[Item]:
            rows = connection.execute(
                "SELECT data FROM queue WHERE session_id = ? ORDER BY position", (session_id,)
            )
            return [item_of(data) for (data,) in rows]

        return await self.database.read(work)

    async def queued_in(self, item_id: str) -> str | None:
        """The session in whose queue a message waits."""

        def work(connection: sqlite3.Connection) -> str | None:
            row = connection.execute("SELECT session_id FROM queue WHERE item_id = ?", (item_id,)).fetchone()
            return row[0] if row else None

        return await self.database.read(work)

    async def requeue(self, session_id: str, item: Item) -> None:
        """Change a queued input in its place; 409 where it was sent meanwhile."""

        def work(connection: sqlite3.Connection) -> None:
            changed = connection.execute(
                "UPDATE queue SET data = ? WHERE item_id = ? AND session_id = ?",
                (text_json(item.to_wire()), item.id, session_id),
            )
            if not changed.rowcount:
                raise ConflictError("That queued message has been sent or removed already.")

        await self.database.write(work)

    async def search(self, query: str, *, limit: int = 50) -> list[Json]:
        """Items that hold all words of `query`, newest first: session, item, title, preview. Before them the
        chats of which only the title does, without an item."""
        expression = match_expression(query)
        if expression is None:
            return []

        def work(connection: sqlite3.Connection) -> list[Json]:
            rows = connection.execute(
                "SELECT i.session_id, s.title, s.archived, i.data FROM "
                "(SELECT rowid AS seq FROM found WHERE found MATCH ? ORDER BY rowid DESC) f "
                "JOIN items i ON i.seq = f.seq JOIN sessions s ON s.id = i.session_id "
                "WHERE s.deleted_at IS NULL LIMIT ?",
                (expression, max(1, min(limit, MAX_PAGE))),
            )
            hits = [hit(*row, query=query) for row in rows]
            known = {one["session_id"] for one in hits}
            titled = connection.execute(
                "SELECT id, title, archived, updated_at FROM sessions "
                "WHERE deleted_at IS NULL AND title IS NOT NULL ORDER BY updated_at DESC"
            )
            named = [title_hit(*row) for row in titled if row[0] not in known and in_title(row[1], query)]
            return [*named, *hits][: max(1, min(limit, MAX_PAGE))]

        return await self.database.read(work)
