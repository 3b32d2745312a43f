"""What every route stands on: the session manager with its engine, its models, and who may come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from starlette.requests import Request as HttpRequest

from app.server.admission import Admission
from app.server.errors import refused
from app.server.metrics import Metrics
from app.server.model_queue import ModelQueue
from app.server.models import Models, Served
from app.server.sessions.rights import Rights
from app.sessions.manager import SessionManager
from backend.chat_engine import ChatEngine, Request
from backend.types import ChatCard, ChatOutcome, EngineError, GenerationConfig, Piece, cannot_write


@dataclass
class Service:
    """One server's."""

    manager: SessionManager
    models: Models
    admission: Admission
    metrics: Metrics
    rights: Rights = field(default_factory=Rights)
    """What clients may do to this machine."""
    defaults: GenerationConfig = field(default_factory=GenerationConfig)
    """What holds where a request says nothing."""
    queue: ModelQueue = field(default_factory=ModelQueue)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server ends: streams that would go on for ever end."""

    @asynccontextmanager
    async def engine(self, model: Served, replies: int = 1) -> AsyncGenerator[ChatEngine]:
        """The engine with a model, once there is a place in the queue."""
        with self.admission.place(replies):
            async with self.queue.turn(model.source), self.manager.using(model.source) as engine:
                yield engine

    async def answer(self, request: Request, model: Served) -> AsyncGenerator[list[Piece]]:
        """The pieces of an answer, one list for each engine step. Closing it stops the decoding."""
        async with self.engine(model, request.n) as engine:
            require_writer(engine.card)
            require_tools(engine.card, request)
            config = request.config.over(self.defaults)
            steps = cast("AsyncGenerator[list[Piece]]", engine.submit(replace(request, config=config)))
            try:
                async for pieces in steps:
                    for piece in pieces:
                        if isinstance(piece, ChatOutcome):
                            self._note(piece)
                    yield pieces
            finally:
                await steps.aclose()

    def _note(self, outcome: ChatOutcome) -> None:
        self.metrics.reply(outcome)
        if outcome.finish in ("cancelled", "error"):
            raise EngineError("The reply was stopped before its end.", remedy="Send the request again.")


def require_writer(card: ChatCard) -> None:
    """ModelLoadError for a model that cannot write text."""
    if card.kind == "embedding":
        raise cannot_write(card.model_id)


def require_tools(card: ChatCard, request: Request) -> None:
    """ApiError where tools are offered to a model that cannot call them."""
    if request.tools and request.config.tool_choice != "none" and card.unmet_tools:
        raise refused(
            f"{card.unmet_tools} Started with --tool-format generic, the server lets it call them anyway.",
            "tools",
        )


def service_of(request: HttpRequest) -> Service:
    """The server's that got `request`."""
    return request.app.state.service
