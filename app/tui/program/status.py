"""What the status bar, the seam and the terminal's title tell of the chat on the screen and of the model."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from app.frontend.model_name import ModelState, short_name
from app.frontend.start import Start, new_settings
from app.terminal.output import one_line
from app.tui.keys import word
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal
from app.tui.program.window import Window
from app.tui.widgets.status import Facts

if TYPE_CHECKING:
    from textual.worker import Worker

    from app.tui.chat.chat import Chat
    from app.tui.shell import Program

COUNT_AFTER_S = 0.1
"""How long nothing may begin before the context is counted: what is edited is answered at once."""


class StatusFacts:
    """Tells what holds now."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        window: Window,
        chats: OpenChats,
        model: ModelState,
        start: Start,
    ) -> None:
        self.refreshed: Signal[[]] = Signal()
        """What is known of the chat or the model may be another."""
        self.ticked: Signal[[]] = Signal()
        """The numbers of running chats went on."""
        self._program = program
        self._parts = parts
        self._window = window
        self._chats = chats
        self._model = model
        self._start = start
        self._counting: Worker[None] | None = None

    def tick(self) -> None:
        """Time went on."""
        running = [chat for chat in self._chats.all if chat.facts.running]
        for chat in running:
            chat.view.tick()
        if running:
            self.refresh()
            self.ticked()

    def refresh(self) -> None:
        """Tell what holds now."""
        if self._program.is_running:
            self._tell()
        self.refreshed()

    def _tell(self) -> None:
        chat, facts, model = self._chats.current, self._chats.current.facts, self._model
        asking = sum(chat.facts.asking for chat in self._chats.all)
        state, role = self._state()
        vi, bound = self._parts.draft.vi, self._parts.bound
        shown = Facts(
            asking=asking,
            state=state,
            state_role=role,
            private=chat.private,
            mode="" if vi is None else vi.keys.mode,
            machine=() if model.name else model.machine,
            model=one_line(short_name(facts.model) if facts.model else model.name),
            gpu_layers=model.gpu_layers,
            layers=model.layers,
            has_gpu=model.has_gpu,
            server=one_line(model.server),
            exact=not model.server,
            context_tokens=facts.beginning_tokens if chat.view.empty else facts.context_tokens,
            context_window=facts.context_window or model.window,
            reused=facts.reused,
            first_ms=None if facts.first_s is None else facts.first_s * 1000,
            speed=facts.speed,
            tools=facts.approve if model.tools else "",
            home=facts.home,
            help_key=word("help", bound) or word("help_always", bound),
        )
        self._parts.status.show(shown, self._parts.grid)
        self._parts.seam.set_title("" if self._parts.side_open else chat.title)
        title = one_line(chat.title) or "fireside"
        self._window.set_title(f"({asking}) {title}" if asking else title)

    def _state(self) -> tuple[str, str]:
        facts, model = self._chats.current.facts, self._model
        if model.fetched is not None:
            return f"fetching {model.fetched * 100:.0f} %", "primary"
        load = model.load if model.load is not None else facts.load
        if load is not None:
            return f"loading {load * 100:.0f} %", "primary"
        if facts.prefill is not None:
            return f"reading {facts.prefill * 100:.0f} %", "primary"
        if facts.waits:
            return "waits", "muted"
        if facts.summarising:
            return "summarising", "primary"
        if model.failed:
            return "no model", "warning"
        if facts.failed:
            return "failed", "error"
        return ("stopped", "muted") if facts.stopped else ("", "primary")

    # ---- the context -----------------------------------------------------------------------

    def told(self, chat: Chat, what: str) -> None:
        """A chat changed. What it holds may be another, which the next turn tells by itself."""
        self.refresh()
        if chat is not self._chats.current:
            return
        if chat.facts.running:
            if self._counting is not None:
                self._counting.cancel()
        elif what in ("branched", "ended", "recount"):
            self.count()

    def count(self) -> None:
        """Ask what the chat on the screen fills of its window, where that is not known; only a model that
        is loaded is asked."""
        self._counting = self._program.start(self._count, group="context", exclusive=True)

    async def _count(self) -> None:
        from app.sessions.errors import FiresideError

        await asyncio.sleep(COUNT_AFTER_S)
        chat, facts = self._chats.current, self._chats.current.facts
        if facts.running or (facts.context_tokens is not None and not chat.view.empty):
            return
        # A turn that failed may fail again where it is counted.
        if chat.view.error is not None or self._model.load is not None:
            return
        if chat.manager.card_of(facts.model) is None:
            return
        with contextlib.suppress(FiresideError):
            if chat.id is None:
                found = await chat.manager.new_context(**new_settings(self._start))
            else:
                found = await chat.manager.context(chat.id)
            facts.context_window = found["window"]
            if chat.view.empty:
                facts.beginning_tokens = int(found["total"])
            else:
                facts.context_tokens = int(found["total"])
            self.refresh()
