"""What is known of one answer being made: its branch so far, and how it is added to, told and stopped.

What makes the answer (its context, its reply, its calls and their approvals) takes this, and nothing above.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app import clock
from app.sessions.errors import FiresideError
from app.sessions.events import (
    Response,
    ResponseCreatedEvent,
    ResponseInProgressEvent,
    SessionEvent,
    SessionInterruptedEvent,
)
from app.sessions.items import FunctionCall, Item, Message
from app.sessions.records import Json, now
from app.sessions.store.rows import Change
from app.sessions.turn.settings import Settings
from backend.chat_engine import ChatEngine

if TYPE_CHECKING:
    from app.sessions.turn.live import LiveSession

STOP_GRACE_S = 10.0


class TurnState:
    """One answer being made on one branch. `items` is the branch from its root to `tip`."""

    def __init__(
        self,
        live: LiveSession,
        response_id: str,
        tip: str | None,
        items: Sequence[Item],
        *,
        continued: Message | None = None,
        compacts: bool = False,
    ) -> None:
        self.live = live
        self.response_id = response_id
        self.tip = tip
        self.items = list(items)
        self.continued = continued
        self.compacts = compacts
        self._begun = live.settings
        self.instead: str | None = None
        """Where the branch ended that was active before another try, which may come to nothing."""
        self._begun_at = clock.seconds()
        self._asking, self._asking_from, self._asked_s = 0, 0.0, 0.0
        self.offered: frozenset[str] = frozenset()
        """Names of the tools that the request of the last reply offered."""
        self.interrupted = False
        self.request_id: str | None = None
        self.task: asyncio.Task[None] | None = None
        self.response = self._begun_response()
        self.stopped = asyncio.Event()
        self.rounds_left = self.settings.max_rounds
        """Replies it may still ask for."""
        self.misses = 0
        """Replies in a row with a call that could not run."""
        self._engine: ChatEngine | None = None
        self._waking: asyncio.Task[None] | None = None
        self._created = False
        self._queued = False

    @contextlib.contextmanager
    def asking(self) -> Generator[None]:
        """Within, a person is asked: that is not the time of the reply."""
        if not self._asking:
            self._asking_from = clock.seconds()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._asked_s += clock.seconds() - self._asking_from

    @property
    def worked_s(self) -> float:
        """Seconds since it began, without those that a person was asked."""
        return max(0.0, clock.seconds() - self._begun_at - self._asked_s)

    @property
    def settings(self) -> Settings:
        """Those it began with; mode and tools are the session's as they are now."""
        now = self.live.settings
        return replace(self._begun, approve=now.approve, tools=now.tools, origins=now.origins)

    @property
    def context_window(self) -> int | None:
        """Tokens its model holds at once; None before there is one."""
        card = None if self._engine is None else self._engine.card
        return None if card is None else card.max_seq or None or None

    def _begun_response(self) -> Response:
        agent, effort = self._begun.agent, self.live.record.settings.get("reasoning_effort")
        before = (item.response_id for item in reversed(self.items) if item.response_id is not None)
        return Response(
            id=self.response_id,
            model=agent.name,
            instructions=agent.instructions or None,
            reasoning=None if effort is None else {"effort": effort},
            previous_response_id=next(before, None),
        )

    def interrupt(self) -> None:
        """Stop: nothing more of the reply is shown or kept, open calls and questions are closed."""
        if self.interrupted:
            return
        self.publish(SessionInterruptedEvent(requested_at=now(), response_id=self.response_id))
        self.stop()

    def stop(self) -> None:
        """As `interrupt`, by an answer to a question."""
        self.interrupted = True
        self.stopped.set()
        if self._engine is not None and self.request_id is not None:
            self._engine.cancel(self.request_id)
        self.live.elicitations.cancel_all()
        if self._engine is None:
            self._waking = asyncio.create_task(self.live.services.lease.wake())
        # An engine that does not end by being asked is left.
        asyncio.get_running_loop().call_later(STOP_GRACE_S, self._insist)

    def _insist(self) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()

    def publish(self, event: SessionEvent) -> None:
        self.live.publish(event)

    async def append(
        self,
        items: Sequence[Item],
        *,
        durable: bool = True,
        settled: Sequence[FunctionCall] = (),
        dequeue: Sequence[str] = (),
        written: Sequence[str] = (),
        fields: Json | None = None,
    ) -> None:
        """Write items at the tip; the active path follows if it ends here."""
        live, tip = self.live, self.tip
        if items:
            self.tip = items[-1].id
            self.items.extend(items)
        change = Change(
            items=items,
            parent=tip,
            move_leaf=live.record.leaf_id == tip,
            settled=settled,
            dequeue=dequeue,
            written=written,
            fields=fields or {},
        )
        try:
            await live.update(change, durable=durable)
        except FiresideError:
            self.tip = tip
            self.items = self.items[: len(self.items) - len(items)]
            raise

    def begin_response(self) -> None:
        """Publish that the response exists, once."""
        if self._created:
            return
        self._created = True
        self.publish(ResponseCreatedEvent(response=self.response))
        self.publish(ResponseInProgressEvent(response=self.response))
