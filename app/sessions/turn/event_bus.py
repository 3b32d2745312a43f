"""Fan-out of one session's events: every subscriber sees the same order, none can hold up the turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace

from app.sessions.errors import FiresideError
from app.sessions.events import SessionEvent, SessionHeartbeatEvent

MAX_BEHIND = 1024
HEARTBEAT_S = 15.0


class Subscription:
    """One listener. It hears a heartbeat at once, and then after each 15 s of silence.

    Iterating ends when the session closes; a listener more than 1,024 events behind gets a
    FiresideError and has to read the snapshot again.
    """

    def __init__(self, bus: EventBus, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._bus = bus
        self._events: deque[SessionEvent] = deque([SessionHeartbeatEvent()])
        self._arrived = asyncio.Event()
        self._arrived.set()
        self._behind = False
        self._closed = False
        self._heartbeat_s = heartbeat_s

    def take(self, event: SessionEvent) -> None:
        """Add an event, or cut a listener off that does not keep up."""
        if len(self._events) >= MAX_BEHIND:
            self._behind = True
            self._bus.drop(self)
        else:
            self._events.append(event)
        self._arrived.set()

    def close(self) -> None:
        """Stop listening; what has arrived can still be read."""
        self._closed = True
        self._bus.drop(self)
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[SessionEvent]:
        return self

    async def __anext__(self) -> SessionEvent:
        while not self._events:
            if self._behind:
                raise FiresideError(
                    f"This listener fell more than {MAX_BEHIND} events behind. "
                    f"Read the snapshot and subscribe again.",
                    code="subscriber_behind",
                )
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await self._arrived.wait()
            except TimeoutError:
                return SessionHeartbeatEvent()
        return self._events.popleft()


class EventBus:
    """The subscribers of one session."""

    def __init__(self) -> None:
        self._subscribers: list[Subscription] = []
        self._number = 0

    def subscribe(self, *, heartbeat_s: float = HEARTBEAT_S) -> Subscription:
        """A new listener; it hears everything published from now on."""
        subscription = Subscription(self, heartbeat_s=heartbeat_s)
        self._subscribers.append(subscription)
        return subscription

    def publish(self, event: SessionEvent) -> None:
        """Number an event and hand it to everybody."""
        self._number += 1
        numbered = replace(event, sequence_number=self._number)
        for subscriber in list(self._subscribers):
            subscriber.take(numbered)

    def drop(self, subscription: Subscription) -> None:
        if subscription in self._subscribers:
            self._subscribers.remove(subscription)

    def close(self) -> None:
        """End every subscription."""
        for subscriber in list(self._subscribers):
            subscriber.close()

    @property
    def listeners(self) -> int:
        return len(self._subscribers)
