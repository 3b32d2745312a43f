"""uvicorn's protocol with limits of time on what arrives, and a way to drop a connection."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 20.0
"""A connection on which no whole head of a request came for so long is closed."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 by h11, for clients that may be slow or gone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waits: asyncio.TimerHandle | None = None
        inner = self.app

        async def droppable(scope: Scope, receive: Receive, send: Send) -> None:
            await inner({**scope, "fireside.drop": self.transport.abort}, receive, send)

        self.app: ASGIApp = droppable  # pyright: ignore[reportIncompatibleVariableOverride]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_answered = self._is_idle
        if is_answered and not self.transport.is_closing():
            self._wait()
        elif not is_answered and self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waits is not None:
            self._waits.cancel()
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: Any = self.cycle  # None before the first one
        return cycle is None or cycle.response_complete

    def _wait(self) -> None:
        """Begin to wait for a head, unless it is awaited already: each byte is no reason to wait longer."""
        if self._waits is None:
            self._waits = self.loop.call_later(HEADERS_S, self._give_up)

    def _give_up(self) -> None:
        self._waits = None
        if self._is_idle:
            self.transport.abort()
