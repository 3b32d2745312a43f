"""A turn: the model, its calls, their results, the model again, until it has answered.

However it ends, the history it leaves is well-formed: every call has one result, and what a
person saw of a reply is kept.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

from app.sessions.errors import FiresideError, ServerError, wrapped
from app.sessions.events import (
    TERMINAL_EVENTS,
    Response,
    ResponseErrorEvent,
    ResponseQueuedEvent,
    SessionModelLoadEvent,
)
from app.sessions.items import ErrorItem, Item, Message
from app.sessions.records import Json, now
from app.sessions.turn.calls import Calls
from app.sessions.turn.context import Context
from app.sessions.turn.reply import write_reply
from app.sessions.turn.state import TurnState
from backend.types import BackendError

logger = logging.getLogger("fireside")


@dataclass(frozen=True)
class End:
    """How a turn ended: its response's status, and why it is incomplete or failed."""

    status: str
    reason: str | None = None
    error: Json | None = None


class Turn(TurnState):
    """A turn that runs by itself."""

    def start(self) -> None:
        """Run it on the event loop."""
        self.task = asyncio.create_task(self._run(), name=f"turn {self.response_id}")

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
        lease = live.services.lease
        if lease.must_wait(settings.model):
            self._queued = True
            self.publish(ResponseQueuedEvent(response=replace(self.response, status="queued")))
        async with lease.use(settings.model, self._loading, lambda: not self.interrupted) as engine:
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
        elif end.status == "cancelled" and not self.compacts and not self._is_in_vain():
            items += self._unanswered()
        fields: Json = {}
        if not live.queue and len(live.turns) == 1:
            # With the last item, so that whoever reads after the terminal event sees a resting session.
            fields = {"status": live.resting_status(end.status), "last_error": end.error}
        await self.append(items, written=[self.response_id], fields=fields)
        if end.status == "cancelled" and self._is_in_vain() and len(live.turns) == 1:
            await live.branch_to(self.instead, self.instead)
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

    def _is_in_vain(self) -> bool:
        """Whether it was another try, and has not come to a word: that is no variant."""
        last = self.items[-1] if self.items else None
        return self.instead is not None and (last is None or last.response_id != self.response_id)

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
