"""Operations on the collection of sessions: list, find, name, put away, export and import."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from app.characters import clean_text
from app.sessions.errors import InvalidInputError, wrapped
from app.sessions.events import SessionEvent, SessionTitleEvent
from app.sessions.file_records import SessionFile
from app.sessions.open_sessions import Workplace
from app.sessions.records import Json, new_id, now
from app.sessions.snapshot import SessionSummary, summary_of
from app.sessions.store.rows import Change, SessionRecord, Whole
from app.sessions.store.store import Order
from app.sessions.turn.children import is_busy, summary
from backend.types import BackendError

if TYPE_CHECKING:
    from app.sessions.imported import ImportedSession

ExportFormat = Literal["jsonl", "markdown", "html"]
MAX_TITLE_CHARS = 200
MAX_TREE_DEPTH = 3


class LibraryOperations(Workplace):
    """The part of the session manager that looks after the collection."""

    async def list(
        self,
        limit: int = 20,
        *,
        after: str | None = None,
        before: str | None = None,
        agent: str | None = None,
        order: Order = "desc",
        sort: str = "updated_at",
        include_archived: bool = False,
    ) -> list[SessionSummary]:
        """A page of top-level sessions, without their items."""
        records = await self.store.sessions(
            limit=limit,
            after=after,
            before=before,
            agent=agent,
            order=order,
            sort=sort,
            include_archived=include_archived,
        )
        return [self._summary(record) for record in records]

    async def last_used(self) -> SessionSummary | None:
        """The top-level session that was written in last, whatever the clock said; None without any."""
        record = await self.store.last_used()
        return None if record is None else self._summary(record)

    def _summary(self, record: SessionRecord) -> SessionSummary:
        live = self._live.get(record.id)
        return summary_of(record, len(live.elicitations.pending) if live else 0)

    async def search(self, query: str, *, limit: int = 50) -> list[Json]:
        """Messages, thoughts and tool outputs that hold all words of `query`, newest first."""
        return await self.store.search(clean_text(query), limit=limit)

    async def rename(self, session_id: str, title: str | None) -> None:
        """Give a session a title of at most 200 characters; None takes it away."""
        title = " ".join(clean_text(title).split())[:MAX_TITLE_CHARS] or None if title is not None else None
        await self._amend(session_id, SessionTitleEvent(title=title), title=title)

    async def pin(self, session_id: str, pinned: bool = True) -> None:
        """Keep a session at the top of lists."""
        await self._amend(session_id, pinned=pinned)

    async def archive(self, session_id: str, archived: bool = True) -> None:
        """Hide a session from the default list."""
        await self._amend(session_id, archived=archived)

    async def set_archived(self, session_id: str, archived: bool) -> None:
        """As `archive`."""
        await self.archive(session_id, archived)

    async def set_labels(self, session_id: str, labels: Json) -> None:
        """Replace a session's labels, a flat object of texts."""
        if not all(isinstance(value, str) for value in labels.values()):
            raise InvalidInputError("Labels must be text.")
        await self._amend(session_id, labels=labels)

    async def set_draft(self, session_id: str, text: str) -> None:
        """Keep what is being typed over a crash. It is no change of the conversation."""
        live, text = await self.live(session_id), clean_text(text)
        await self.store.apply(session_id, Change(fields={"draft": text}), durable=False)
        live.record = replace(live.record, draft=text)

    async def delete(self, session_id: str) -> None:
        """Put a session and its sub-agents' away for 30 days, then remove it. Stops what runs."""
        for child in await self.store.sessions(parent_id=session_id, limit=10_000, include_archived=True):
            await self.delete(child.id)
        live = await self.live(session_id)
        async with live.writing():
            live.interrupt()
        await live.close()
        await self.store.apply(session_id, Change(fields={"deleted_at": now(), "status": "idle"}))
        self.forget(session_id)
        await self._forget_cells(session_id)

    async def _forget_cells(self, session_id: str) -> None:
        """Nothing of a deleted or private chat stays in the engine's cache, nor in the files that last
        longer."""
        if self._lease.has_engine:
            try:
                await self._lease.engine.forget(session_id)
            except BackendError as err:
                raise wrapped(err) from err

    async def undelete(self, session_id: str) -> None:
        """Take a deleted session back; 404 once it is gone for good."""
        record = await self.store.session(session_id, deleted=True)
        await self.store.apply(session_id, Change(fields={"deleted_at": None}))
        for child in await self.store.sessions(parent_id=record.id, limit=10_000, deleted=True):
            await self.undelete(child.id)

    async def deleted(self) -> list[SessionSummary]:
        """The sessions that can still be taken back."""
        return [self._summary(record) for record in await self.store.sessions(deleted=True, limit=10_000)]

    async def export(
        self, session_id: str, format: ExportFormat = "jsonl", *, with_files: bool = True
    ) -> str:
        """A session as text: the whole tree as JSON lines, or the active path as Markdown or HTML.

        Without `with_files` the content of what is attached is left out; Markdown never has it.
        """
        from app.sessions.export import FORMATS, render

        if format not in FORMATS:
            raise InvalidInputError(f"A chat is exported as {', '.join(FORMATS)}, not as {format[:40]!r}.")
        record = await self.record(session_id)
        nodes = await self.store.tree(session_id) if format == "jsonl" else []
        path = await self.store.branch(record.leaf_id) if format != "jsonl" else []
        files = await self.files.list(session_id)
        wanted = files if with_files and format != "markdown" else []
        contents = {file.id: await self.files.get_content(session_id, file.id) for file in wanted}
        return await asyncio.to_thread(render, format, record, nodes, path, files, contents)

    async def import_(self, file: str | Path) -> list[str]:
        """Read an export: of Fireside, ChatGPT or llama.cpp's web UI; returns the new ids.

        Imported sessions bring no rules, no queue and no open calls. A torn last line is set
        aside. InvalidInputError where anything else cannot be read: then nothing is taken in.
        """
        from app.sessions.importing import read_export

        def read() -> list[Whole]:
            return [_whole(session) for session in read_export(Path(file))]

        found = await asyncio.to_thread(read)
        await self.store.add_whole(found, uses=False)
        return [one.record.id for one in found]

    async def _amend(self, session_id: str, event: SessionEvent | None = None, **fields: object) -> None:
        """Change what a list shows of a session; that needs no lock."""
        live = await self.live(session_id)
        await live.update(Change(fields=fields))
        if event is not None:
            live.publish(event)

    # ---- sub-agents ------------------------------------------------------------------------

    async def child_sessions(self, session_id: str, *, include_archived: bool = False) -> list[Json]:
        """Summaries of the sessions right below one."""
        await self.record(session_id)
        records = await self.store.sessions(
            parent_id=session_id,
            limit=10_000,
            order="asc",
            sort="created_at",
            include_archived=include_archived,
        )
        return [await summary(await self.live(record.id)) for record in records]

    async def child_sessions_tree(
        self, session_id: str, *, max_depth: int = MAX_TREE_DEPTH, include_archived: bool = False
    ) -> list[Json]:
        """Summaries of all below a session, breadth first, each with `parent_id`; without itself."""
        found: list[Json] = []
        seen, level = {session_id}, [session_id]
        for _ in range(max_depth):
            below: list[str] = []
            for parent in level:
                for child in await self.child_sessions(parent, include_archived=include_archived):
                    if child["id"] not in seen:
                        seen.add(child["id"])
                        below.append(child["id"])
                        found.append({**child, "parent_id": parent})
            level = below
        return found

    async def subtree_busy(self, session_id: str, *, max_depth: int = MAX_TREE_DEPTH) -> bool:
        """Whether any session below one is busy, those that were put away included."""
        tree = await self.child_sessions_tree(session_id, max_depth=max_depth, include_archived=True)
        return any(map(is_busy, tree))


def _whole(imported: ImportedSession) -> Whole:
    """An imported session as it is written."""
    record = SessionRecord(
        id=new_id("sess"),
        agent=imported.agent,
        title=imported.title,
        created_at=imported.created_at,
        updated_at=imported.updated_at,
        settings={"system": imported.system} if imported.system else {},
    )
    files = {
        old: SessionFile.made(record.id, name, content) for old, (name, content) in imported.files.items()
    }
    nodes = imported.nodes({old: file.id for old, file in files.items()})
    contents = [{**vars(file), "content": imported.files[old][1]} for old, file in files.items()]
    # The end of its path may have moved while the calls were closed.
    return Whole(replace(record, leaf_id=imported.leaf), nodes, contents)
