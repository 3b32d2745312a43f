"""The model of all chats: loading it, fetching it, and giving up either."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.frontend.model_name import ModelState
from app.settings.config import Settings
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal

if TYPE_CHECKING:
    from app.tui.shell import Program


class ModelControl:
    """Loads models with their progress in the status bar. `state` is what is known of the one that is."""

    def __init__(
        self, program: Program, parts: Parts, chats: OpenChats, state: ModelState, settings: Settings
    ) -> None:
        self.changed: Signal[[]] = Signal()
        """What is known of the model is another."""
        self.loaded: Signal[[]] = Signal()
        """A model is loaded."""
        self.none_found: Signal[[]] = Signal()
        """No model was named, and none is on this machine."""
        self.opened = asyncio.Event()
        """Set when there is a manager to load with."""
        self.given_up = False
        """Whether a person ended the load or download that runs."""
        self.state = state
        self._program = program
        self._parts = parts
        self._chats = chats
        self._settings = settings

    # ---- loading ---------------------------------------------------------------------------

    async def load_first(self) -> None:
        """Load the model that the settings name, or the one that is found."""
        from app.oneshot.direct import source_of

        options = {"slots": 4, **self._settings.load_options()}
        options.pop("assistant_model", None)
        await self.load(source_of(self._settings), options)

    async def load(self, source: str | None, options: Mapping[str, Any] | None = None) -> bool:
        """Load a model for all chats, its progress in the status bar. False where it failed; that is told."""
        from app.sessions.errors import FiresideError

        await self.opened.wait()
        manager, state = self._chats.manager, self.state
        state.load, state.failed, self.given_up = 0.0, False, False
        self.changed()
        before = state.name
        try:
            await manager.load_model(
                source,
                progress=self._progress,
                go_on=lambda: not self.given_up,
                for_text=True,
                **(options or {}),
            )
        except FiresideError as err:
            state.failed = manager.card is None
            if self.given_up:
                self._parts.say("Loading was stopped. The next message loads the previous model.")
            elif err.code == "not_found" and source is None and self._settings.get("model") is None:
                self.none_found()
            else:  # the reason: a name may be mistyped
                self._parts.say(f"{err.message} {err.remedy}", error=True)
            return False
        finally:
            state.load = None
            self.changed()
        state.failed = False
        state.read(manager)
        for chat in self._chats.all:
            chat.view.model_loaded(state.name, state.window, changed=bool(before) and before != state.name)
        self.changed()
        self.loaded()
        self._tell_unmet()
        return True

    def _tell_unmet(self) -> None:
        from app.frontend.abilities import notes_of, unmet

        manager = self._chats.manager
        if (card := manager.card) is None:
            return
        if told := f"{notes_of(card, manager.residency)} {unmet(card, self._settings)}".strip():
            self._parts.say(told, error=True)

    def _progress(self, fraction: float) -> None:
        # It comes from the engine's side, where timers and widgets do not know their app.
        self._program.call_later(self._loading, fraction)

    def _loading(self, fraction: float) -> None:
        if self.state.load is None:
            return  # It comes from another thread, and may be late.
        self.state.load = fraction
        self._chats.current.view.show_loading(fraction)
        self.changed()

    # ---- fetching --------------------------------------------------------------------------

    def show_download(self, fraction: float | None) -> None:
        """How much of a model is fetched, unless a person gives it up; None when nothing is any more."""
        if fraction is None or self.state.fetched is None:
            self.given_up = False
        self.state.fetched = fraction
        self.changed()

    def give_up(self) -> bool:
        """End the load or the download that runs; False where there is none."""
        if self.state.load is None and self.state.fetched is None:
            return False
        self.given_up = True
        return True
