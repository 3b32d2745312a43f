"""Requests for several models on one engine: those for the model at work go on together, and one for another
is not kept waiting by those that came after it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class ModelQueue:
    """Lets requests in by the order in which they came, together where they want the same model."""

    def __init__(self) -> None:
        self._model: str | None = None
        self._inside = 0
        self._waiting: deque[tuple[str | None, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def turn(self, model: str | None) -> AsyncGenerator[None]:
        """Within, nobody is let in who wants another model."""
        if self._waiting or (self._inside and model != self._model):
            await self._wait(model)
        else:
            self._enter(model)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, model: str | None) -> None:
        free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((model, free))
        try:
            await free
        except asyncio.CancelledError:
            if free.done() and not free.cancelled():
                self._leave()  # let in at the moment in which it was given up
            else:
                self._let_in()
            raise

    def _enter(self, model: str | None) -> None:
        self._model = model
        self._inside += 1

    def _leave(self) -> None:
        self._inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            model, free = self._waiting[0]
            if free.done():  # given up
                self._waiting.popleft()
                continue
            if self._inside and model != self._model:
                return
            self._waiting.popleft()
            self._enter(model)
            free.set_result(None)
