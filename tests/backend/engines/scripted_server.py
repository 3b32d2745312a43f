"""A real HTTP server on the loopback whose every answer is scripted, byte by byte."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Chunk = bytes | threading.Event | None
"""Bytes of a body, an event to wait for, or None: the connection is cut here."""


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """An answer. `chunked`: each chunk is sent as one of HTTP; else the end of the connection ends it."""

    chunks: Sequence[Chunk] = ()
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    chunked: bool = True


def frame(value: Any) -> bytes:
    """One event of a stream."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def delta(finish: str | None = None, **fields: Any) -> bytes:
    """A chunk of a chat completion."""
    return frame({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


DONE = frame("[DONE]")
USAGE = frame({"choices": [], "usage": {"prompt_tokens": 21, "completion_tokens": 5}})


def says(*words: str, usage: bool = True) -> Reply:
    """A whole reply of a few words."""
    parts = [delta(content=word) for word in words]
    return Reply([*parts, delta("stop"), *([USAGE] if usage else []), DONE])


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    """A JSON body."""
    return Reply([json.dumps(value).encode()], status, "application/json", dict(headers))


def models(*names: str, **fields: Any) -> Reply:
    """A list of models."""
    return json_reply({"data": [{"id": name, **fields} for name in names]})


class ScriptedServer:
    """Answers each path with the next of its replies, the last one again and again."""

    def __init__(self, *names: str, socket: str = "", **fields: Any) -> None:
        self.socket = socket
        """The path of a unix socket to listen at, in place of a port."""
        self.replies: dict[str, list[Reply]] = {"/v1/models": [models(*(names or ("toy",)), **fields)]}
        self.asked: list[Asked] = []
        self.vanished = threading.Event()
        """Set when a client closes its connection before its answer is whole."""
        self.drops = 0
        """How many chat requests to drop without a word."""
        self.answered: Callable[[Asked], None] = lambda asked: None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(5)

    def chat(self, *replies: Reply) -> ScriptedServer:
        """What `/v1/chat/completions` answers."""
        self.replies["/v1/chat/completions"] = list(replies)
        return self

    @property
    def url(self) -> str:
        return f"unix:{self.socket}" if self.socket else f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Any]:
        """What was asked of the chat."""
        return [one.body for one in self.asked if one.path.endswith("completions")]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        if self.socket:
            server = await asyncio.start_unix_server(self._connected, self.socket)
        else:
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _request(reader)) is not None:
                self.asked.append(asked)
                self.answered(asked)
                if self.drops and asked.path.endswith("completions"):
                    self.drops -= 1
                    return
                script = self.replies.get(asked.path) or [json_reply({"detail": "Not Found"}, 404)]
                reply = script.pop(0) if len(script) > 1 else script[0]
                if not await self._answer(reply, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = [f"HTTP/1.1 {reply.status} Told", f"content-type: {reply.kind}"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in reply.headers.items()]
        head.append("transfer-encoding: chunked" if reply.chunked else "connection: close")
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        await writer.drain()
        for chunk in reply.chunks:
            if chunk is None:
                writer.transport.abort()
                return False
            if isinstance(chunk, threading.Event):
                if not await self._wait(chunk, reader):
                    return False
                continue
            if chunk:
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if reply.chunked else chunk)
                await writer.drain()
        if reply.chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return reply.chunked

    async def _wait(self, event: threading.Event, reader: asyncio.StreamReader) -> bool:
        """Whether the event came before the client went."""
        gone = asyncio.ensure_future(reader.read(1))
        came = asyncio.ensure_future(asyncio.to_thread(event.wait, 5))
        await asyncio.wait([gone, came], return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            self.vanished.set()
            event.set()
            await came
            return False
        gone.cancel()
        return True


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, json.loads(body) if body else None)
