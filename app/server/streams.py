"""Answers that stop when their reader is gone: whole ones, and streams of events.

What the engine writes is taken as it comes, so that a slow reader keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

STALL_S = 60.0
"""A reader that takes nothing for so long has lost its stream."""
QUIET_S = 15.0
"""After so long without an event a stream says that it is still there."""
DONE = b"data: [DONE]\n\n"
_STILL_HERE = b": still here\n\n"

T = TypeVar("T")


def frame(value: Mapping[str, Any], event: str | None = None) -> bytes:
    """One event of a stream. JSON is written in ASCII: some readers take U+2028 for the end of a line."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(value, separators=(',', ':'))}\n\n".encode("ascii")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; it is cancelled when the client goes away, and ClientDisconnect is raised.

    The body of the request has to be read before.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        gone.cancel()
        await end(working)


async def end(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has ended, whatever it ends with."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Ahead(Generic[T]):
    """What an iterator yields, taken from it at once, however slowly this one is read.

    It has to be closed, which closes the iterator.
    """

    def __init__(self, source: AsyncGenerator[T]) -> None:
        self._arrived: asyncio.Queue[T | BaseException | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._take(source))

    async def _take(self, source: AsyncGenerator[T]) -> None:
        try:
            async with contextlib.aclosing(source):
                async for item in source:
                    self._arrived.put_nowait(item)
            self._arrived.put_nowait(None)
        except Exception as err:
            self._arrived.put_nowait(err)

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        match await self._arrived.get():
            case None:
                raise StopAsyncIteration
            case BaseException() as error:
                raise error
            case item:
                return item

    async def aclose(self) -> None:
        """Take no more."""
        await end(self._task)


class EventStream(Response):
    """`text/event-stream` of frames. The iterator of the frames is closed when the reader goes away."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes], *, stall_s: float = STALL_S) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except TimeoutError:
            _drop(scope)
        finally:
            gone.cancel()
            await end(sending)
            await self._frames.aclose()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for data in with_signs_of_life(self._frames):
            async with asyncio.timeout(self._stall_s):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _drop(scope: Scope) -> None:
    """End a connection whose reader takes nothing: what is still to be written would wait for ever."""
    if (drop := scope.get("fireside.drop")) is not None:
        drop()


async def with_signs_of_life(
    frames: AsyncGenerator[bytes], quiet_s: float = QUIET_S
) -> AsyncGenerator[bytes]:
    """`frames`, and a comment after each time in which none came."""
    reading: asyncio.Future[bytes] | None = None
    try:
        while True:
            reading = reading or asyncio.ensure_future(anext(frames))
            done, _ = await asyncio.wait({reading}, timeout=quiet_s)
            if not done:
                yield _STILL_HERE
                continue
            try:
                data = reading.result()
            except StopAsyncIteration:
                return
            finally:
                reading = None
            yield data
    finally:
        if reading is not None:
            await end(reading)
