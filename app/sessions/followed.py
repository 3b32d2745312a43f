"""One subscription of a `SessionsChat`: its events in order, with the caller's tools running beside them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from app.sessions.client_tools import ClientTools, known_of
from app.sessions.errors import NOT_WAITING, FiresideError
from app.sessions.events import (
    ClientTaskCancelEvent,
    OutputItemDoneEvent,
    ResponseCancelledEvent,
    ResponseCompletedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    SessionEvent,
    SessionInterruptedEvent,
    response_of,
)
from app.sessions.hooks import HookState
from app.sessions.inputs import post
from app.sessions.items import FunctionCall, FunctionCallOutput
from app.sessions.turn.files import producing

READY_S = 1.0
STOP_S = 5.0
FINISH_S = 30.0
ABANDONED = "error: whoever ran this call stopped listening before it had a result"


class Followed:
    """Reads a stream of events. Between two of them the results of client tools are posted."""

    def __init__(
        self,
        events: AsyncGenerator[SessionEvent],
        namespace: Any,
        session_id: str,
        tools: ClientTools,
        state: HookState,
        *,
        strict: bool,
    ) -> None:
        self._events = events
        self._namespace = namespace
        self._session_id = session_id
        self._tools = tools
        self.state = state
        self.is_broken = False
        """The stream itself failed, and not a tool or whoever takes its result."""
        self._strict = strict
        self._known = known_of(namespace)
        self._listens = (session_id, tools.names)
        self._known.listening.append(self._listens)
        self._reading: asyncio.Future[SessionEvent | None] | None = None
        self._asked: list[FunctionCall] = []
        self._running: dict[asyncio.Task[str], FunctionCall] = {}
        self._stopping: set[asyncio.Task[str]] = set()

    async def ready(self) -> bool:
        """Begin to read, and wait until the stream is known to listen; False where it ended already."""
        reading = self._read()
        # Not every stream begins with an event that says so.
        await asyncio.wait((reading,), timeout=READY_S)
        return not reading.done() or reading.result() is not None

    async def next(self) -> SessionEvent | None:
        """The next event, None at the end."""
        if self._reading is None and not self._running and not self._asked:
            event = await self._heard()
        else:
            reading = self._read()
            if self._asked:
                # What has arrived already may be the order to stop, before a tool did anything.
                await asyncio.sleep(0)
                if not reading.done():
                    self._start()
            while not reading.done():
                await asyncio.wait({reading, *self._running}, return_when=asyncio.FIRST_COMPLETED)
                await self._settle()
            self._reading = None
            event = reading.result()
        await self._heed(event)
        return event

    def begin(self, event: SessionEvent) -> None:
        """Have the caller's own tool run where an event asks for it."""
        item = event.item if isinstance(event, OutputItemDoneEvent) else None
        if not isinstance(item, FunctionCall) or item.status != "action_required":
            return
        is_ours = item.name in self._tools.names
        if not is_ours and self._known.has_tool(self._session_id, item.name):
            return
        if self._known.claim(self._session_id, item):
            self._asked.append(item)

    def _start(self) -> None:
        asked, self._asked = self._asked, []
        for item in asked:
            self._running[asyncio.create_task(self._run(item), name=f"tool {item.name}")] = item

    async def _run(self, item: FunctionCall) -> str:
        if item.response_id is not None:
            producing.set((self._session_id, item.response_id))
        return await self._tools.run(item, strict=self._strict)

    async def aclose(self) -> None:
        """Stop what runs and stop reading. Whoever waits for a result is told that there will be none."""
        self._known.listening.remove(self._listens)
        abandoned = [*self._asked, *self._running.values()]
        self._stop(lambda item: True)
        reading = self._reading
        if reading is not None:
            reading.cancel()
            await asyncio.wait((reading,))
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=STOP_S)
        for item in abandoned if not self._strict else ():
            with contextlib.suppress(FiresideError):
                await self._post(item, ABANDONED)
        await self._events.aclose()

    def _read(self) -> asyncio.Future[SessionEvent | None]:
        if self._reading is None:
            self._reading = asyncio.create_task(self._heard())
        return self._reading

    async def _heard(self) -> SessionEvent | None:
        try:
            return await anext(self._events, None)
        except Exception:
            self.is_broken = True
            raise

    async def _heed(self, event: SessionEvent | None) -> None:
        """Stop the tools whose call or turn was stopped; others end before the turn is said to have ended."""
        match event:
            case ClientTaskCancelEvent(call_id=call_id):
                self._stop(lambda item: item.call_id == call_id)
            case SessionInterruptedEvent(response_id=response_id):
                self._stop(lambda item: item.response_id in (None, response_id or item.response_id))
            case ResponseFailedEvent() | ResponseCancelledEvent():
                ended = response_of(event)
                self._stop(lambda item: item.response_id in (None, ended))
            case ResponseCompletedEvent() | ResponseIncompleteEvent() | None:
                ended = None if event is None else response_of(event)
                await self._finish(lambda item: ended in (None, item.response_id or ended))
            case _:
                pass

    async def _finish(self, wanted: Callable[[FunctionCall], bool]) -> None:
        """Let tools end whose result somebody may still take."""
        self._start()
        while tasks := [task for task, item in self._running.items() if wanted(item)]:
            done, _ = await asyncio.wait(tasks, timeout=FINISH_S)
            if not done:
                self._stop(wanted)
            await self._settle()

    def _stop(self, wanted: Callable[[FunctionCall], bool]) -> None:
        self._asked = [item for item in self._asked if not wanted(item)]
        for task, item in list(self._running.items()):
            if wanted(item):
                del self._running[task]
                task.cancel()
                self._stopping.add(task)
                task.add_done_callback(self._stopped)

    def _stopped(self, task: asyncio.Task[str]) -> None:
        self._stopping.discard(task)
        if not task.cancelled():
            task.exception()  # Looked at, so that nobody is told of it: it was stopped.

    async def _settle(self) -> None:
        """Post the results of tools that have ended."""
        for task in [task for task in self._running if task.done()]:
            item = self._running.pop(task)
            output = task.result()
            await self.state.ran_locally(item, output)
            await self._post(item, output)

    async def _post(self, item: FunctionCall, output: str) -> None:
        given = FunctionCallOutput(call_id=item.call_id, output=output)
        try:
            await post(self._namespace, self._session_id, given)
        except FiresideError as err:
            # It was stopped in the moment in which it ended.
            if err.code != NOT_WAITING:
                raise
