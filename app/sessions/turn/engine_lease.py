"""The engine that all sessions share: loaded when first needed, switched only when nobody uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from app.running import Presence
from app.sessions.errors import FiresideError, ServerError, wrapped
from backend.chat_engine import ChatEngine, LoadSpec
from backend.types import BackendError, ChatCard, cannot_write

OnLoad = Callable[[float], None]
GoOn = Callable[[], bool]


def _always() -> bool:
    return True


class EngineLease:
    """Hands out one `ChatEngine` with the wanted model in it.

    `spec` is the model used where a session names none. `engine` may be loaded already.
    """

    def __init__(self, engine: ChatEngine | None, spec: LoadSpec) -> None:
        self._engine = engine
        self._spec = spec
        self._asked = spec.source if engine is not None and not engine.closed else None
        self._default = spec.source
        self._users = 0
        self._changed = asyncio.Condition()
        self._loading = False
        self._presence = Presence()

    @property
    def engine(self) -> ChatEngine:
        """The engine itself, loaded or not. ServerError where there is none."""
        if self._engine is None:
            raise ServerError("No engine was given to this session manager.", 503, "no_engine")
        return self._engine

    @property
    def has_engine(self) -> bool:
        """Whether there is an engine, loaded or not."""
        return self._engine is not None

    @property
    def card(self) -> ChatCard | None:
        """What is loaded now."""
        if self._engine is None or self._engine.closed:
            return None
        return self._engine.card

    @property
    def source(self) -> str | None:
        """What the model that is loaded was asked for as, else the default; None: the one that is found."""
        return self._default if self.card is None else self._asked

    def card_of(self, model: str | None) -> ChatCard | None:
        """What is known of the model that a turn on `model` (None: the default) would use; None before
        it is loaded."""
        return self.card if not self._loading and self._fits(model) else None

    def must_wait(self, model: str | None) -> bool:
        """Whether another model is at work, so that a turn on `model` has to wait for its end."""
        return self._users > 0 and not self._fits(model)

    @asynccontextmanager
    async def use(
        self, model: str | None, on_load: OnLoad, go_on: GoOn = _always, *, for_text: bool = True
    ) -> AsyncGenerator[ChatEngine]:
        """The engine with `model` loaded (None: the default). Raises FiresideError, with `for_text` also for
        a model that cannot write.

        `go_on` is asked while a model loads and, after `wake`, while others have to finish; False
        gives up.
        """
        async with self._changed:
            while not self._fits(model):
                if not go_on():
                    raise FiresideError("It was stopped before its model was ready.", code="cancelled")
                if self._users == 0 and not self._loading:
                    spec = LoadSpec(model or self._default, self._spec.options, for_text)
                    await self._load(spec, on_load, go_on)
                    break
                await self._changed.wait()
            if for_text and self.engine.card.kind == "embedding":
                raise wrapped(cannot_write(self.engine.card.model_id))
            self._users += 1
        try:
            yield self.engine
        finally:
            async with self._changed:
                self._users -= 1
                self._changed.notify_all()

    async def wake(self) -> None:
        """Let those that wait look again whether they still want to."""
        async with self._changed:
            self._changed.notify_all()

    async def load(self, wanted: LoadSpec, on_load: OnLoad, go_on: GoOn = _always) -> ChatCard:
        """Load a model for everybody, with the options of before under its own; waits until no turn runs.

        `go_on` is asked while it loads; False gives up. Then, and where the engine keeps the model it had
        because there is no such other one, what was the default before is it again.
        """
        async with self._changed:
            while self._users or self._loading:
                await self._changed.wait()
            before = self._default, self._spec
            self._default = wanted.source
            self._spec = replace(wanted, options={**self._spec.options, **wanted.options})
            try:
                await self._load(self._spec, on_load, go_on)
            except FiresideError:
                if self.card is not None or not go_on():
                    self._default, self._spec = before
                raise
        return self.engine.card

    async def unload(self) -> None:
        """Free the model; what runs ends as cancelled."""
        if self._engine is not None and not self._engine.closed:
            await self._engine.unload()
        self._presence.clear()
        self._asked = None

    def _fits(self, model: str | None) -> bool:
        if self.card is None:
            return False
        wanted = model or self._default
        return wanted is None or wanted == self._asked or (self._asked is None and model is None)

    async def _load(self, spec: LoadSpec, on_load: OnLoad, go_on: GoOn = _always) -> None:
        loop = asyncio.get_running_loop()

        def progress(fraction: float) -> bool:
            # Called on whatever thread loads.
            loop.call_soon_threadsafe(on_load, fraction)
            return go_on()

        self._loading = True
        try:
            await self.engine.load(spec, progress)
            self._asked = spec.source
            self._presence.show(self.engine.card.model_id)
        except BackendError as err:
            raise wrapped(err) from err
        finally:
            self._loading = False
