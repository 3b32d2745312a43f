"""The sessions this process has open, and what all operations on them stand on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.sessions.events import OutputFileDoneEvent, OutputItemDoneEvent, SessionStatusEvent
from app.sessions.file_records import SessionFile
from app.sessions.items import Item, Message
from app.sessions.records import Json, new_id
from app.sessions.store.ledger import Ledger
from app.sessions.store.recovery import recover
from app.sessions.store.rows import SessionRecord
from app.sessions.store.store import Store
from app.sessions.turn.children import Children
from app.sessions.turn.engine_lease import EngineLease
from app.sessions.turn.files import SessionFiles
from app.sessions.turn.live import LiveSession, Services
from app.sessions.turn.settings import Defaults, checked
from app.sessions.turn.toolbox import Changes, Policy, Toolbox

if TYPE_CHECKING:
    from app.sessions.tools_adapter import ToolsAdapter
    from app.sessions.turn.state import TurnState

FOLLOW_S = 0.25


def _begin_turn(
    live: LiveSession,
    response_id: str,
    tip: str | None,
    items: Sequence[Item],
    continued: Message | None,
    compacts: bool,
) -> TurnState:
    from app.sessions.turn.turn import Turn  # What answers is not needed before there is a message.

    turn = Turn(live, response_id, tip, items, continued=continued, compacts=compacts)
    turn.start()
    return turn


class Workplace:
    """Opens sessions and keeps one `LiveSession` for each."""

    def __init__(
        self,
        store: Store,
        lease: EngineLease,
        toolbox: Toolbox,
        adapter: ToolsAdapter | None,
        policy: Policy | None,
        defaults: Defaults,
    ) -> None:
        self.store = store
        self._lease = lease
        self.files = SessionFiles(store.database)
        self.files.on_produced = self._tell_of_file
        self.ledger = Ledger(store.database)
        self._children = Children()
        self._children.opener = self
        self._live: dict[str, LiveSession] = {}
        self._opening = asyncio.Lock()
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._services = Services(
            store,
            self.ledger,
            self.files,
            lease,
            toolbox,
            adapter,
            policy,
            defaults,
            self._children,
            Changes(),
            _begin_turn,
        )

    @property
    def is_private(self) -> bool:
        """Whether its chats end with it: nothing of them is written."""
        return self.store.private

    async def start(self) -> None:
        """Make whole what a crash left behind, and remove what was deleted long ago."""
        await self.store.database.check()
        await recover(self.store)
        for session_id in await self.store.purge():
            if self.store.locks.try_take(session_id):
                self.store.locks.forget(session_id)

    async def stop(self) -> None:
        """Stop every turn and let go of every session."""
        for follower in self._followers.values():
            follower.cancel()
        # Children first: a parent may wait for one.
        lives = sorted(self._live.values(), key=lambda live: live.parent is None)
        await asyncio.gather(*(live.close() for live in lives))
        self._live.clear()

    async def live(self, session_id: str) -> LiveSession:
        """The open session of an id; 404 where there is none."""
        async with self._opening:
            return await self._open(session_id)

    async def _open(self, session_id: str) -> LiveSession:
        if (found := self._live.get(session_id)) is not None:
            return found
        record = await self.store.session(session_id)
        parent = await self._open(record.parent_id) if record.parent_id else None
        live = LiveSession(self._services, record, parent)
        self._live[session_id] = live
        return live

    async def of_item(self, item_id: str) -> LiveSession:
        """The session that an item belongs to."""
        return await self.live((await self.store.node(item_id)).session_id)

    async def of_response(self, response_id: str) -> LiveSession:
        """The session that a response belongs to."""
        for live in self._live.values():
            if response_id in live.turns:
                return live
        return await self.live((await self.store.response(response_id))[0].session_id)

    async def record(self, session_id: str) -> SessionRecord:
        """A session's row as it is now, whoever writes it."""
        live = self._live.get(session_id)
        if live is not None and live.owned:
            return live.record
        return await self.store.session(session_id)

    async def open_child(self, parent: LiveSession, title: str, fields: Json) -> LiveSession:
        """A new session below `parent`; its title is unique there."""
        titles = {record.title for record in await self.store.sessions(parent_id=parent.id, limit=10_000)}
        agent = parent.record.agent
        full, number = f"{agent['name']}:{title}", 1
        while full in titles:
            number += 1
            full = f"{agent['name']}:{title} {number}"
        record = SessionRecord(
            id=new_id("sess"),
            agent={**agent, "tools": []},
            parent_id=parent.id,
            root_id=parent.record.root_id or parent.id,
            title=full,
            settings={name: value for name, value in checked(fields).items() if value is not None},
        )
        await self.store.add_session(record)
        child = await self.live(record.id)
        self._children.add(parent, child)
        return child

    async def release(self, session_id: str) -> None:
        """Close a session here: stop what runs, end its streams, let other processes have it."""
        live = self._live.pop(session_id, None)
        if live is not None:
            await live.close()

    def forget(self, session_id: str) -> None:
        """No longer keep a closed session."""
        self._live.pop(session_id, None)

    def _tell_of_file(self, file: SessionFile, response_id: str) -> None:
        """A running call made a file: tell whoever listens to its turn."""
        live = self._live.get(file.session_id)
        turn = None if live is None else live.turns.get(response_id)
        if turn is not None and not turn.interrupted:
            turn.publish(
                OutputFileDoneEvent(
                    file_id=file.id,
                    filename=file.name,
                    content_type=file.content_type,
                    response_id=response_id,
                )
            )

    def follow(self, live: LiveSession) -> None:
        """While another process may write a session, tell our subscribers what it writes."""
        if live.owned or self.store.private or live.id in self._followers:
            return
        task = asyncio.create_task(self._follow(live), name=f"follow {live.id}")
        self._followers[live.id] = task
        task.add_done_callback(lambda _: self._followers.pop(live.id, None))

    async def _follow(self, live: LiveSession) -> None:
        seen = await self.store.last_seq(live.id)
        version, status = None, live.record.status
        with contextlib.suppress(asyncio.CancelledError):
            while not live.owned and not live.closed and live.bus.listeners:
                await asyncio.sleep(FOLLOW_S)
                if (now := await self.store.database.version()) == version:
                    continue
                version = now
                for number, item in await self.store.added_since(live.id, seen):
                    if live.owned and number > live.foreign_until:
                        return  # Our own by now, and told.
                    if item.status == "action_required":
                        # Whoever holds the session runs the call.
                        item = replace(item, status="in_progress")
                    live.publish(OutputItemDoneEvent(item=item))
                    seen = number
                record = await self.store.session(live.id)
                if not live.owned:
                    live.record = record
                if record.status != status:
                    status = record.status
                    live.publish(SessionStatusEvent(conversation_id=live.id, status=status))


def folder_of(workspace: str | Path | None) -> str | None:
    """A workspace as the settings hold it: an absolute path."""
    return None if workspace is None else str(Path(workspace).expanduser().resolve())
