"""`AnywhereEngine`: models of this machine and of servers behind one `ChatEngine`, as a source names them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from backend.chat_engine import ChatEngine, Count, EngineStats, LoadSpec, Progress, Rendered, Request, Tool
from backend.engines.servers import Servers, is_server
from backend.types import ChatCard, GenerationConfig, Message, Piece

if TYPE_CHECKING:
    from backend.engines.remote import RemoteEngine


class AnywhereEngine:
    """Loads a model here or on a server. The one that was loaded before is kept until the new one is there.

    `local` makes the engine of this machine, when one of its models is first wanted.
    """

    def __init__(self, local: Callable[[], ChatEngine], servers: Servers) -> None:
        self._make = local
        self.servers = servers
        self._local: ChatEngine | None = None
        self._remote: RemoteEngine | None = None
        self._away = servers.chosen is not None

    @property
    def card(self) -> ChatCard:
        return self._now().card

    @property
    def residency(self) -> dict[str, Any]:
        return self._now().residency

    @property
    def closed(self) -> bool:
        now = self._remote if self._away else self._local
        return now is None or now.closed

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        """Load a model, in place of the one there was; that stays where there is no such model.
        Raises ModelLoadError, EngineError."""
        if spec.source is None and (chosen := self.servers.chosen) is not None:
            # Nobody who named a server is answered by whichever model is found here.
            spec = LoadSpec(chosen.source_of(chosen.model), spec.options)
        away = is_server(spec.source)
        card = await self._of(away).load(spec, progress)
        other = self._local if away else self._remote
        self._away = away
        if other is not None and not other.closed:
            await other.unload()
        return card

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        from contextlib import aclosing
        from typing import cast

        steps = self._now().submit(request)
        async with aclosing(cast(Any, steps)):
            async for pieces in steps:
                yield pieces

    def cancel(self, request_id: str) -> None:
        for one in (self._local, self._remote):
            if one is not None:
                one.cancel(request_id)

    async def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        config: GenerationConfig | None = None,
        conversation: str | None = None,
        continue_reply: bool = False,
    ) -> Count:
        return await self._now().count(messages, tools, config, conversation, continue_reply)

    async def render(self, request: Request) -> Rendered:
        return await self._now().render(request)

    async def tokenize(self, text: str) -> list[int]:
        return await self._now().tokenize(text)

    async def detokenize(self, ids: Sequence[int]) -> str:
        return await self._now().detokenize(ids)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await self._now().embed(texts)

    async def warm(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        conversation: str | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        await self._now().warm(messages, tools, conversation, is_lasting=is_lasting)

    async def forget(self, conversation: str) -> None:
        await self._of(away=False).forget(conversation)

    async def stats(self) -> EngineStats:
        return await self._now().stats()

    async def unload(self) -> None:
        """Free the model, close the connections."""
        for one in (self._local, self._remote):
            if one is not None:
                await one.unload()

    def _now(self) -> ChatEngine:
        return self._of(self._away)

    def _of(self, away: bool) -> ChatEngine:
        if away:
            if self._remote is None:
                from backend.engines.remote import RemoteEngine  # most chats need none

                self._remote = RemoteEngine(self.servers)
            return self._remote
        if self._local is None:
            self._local = self._make()
        return self._local
