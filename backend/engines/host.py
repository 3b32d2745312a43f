"""`EngineHost`: a `ChatEngine` in a child process, so that drawing never slows decoding and a native
crash costs the running replies and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Generator, Sequence
from pathlib import Path
from typing import Any

from backend.chat_engine import (
    Count,
    EngineStats,
    LoadSpec,
    Progress,
    Rendered,
    Request,
    Tool,
    request_to_count,
)
from backend.engines import wire
from backend.engines.child_process import ChildProcess
from backend.types import ChatCard, ChatOutcome, EngineError, GenerationConfig, Message, Piece

_MOST_CRASHES = 2
_LOG_LINES = 6
_LOG_TAIL_BYTES = 4096


class EngineHost:
    """Starts a child when it is first needed, and a new one, with the same model, after a crash.

    `log` is the file that the child's own output and llama.cpp's go to; None keeps them in memory.
    `idle_s` unloads the model after so many seconds without a request; None never does.
    `cells` is a folder and its budget in bytes: what the cache holds of lasting conversations is kept
    there when they are idle and at the end, and restored when they go on. None keeps nothing.
    After two crashes in a row (while loading, or before any request ended well) a request fails
    with the log's last lines; the next one after that tries once more.
    """

    def __init__(
        self,
        *,
        log: Path | None = None,
        idle_s: float | None = None,
        cells: tuple[Path, int] | None = None,
    ) -> None:
        self._log = log
        self._cells = cells
        self._idle_s = idle_s
        self._spec: LoadSpec | None = None
        self._card: ChatCard | None = None
        self._residency: dict[str, Any] = {}
        self._child: ChildProcess | None = None
        self._crashes = 0
        self._starting = asyncio.Lock()
        self._running: set[str] = set()
        self._uses = itertools.count(1)
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None

    @property
    def card(self) -> ChatCard:
        if self._card is None:
            raise EngineError("No model is loaded.", remedy="Load one first.")
        return self._card

    @property
    def residency(self) -> dict[str, Any]:
        return self._residency

    @property
    def closed(self) -> bool:
        return self._spec is None

    @property
    def pid(self) -> int | None:
        """Of the child, while one lives."""
        return self._child.pid if self._child and self._child.alive else None

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        """Load a model in the child, in place of the one there was; that stays where there is no such model.
        Raises ModelLoadError."""
        async with self._starting:
            self._crashes = 0
            if not self.closed:
                await asyncio.to_thread(_look_for, spec)
            child = await self._living_child()
            card = await self._load_into(child, spec, progress)
            self._spec = spec
            return card

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        """Answer a request. EngineError when the child dies meanwhile; closing the iterator cancels."""
        if request.id in self._running:
            raise ValueError(
                f"request {request.id} is already running; a second answer needs a request of its own"
            )
        self._running.add(request.id)
        try:
            async with self._starting:
                child = await self._ready()
        except BaseException:
            self._running.discard(request.id)
            raise
        left = request.n
        stream = child.open_stream(request.id)
        try:
            await child.send({"op": "submit", "request": request})
            while left:
                message = await stream.get()
                if error := message.get("error"):
                    raise error
                pieces = wire.pieces_of(message["pieces"])
                left -= sum(isinstance(piece, ChatOutcome) for piece in pieces)
                if not left:
                    self._crashes = 0
                    if not child.measured:  # The cache exists only now.
                        child.measured = True
                        self._residency = await child.ask({"op": "residency"})
                yield pieces
        finally:
            if left and child.alive:
                child.send_soon({"op": "cancel", "request": request.id})
            child.close_stream(request.id)
            self._running.discard(request.id)
            self._touch()

    def cancel(self, request_id: str) -> None:
        if self._child and request_id in self._running:
            self._child.send_soon({"op": "cancel", "request": request_id})

    async def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        config: GenerationConfig | None = None,
        conversation: str | None = None,
        continue_reply: bool = False,
    ) -> Count:
        request = request_to_count(messages, tools, config, conversation, continue_reply)
        return Count(await self._ask("count", request=request))

    async def render(self, request: Request) -> Rendered:
        return await self._ask("render", request=request)

    async def tokenize(self, text: str) -> list[int]:
        return list(await self._ask("tokenize", text=text))

    async def detokenize(self, ids: Sequence[int]) -> str:
        return await self._ask("detokenize", ids=list(ids))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [list(vector) for vector in await self._ask("embed", texts=list(texts))]

    async def warm(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        conversation: str | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        async with self._starting:
            child = await self._ready()
        request = Request(
            messages=messages,
            tools=tools,
            priority="background",
            add_generation_prompt=False,
            conversation=conversation,
            is_lasting=is_lasting,
        )
        stream = child.open_stream(request.id)
        try:
            await child.send({"op": "submit", "request": request, "warm": True})
            while True:
                message = await stream.get()
                ended = any(isinstance(piece, ChatOutcome) for piece in message.get("pieces", ()))
                if message.get("error") or ended:
                    return
        except asyncio.CancelledError:
            child.send_soon({"op": "cancel", "request": request.id})
            raise
        finally:
            child.close_stream(request.id)

    async def forget(self, conversation: str) -> None:
        """Empty what the child's cache holds of a conversation, and remove what is kept of it on disk."""
        if self._cells:
            from backend.engine import kept_cells

            await asyncio.to_thread(kept_cells.drop, self._cells[0], conversation)
        child = self._child
        if child and child.alive and child.loaded:
            with self._in_use(f"forget {next(self._uses)}"):
                await child.ask({"op": "forget", "conversation": conversation})

    async def stats(self) -> EngineStats:
        return await self._ask("stats")

    async def unload(self) -> None:
        """Free the model and end the child. Running replies end as failed."""
        self._spec = None
        self._card = None
        self._stop_timer()
        child, self._child = self._child, None
        if child:
            await asyncio.to_thread(child.stop)

    # ---- inside ----------------------------------------------------------------------------

    async def _ask(self, operation: str, **fields: Any) -> Any:
        with self._in_use(f"{operation} {next(self._uses)}"):
            async with self._starting:
                child = await self._ready()
            return await child.ask({"op": operation, **fields})

    @contextlib.contextmanager
    def _in_use(self, use: str) -> Generator[None]:
        """While somebody waits for the child, it is not idle."""
        self._running.add(use)
        self._stop_timer()
        try:
            yield
        finally:
            self._running.discard(use)
            self._touch()

    async def _ready(self) -> ChildProcess:
        """A living child with the model loaded."""
        if self._spec is None:
            raise EngineError("No model is loaded.", remedy="Load one first.")
        if self._child and self._child.alive and self._child.loaded:
            return self._child
        if self._child and not self._child.alive and self._child.died_of_crash:
            self._crashes += 1
            self._child.died_of_crash = False
        if self._crashes >= _MOST_CRASHES:
            self._crashes = 0
            raise EngineError(
                f"The engine process crashed {_MOST_CRASHES} times in a row.{self._log_tail()}",
                remedy="Send the message again to try once more, or load another model.",
            )
        child = await self._living_child()
        await self._load_into(child, self._spec, None)
        return child

    async def _living_child(self) -> ChildProcess:
        if self._child is None or not self._child.alive:
            self._child = await asyncio.to_thread(ChildProcess, self._log, asyncio.get_running_loop())
            await self._child.greeted()
        return self._child

    async def _load_into(self, child: ChildProcess, spec: LoadSpec, progress: Progress | None) -> ChatCard:
        def on_progress(fraction: float) -> None:
            if progress and progress(fraction) is False:
                child.send_soon({"op": "cancel_load"})

        child.loaded = False
        try:
            cells = None if self._cells is None else [str(self._cells[0]), self._cells[1]]
            value = await child.ask({"op": "load", "spec": spec, "cells": cells}, on_progress)
        except asyncio.CancelledError:
            child.send_soon({"op": "cancel_load"})
            raise
        child.loaded, child.measured = True, False
        self._card, self._residency = value["card"], value["residency"]
        self._touch()
        return value["card"]

    def _touch(self) -> None:
        """Start the idle clock anew."""
        self._stop_timer()
        if self._idle_s is not None and not self._running:
            self._idle_timer = asyncio.get_running_loop().call_later(self._idle_s, self._sleep)

    def _stop_timer(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _sleep(self) -> None:
        """Give the memory back; the next request loads the model again."""
        child = self._child
        if child and not self._running:
            self._child = None
            self._unloading = asyncio.ensure_future(asyncio.to_thread(child.stop))

    def _log_tail(self) -> str:
        if self._log is None or not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - _LOG_TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
        return " Its last output was: " + " / ".join(lines[-_LOG_LINES:])


def _look_for(spec: LoadSpec) -> None:
    """Raises ModelLoadError where there is no such model, or none that does what is wanted."""
    from backend.loading import look_for  # a model that is the first one looks itself

    look_for(spec.source, for_text=spec.for_text)
