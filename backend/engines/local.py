"""`InProcessEngine`: the `ChatEngine` that runs a model in this very process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence
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
from backend.chat_session import EngineHandle
from backend.loading import look_for
from backend.model import GenerativeModel, load
from backend.prompt import Prompt
from backend.reply import Delivery, Failed, Ids
from backend.request_checks import check_prompt, check_request
from backend.types import ChatCard, ChatOutcome, EngineError, GenerationConfig, Message, Piece


class InProcessEngine:
    """Answers on a model of this process; loading, rendering and decoding run on other threads.

    `model` may be one that is loaded already; the engine closes it on `unload`.
    """

    def __init__(self, model: GenerativeModel | None = None) -> None:
        self._model = model
        self._running: set[str] = set()
        self._share: EngineHandle | None = None
        """What is given back in place of the model, which belongs to somebody else."""
        self._loading = asyncio.Lock()
        self._given_up = threading.Event()
        """Of the load that was begun last."""

    @classmethod
    def sharing(cls, engine: EngineHandle) -> InProcessEngine:
        """The engine of a `ChatSession`, shared: `unload` gives the share back, and the session goes on.
        ValueError where it was closed."""
        if engine.closed:
            raise ValueError("the engine handle is closed")
        shared = cls(engine.model)
        shared._share = EngineHandle(engine.model)
        return shared

    @property
    def card(self) -> ChatCard:
        return self._loaded().card

    @property
    def residency(self) -> dict[str, Any]:
        return self._loaded().residency

    @property
    def closed(self) -> bool:
        return self._model is None

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        """Load a model, after the one there was is unloaded; that stays where there is no such model.
        Raises ModelLoadError."""
        async with self._loading:
            if self._model is not None:
                await asyncio.to_thread(look_for, spec.source, for_text=spec.for_text)
            await self.unload()
            given_up = self._given_up = threading.Event()

            def on_progress(fraction: float) -> bool:
                return not given_up.is_set() and (progress is None or progress(fraction) is not False)

            loading = asyncio.ensure_future(
                asyncio.to_thread(
                    load, spec.source, progress=on_progress, for_text=spec.for_text, **spec.options
                )
            )
            try:
                self._model = await asyncio.shield(loading)
            except asyncio.CancelledError:
                given_up.set()
                loading.add_done_callback(_discard)
                raise
            return await asyncio.to_thread(lambda: self.card)  # Reads the template, which takes a while.

    async def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        config: GenerationConfig | None = None,
        conversation: str | None = None,
        continue_reply: bool = False,
    ) -> Count:
        request = request_to_count(messages, tools, config, conversation, continue_reply)
        return Count(len((await self._prompt(request)).tokens))

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        """Answer a request: a list of pieces per engine step. Closing the iterator cancels it."""
        self._loaded().check(request)
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[list[Delivery]] = asyncio.Queue()
        pipeline = self._loaded().pipeline
        left = request.n

        def arrive(items: list[Delivery]) -> None:
            with contextlib.suppress(RuntimeError):  # The loop of whoever asked may be closed by now.
                loop.call_soon_threadsafe(arrived.put_nowait, items)

        pipeline.start(request, arrive)
        self._running.add(request.id)
        try:
            while left:
                items = await arrived.get()
                pieces: list[Piece] = []
                for item in items:
                    if isinstance(item, Failed):
                        raise item.error
                    if not isinstance(item, Ids):
                        pieces.append(item)
                left -= sum(isinstance(piece, ChatOutcome) for piece in pieces)
                yield pieces
        finally:
            self._running.discard(request.id)
            if left:
                pipeline.cancel(request.id)

    def cancel(self, request_id: str) -> None:
        if self._model and check_prompt(request_id, "request_id") in self._running:
            self._model.pipeline.cancel(request_id)

    async def render(self, request: Request) -> Rendered:
        """The prompt of a request, as text and tokens, whatever its length."""
        prompt = await self._prompt(request)
        return Rendered(prompt.text, tuple(prompt.tokens))

    async def tokenize(self, text: str) -> list[int]:
        return await asyncio.to_thread(self._loaded().tokenizer.encode, text)

    async def detokenize(self, ids: Sequence[int]) -> str:
        return self._loaded().tokenizer.decode(ids)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._loaded().embed, texts)

    async def warm(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        conversation: str | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        """Read a conversation ahead; it gives way to everything else."""
        pipeline = self._loaded().pipeline
        request = Request(
            messages=messages,
            tools=tools,
            priority="background",
            add_generation_prompt=False,
            conversation=conversation,
            is_lasting=is_lasting,
        )
        self._loaded().check(request)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def arrive(items: list[Delivery]) -> None:
            if isinstance(items[-1], Failed | ChatOutcome):
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        pipeline.start(request, arrive, warm=True)
        try:
            await done
        except asyncio.CancelledError:
            pipeline.cancel(request.id)
            raise

    async def forget(self, conversation: str) -> None:
        """Empty what the cache holds of a conversation; nothing where no model is loaded."""
        if self._model is not None:
            await asyncio.wrap_future(self._model.pipeline.forget(conversation))

    async def stats(self) -> EngineStats:
        return self._loaded().pipeline.stats()

    async def unload(self) -> None:
        """Free the model; a load that runs ends as cancelled."""
        self._given_up.set()
        model, self._model = self._model, None
        if model:
            for request_id in list(self._running):
                model.pipeline.cancel(request_id)
            await asyncio.to_thread((self._share or model).close)

    async def _prompt(self, request: Request) -> Prompt:
        model = self._loaded()
        check_request(request)
        return await asyncio.wrap_future(model.pipeline.prepare(request))

    def _loaded(self) -> GenerativeModel:
        if self._model is None:
            raise EngineError("No model is loaded.", remedy="Load one first.")
        return self._model


def _discard(loading: asyncio.Future[GenerativeModel]) -> None:
    """Close a model that came too late for whoever asked for it."""
    if not loading.cancelled() and loading.exception() is None:
        loading.result().close()
