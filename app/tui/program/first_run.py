"""The page of a first run: no model is on this machine, and these are the ways to one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from app.tui.program.model import ModelControl
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal
from app.tui.widgets.composer import PLACEHOLDER

if TYPE_CHECKING:
    from app.tui.screens.first_run import FirstRunPage
    from app.tui.shell import Program

WRITE_NOW = "write now; it is sent when a model is ready"


class FirstRun:
    """Shows the page until there is a model."""

    def __init__(self, program: Program, parts: Parts, model: ModelControl) -> None:
        self.changed: Signal[[]] = Signal()
        """The page came."""
        self.page: FirstRunPage | None = None
        self._program = program
        self._parts = parts
        self._model = model
        self._sends_when_ready = False

    def begin(self) -> None:
        """No model was found."""
        self._program.start(self._show, group="first run", exclusive=True)

    async def _show(self) -> None:
        from app.tui.screens.first_run import FirstRunPage

        if self.page is not None:
            return
        page = await asyncio.to_thread(FirstRunPage.of_this_machine)
        self.page = page
        self._model.state.machine = page.machine
        self._model.changed()
        await self._parts.main.mount(page, before=self._parts.transcript)
        self._parts.transcript.display = False
        self._parts.draft.placeholder = WRITE_NOW
        if not self._parts.draft.text:
            page.focus()
        self.changed()

    def chosen(self, event: FirstRunPage.Ready) -> None:
        """There is a model now."""
        event.stop()
        self._program.start(partial(self._leave, event.source), group="load", exclusive=True)

    async def _leave(self, source: str) -> None:
        if not await self._model.load(source):
            return
        page, self.page = self.page, None
        if page is not None:
            await page.remove()
        self._parts.transcript.display = True
        self._parts.draft.placeholder = PLACEHOLDER
        self._parts.draft.focus()
        if self._sends_when_ready:
            self._sends_when_ready = False
            self._parts.draft.action_send()

    def holds_back(self) -> bool:
        """Whether a message has to wait for a model, with the draft as it is."""
        if self.page is None:
            return False
        self._sends_when_ready = True
        self._parts.say("it is sent when a model is ready")
        return True
