"""A turn: the model, its calls, their results, the model again, until it has answered.

However it ends, the history it leaves is well-formed: every call has one result, and what a
person saw of a reply is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.sessions.errors import FiresideError, ServerError, wrapped
from app.sessions.events import (
    TERMINAL_EVENTS,
    Response,
    ResponseCreatedEvent,
    ResponseErrorEvent,
    ResponseInProgressEvent,
    ResponseQueuedEvent,
    SessionEvent,
    SessionInterruptedEvent,
    SessionModelLoadEvent,
)
from app.sessions.items import ErrorItem, FunctionCall, Item, Message
from app.sessions.records import Json, now
from app.sessions.store.rows import Change
from app.sessions.turn.calls import Calls
from app.sessions.turn.context import Context
from app.sessions.turn.reply import write_reply
from app.sessions.turn.settings import Settings
from backend.chat_engine import ChatEngine
from backend.types import BackendError

if TYPE_CHECKING:
    from app.sessions.turn.live import LiveSession

logger = logging.getLogger("fireside")

STOP_GRACE_S = 10.0


@dataclass(frozen=True)
class End:
    """How a turn ended: its response's status, and why it is incomplete or failed."""

    status: str
    reason: str | None = None
    error: Json | None = None


class Turn:
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

    @property
    def settings(self) -> Settings:
        """Those it began with; mode and tools are the session's as they are now."""
        now = self.live.settings
        return replace(self._begun, approve=now.approve, tools=now.tools, origins=now.origins)

    @property
    def context_window(self) -> int | None:
        """Tokens its model holds at once; None before there is one."""
        card = None if self._engine is None else self._engine.card
        return None if card is None else card.max_seq

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

    def start(self) -> None:
        """Run it on the event loop."""
        self.task = asyncio.create_task(self._run(), name=f"turn {self.response_id}")

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
            self._waking = asyncio.create_task(self.live.services.desk.wake())
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

    # ---- running ---------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            end = await self._work()
        except FiresideError as err:
            end = self._failed(err)
        except BackendError as err:
            end = self._failed(wrapped(err))
        except asyncio.CancelledError:
            self.interrupted = True
            end = End("cancelled")
        except Exception as err:
            logger.exception("a turn failed for an unknown reason")
            end = self._failed(ServerError(f"The turn failed: {type(err).__name__}: {err}"))
        if self.interrupted:
            end = End("cancelled")
        try:
            await self._finish(end)
        except Exception as err:
            logger.exception("the end of a turn could not be written")
            self._abandon(err)

    async def _work(self) -> End:
        live, settings = self.live, self.settings
        desk = live.services.desk
        if desk.must_wait(settings.model):
            self._queued = True
            self.publish(ResponseQueuedEvent(response=replace(self.response, status="queued")))
        async with desk.use(settings.model, self._loading, lambda: not self.interrupted) as engine:
            self._engine = engine
            self._loaded()
            if self.compacts:
                await Context(self, engine).compact()
                return End("completed")
            while self.rounds_left > 0:
                if self.interrupted:
                    return End("cancelled")
                self.rounds_left -= 1
                request = await Context(self, engine).request()
                if self.interrupted:
                    return End("cancelled")
                reply = await write_reply(self, engine, request)
                self.continued = None
                # Also for a turn that was stopped meanwhile: what was stored needs its results.
                await Calls(self).run(reply.calls)
                if not reply.calls:
                    return self._ended(reply.finish)
                if self.interrupted:
                    return End("cancelled")
                await live.take_queue(self)
        return End("incomplete", "max_rounds")

    def _ended(self, finish: str) -> End:
        match finish:
            case "length":
                return End("incomplete", "max_output_tokens")
            case "cancelled":
                return End("cancelled")
            case "error":
                message = "The engine ended the reply without a result."
                return End("failed", error={"code": "engine_error", "message": message})
            case _:
                return End("completed")

    def _loading(self, fraction: float) -> None:
        if self.live.record.status != "launching":
            self.live.record = replace(self.live.record, status="launching")
            self.live.publish_status("launching", self.response_id)
        self.publish(SessionModelLoadEvent(fraction=fraction))

    def _loaded(self) -> None:
        if self.live.record.status == "launching":
            self.live.record = replace(self.live.record, status="running")
            self.live.publish_status("running", self.response_id)

    def _failed(self, err: FiresideError) -> End:
        error: Json = {"code": err.code or "error", "message": err.message}
        if err.remedy:
            error["remediation"] = err.remedy
        return End("failed", error=error)

    async def _finish(self, end: End) -> None:
        live = self.live
        items: list[Item] = []
        if end.status == "failed" and end.error is not None:
            items.append(
                ErrorItem(
                    source="execution" if self._created else "setup",
                    code=end.error["code"],
                    message=end.error["message"],
                    remediation=end.error.get("remediation"),
                    response_id=self.response_id,
                )
            )
        elif end.status == "cancelled" and not self.compacts:
            items += self._unanswered()
        fields: Json = {}
        if not live.queue and len(live.turns) == 1:
            # With the last item, so that whoever reads after the terminal event sees a resting session.
            fields = {"status": live.resting_status(end.status), "last_error": end.error}
        await self.append(items, written=[self.response_id], fields=fields)
        # A turn that dies before its response exists tells so by its status alone.
        if not self.compacts and (self._created or self._queued or end.status != "failed"):
            self.begin_response()
            if end.error is not None:
                self.publish(ResponseErrorEvent(source="execution", error=end.error))
            self.publish(TERMINAL_EVENTS[end.status](response=self._final(end)))
        await live.turn_ended(self, end.status, end.error)

    def _abandon(self, err: Exception) -> None:
        """The store fails: nobody may wait for a turn whose end cannot be written."""
        self.live.turns.pop(self.response_id, None)
        message = err.message if isinstance(err, FiresideError) else f"{type(err).__name__}: {err}"
        error: Json = {"code": "store_error", "message": message}
        if self._created:
            response = replace(self.response, status="failed", completed_at=now(), error=error)
            self.publish(TERMINAL_EVENTS["failed"](response=response))
        self.live.publish_status("failed", self.response_id, error)

    def _unanswered(self) -> list[Item]:
        """An empty reply for a question that was stopped before its first word."""
        last = self.items[-1] if self.items else None
        if not isinstance(last, Message) or last.role != "user":
            return []
        name = self.settings.agent.name
        reply = Message(
            role="assistant",
            agent=name,
            model=name,
            response_id=self.response_id,
            status="incomplete",
            interrupted=True,
            finish="cancelled",
        )
        return [reply]

    def _final(self, end: End) -> Response:
        output = [item.to_wire() for item in self.items if item.response_id == self.response_id]
        return replace(
            self.response,
            status=end.status,
            completed_at=now(),
            output=output,
            error=end.error,
            incomplete_details={"reason": end.reason} if end.reason else None,
        )
