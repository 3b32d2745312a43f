"""Operations that look at the engine: what a chat would cost, its prompt, the models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from app.characters import clean
from app.sessions.agents import DEFAULT_AGENT, Agent
from app.sessions.errors import InvalidInputError, wrapped
from app.sessions.items import user_message
from app.sessions.open_sessions import Workplace
from app.sessions.records import Json
from app.sessions.store.rows import SessionRecord
from app.sessions.turn.context import offered_tools, system_text
from app.sessions.turn.history import turns_of
from app.sessions.turn.live import LiveSession
from app.sessions.turn.media import blocks_of, senses
from app.sessions.turn.settings import Settings, checked, resolve
from backend.chat_engine import ChatEngine, EngineStats, LoadSpec, Request
from backend.types import BackendError, ChatCard, GenerationConfig


def _silent(fraction: float) -> None:
    pass


def _always() -> bool:
    return True


def _whole(settings: Settings, card: ChatCard) -> GenerationConfig:
    """What the next request is made with, its prompt counted with every turn."""
    return replace(settings.generation(card), overflow=None)


class EngineOperations(Workplace):
    """The part of the session manager that asks the engine without a turn."""

    # ---- looking ahead ---------------------------------------------------------------------

    async def context(self, session_id: str, draft: str = "") -> Json:
        """Tokens by part with the draft as the next message: `parts, total, window, exact`."""
        live = await self.live(session_id)
        if live.record.leaf_id is None and not draft:
            return await self._beginning(live.settings)
        async with self._lease.use(live.settings.model, _silent) as engine:
            turns = await self._turns(live, draft, engine.card)
            tools = offered_tools(live.settings, self._services.toolbox, engine.card)
            head = [turn for turn in turns if turn["role"] == "system"]
            without = await self._turns(live, "", engine.card)
            count, config = engine.count, _whole(live.settings, engine.card)
            try:
                total = await count(turns, tools, config, live.id)
                bare = (await count(turns, (), config)).tokens
                history = (await count(without, (), config)).tokens if without else 0
                system = (await count(head, (), config)).tokens if head else 0
            except BackendError as err:
                raise wrapped(err) from err
            parts = {
                "system": min(system, history or system),
                "tools": total.tokens - bare,
                "history": max(0, history - system),
                "draft": max(0, bare - history),
            }
            window = engine.card.max_seq or None
            return {"parts": parts, "total": total.tokens, "window": window, "exact": total.exact}

    async def new_context(self, **changes: Any) -> Json:
        """The same of a chat that is not made yet, with settings as `configure` takes them: what its
        system prompt and its tools fill before a word was said."""
        record = SessionRecord(id="", agent=Agent(DEFAULT_AGENT).to_wire(), settings=checked(changes))
        return await self._beginning(resolve(record, self._services.defaults))

    async def _beginning(self, settings: Settings) -> Json:
        """What a chat holds before its first message, which most templates cannot do without."""
        async with self._lease.use(settings.model, _silent) as engine:
            card, count = engine.card, engine.count
            config = _whole(settings, card)
            tools = offered_tools(settings, self._services.toolbox, card)
            system = system_text(settings.system, planning=settings.approve == "plan")
            try:
                empty = turns_of([user_message("")], system=system)
                total = await count(empty, tools, config)
                bare = (await count(empty, (), config)).tokens
            except BackendError as err:
                raise wrapped(err) from err
            parts = {"system": bare, "tools": total.tokens - bare, "history": 0, "draft": 0}
            return {
                "parts": parts,
                "total": total.tokens,
                "window": card.max_seq or None,
                "exact": total.exact,
            }

    async def preview(self, session_id: str, draft: str = "") -> Json:
        """The rendered prompt with the draft as the next message: `text, tokens, exact`."""
        live = await self.live(session_id)
        async with self._lease.use(live.settings.model, _silent) as engine:
            request = Request(
                messages=await self._turns(live, draft, engine.card),
                tools=offered_tools(live.settings, self._services.toolbox, engine.card),
                config=live.settings.generation(engine.card),
            )
            try:
                rendered = await engine.render(request)
            except BackendError as err:
                raise wrapped(err) from err
            tokens = None if rendered.tokens is None else len(rendered.tokens)
            return {"text": rendered.text, "tokens": tokens, "exact": rendered.exact}

    async def warm(self, session_id: str, draft: str = "") -> None:
        """Read a conversation ahead of its use, at the lowest priority."""
        live = await self.live(session_id)
        async with self._lease.use(live.settings.model, _silent) as engine:
            tools = offered_tools(live.settings, self._services.toolbox, engine.card)
            try:
                turns = await self._turns(live, draft, engine.card)
                await engine.warm(turns, tools, live.id, is_lasting=not self.store.private)
            except BackendError as err:
                raise wrapped(err) from err

    async def _turns(self, live: LiveSession, draft: str, card: ChatCard) -> list[Json]:
        items = await self.store.branch(live.record.leaf_id)
        if draft:
            items.append(user_message(draft))
        settings = live.settings
        files = await self.files.parts(live.id, blocks_of(items), senses(card))
        system = system_text(settings.system, planning=settings.approve == "plan")
        return clean(turns_of(items, system=system, files=files))

    # ---- the process -----------------------------------------------------------------------

    @property
    def engine(self) -> ChatEngine:
        """The engine, loaded or not: for a manager beside this one."""
        return self._lease.engine

    @property
    def card(self) -> ChatCard | None:
        """The model that is loaded now."""
        return self._lease.card

    def card_of(self, model: str | None) -> ChatCard | None:
        """The model that a chat on `model` (None: the default) would use; None before it is loaded."""
        return self._lease.card_of(model)

    @property
    def model_source(self) -> str | None:
        """What the model that is loaded was asked for as, else the default; None: the one that is found."""
        return self._lease.source

    @property
    def residency(self) -> Mapping[str, Any]:
        """Where the model that is loaded lies, and its `defaults`; empty where none is."""
        return {} if self._lease.card is None else self._lease.engine.residency

    async def models(self) -> list[Any]:
        """The models found on this machine."""
        from backend.models import list_models

        return list(await asyncio.to_thread(list_models))

    async def load_model(
        self,
        source: str | None,
        *,
        progress: Callable[[float], None] = _silent,
        go_on: Callable[[], bool] = _always,
        for_text: bool = False,
        **options: Any,
    ) -> ChatCard:
        """Load a model for all sessions, once no turn runs. `for_text` refuses one that cannot write.

        `go_on` is asked while it loads, on whatever thread does that; where it says False the load
        ends with FiresideError (cancelled), and the model of before is loaded when next needed.
        """
        return await self._lease.load(LoadSpec(source, options, for_text), progress, go_on)

    async def unload_model(self) -> None:
        """Free the model; the next turn loads it again."""
        await self._lease.unload()

    async def engine_stats(self) -> EngineStats | None:
        """What the engine does now; None where no model is loaded."""
        return None if self._lease.card is None else await self._lease.engine.stats()

    @asynccontextmanager
    async def using(self, model: str | None = None) -> AsyncGenerator[ChatEngine]:
        """The engine with `model` (None: the default) in it, which no other replaces within. It may be
        one that writes no text."""
        async with self._lease.use(model, _silent, for_text=False) as engine:
            yield engine

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, by the loaded model."""
        async with self._lease.use(None, _silent, for_text=False) as engine:
            try:
                return await engine.embed(texts)
            except (BackendError, ValueError) as err:
                raise InvalidInputError(str(err)) from err
