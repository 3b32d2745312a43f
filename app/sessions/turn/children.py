"""Child sessions: work an agent hands on. Each is a whole session; its questions reach its ancestors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from app.sessions.events import ChildSessionUpdatedEvent, SessionCreatedEvent
from app.sessions.items import ErrorItem, Message, user_message
from app.sessions.records import Json

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Delegation, SpawnRequest
    from app.sessions.turn.live import LiveSession
    from app.sessions.turn.state import TurnState

MAX_DEPTH = 2
PREVIEW_CHARS = 150


class Opener(Protocol):
    """Makes and opens sessions; the manager is one."""

    async def open_child(self, parent: LiveSession, title: str, fields: Json) -> LiveSession: ...


class Children:
    """Which sessions work for which."""

    def __init__(self) -> None:
        self._of: dict[str, list[LiveSession]] = {}
        self._awaited: set[str] = set()
        self._delegations: dict[str, Delegation] = {}
        self.opener: Opener | None = None

    def working(self, session_id: str) -> bool:
        """Whether a child of a session is busy."""
        return any(child.busy for child in self.of(session_id))

    def of(self, session_id: str) -> Sequence[LiveSession]:
        """The children of a session that were started since this process began."""
        return self._of.get(session_id, ())

    def add(self, parent: LiveSession, child: LiveSession) -> None:
        """Remember a child and tell the parent's subscribers."""
        self._of.setdefault(parent.id, []).append(child)
        parent.publish(
            SessionCreatedEvent(
                conversation_id=parent.id,
                child_session_id=child.id,
                agent_id=child.settings.agent.id,
                parent_session_id=parent.id,
            )
        )

    def delegation(self, turn: TurnState) -> Delegation | None:
        """How a tool of this turn hands a task on, one object for all calls of a session; None at the deepest
        level."""
        live, opener = turn.live, self.opener
        if depth_of(live) >= MAX_DEPTH or opener is None:
            return None
        from app.sessions.tools_adapter import Delegation

        async def spawn(request: SpawnRequest) -> str:
            return await self._run(opener, turn, request)

        found = self._delegations.setdefault(live.id, Delegation(spawn))
        found.spawn = spawn
        found.tools = tuple(live.services.toolbox.offered(turn.settings.tools, turn.settings.approve))
        found.mode = turn.settings.approve
        found.depth = depth_of(live)
        found.rounds = turn.rounds_left
        found.deadline = live.deadline
        return found

    async def _run(self, opener: Opener, turn: TurnState, request: SpawnRequest) -> str:
        """Run a child to its end and return its last words.

        What it may do is never more than what its parent may now, its rounds and its time never more than
        what is left to its parent.
        """
        live = turn.live
        settings = turn.settings
        offered = live.services.toolbox.offered(settings.tools, settings.approve)
        fields: Json = {
            "approve": request.mode,
            "overflow": "compact" if settings.overflow == "ask" else settings.overflow,
            "tools": [name for name in offered if name in request.tools],
            "model": settings.model,
            "workspace": settings.workspace,
            "max_rounds": min(request.rounds, turn.rounds_left),
        }
        child = await opener.open_child(live, "task", fields)
        self._awaited.add(child.id)
        child.deadline = _earlier(live.deadline, request.time_s)
        try:
            async with asyncio.timeout(child.deadline - time.monotonic()):
                await child.post(user_message(request.task))
                await self._until_rest(child)
        except TimeoutError:
            await self._stop(child)
            return f"The sub-agent ran out of time. Its last words: {await last_words(child)}"
        except asyncio.CancelledError:
            await self._stop(child)
            raise
        finally:
            child.deadline = None
            self._awaited.discard(child.id)
        return await last_words(child)

    async def _stop(self, child: LiveSession) -> None:
        child.interrupt()
        await self._until_rest(child)

    async def _until_rest(self, child: LiveSession) -> None:
        while child.turns:
            tasks = [turn.task for turn in child.turns.values() if turn.task is not None]
            await asyncio.wait(tasks)

    async def settled(self, child: LiveSession) -> None:
        """A child came to rest: tell the parent, and wake it unless it waits for the words itself."""
        parent = child.parent
        if parent is None:
            return
        parent.publish(
            ChildSessionUpdatedEvent(
                conversation_id=parent.id, child_session_id=child.id, child=await summary(child)
            )
        )
        if child.id in self._awaited or parent.closed:
            return
        words = await last_words(child)
        name = child.record.title or child.id
        note = user_message(f"[Sub-agent {name} has finished]\n{words}", is_meta=True)
        await parent.post(note)


def _earlier(deadline: float | None, time_s: float) -> float:
    """The moment `time_s` from now, or `deadline` where that comes first."""
    own = time.monotonic() + time_s
    return own if deadline is None else min(own, deadline)


def depth_of(live: LiveSession) -> int:
    """How many sessions are above one."""
    depth, above = 0, live.parent
    while above is not None:
        depth, above = depth + 1, above.parent
    return depth


async def last_words(child: LiveSession) -> str:
    """A child's last text, or why there is none."""
    for item in await child.services.store.branch(child.record.leaf_id, limit=50, order="desc"):
        if isinstance(item, ErrorItem):
            return f"The sub-agent failed: {item.message}"
        if isinstance(item, Message) and item.role == "assistant":
            if item.text:
                return item.text
            return "The sub-agent was stopped." if item.interrupted else "The sub-agent said nothing."
    return "The sub-agent said nothing."


async def summary(child: LiveSession) -> Json:
    """What a parent's face shows of a child."""
    record = child.record
    status = record.status
    task = {"failed": "failed", "idle": "completed"}.get(status, status)
    kind, _, name = (record.title or "").partition(":")
    found: dict[str, Any] = {
        "id": child.id,
        "parent_session_id": record.parent_id,
        "title": record.title,
        "tool": kind if name else None,
        "session_name": name or record.title,
        "agent_name": child.settings.agent.name,
        "current_task_status": task,
        "busy": child.busy,
        "last_message_preview": (await last_words(child))[:PREVIEW_CHARS],
        "pending_elicitations_count": len(child.elicitations.pending),
        "last_task_error": record.last_error,
        "labels": record.labels,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }
    return found


def is_busy(child: Json) -> bool:
    """The busy predicate for a child's summary; missing fields count as not busy."""
    if child.get("pending_elicitations_count") or child.get("busy"):
        return True
    status = child.get("current_task_status")
    return status is not None and status not in ("completed", "failed", "cancelled")
