"""How an empty chat begins: who answers, and the newest chats to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.clock import now
from app.frontend.ages import age
from app.frontend.model_name import ModelState
from app.sessions.records import is_asked_once
from app.tui.frame import rows_for_page
from app.tui.program.first_run import FirstRun
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.widgets.opening import MOST_CHATS, STARTER, Facts, Recent

if TYPE_CHECKING:
    from app.sessions.snapshot import SessionSummary
    from app.tui.chat.chat import Chat
    from app.tui.shell import Program

_LOOKED_AT = 50
"""Of the newest chats: conversations are offered before one-shots."""


class EmptyChat:
    """What stands in place of a conversation that has not begun."""

    def __init__(
        self, program: Program, parts: Parts, chats: OpenChats, model: ModelState, first_run: FirstRun
    ) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._model = model
        self._first_run = first_run
        self._recent: Sequence[SessionSummary] = ()
        self._posted_in: Chat | None = None
        """The chat that a message was sent in last, which may not be on the page yet."""

    def move(self, step: int) -> bool:
        """Choose a chat to go on with, while nothing is written; False where none is offered."""
        return self._parts.furnished and self._parts.opening.move(step)

    def go_on(self) -> None:
        """Enter, with nothing written: go on with the chat that is chosen."""
        if self._parts.draft.text or not self._parts.furnished:
            return
        if (session_id := self._parts.opening.chosen) is not None:
            self.go_on_with(session_id)

    def go_on_with(self, session_id: str) -> None:
        self._program.start(partial(self._go_on_with, session_id), group="chats", exclusive=True)

    async def _go_on_with(self, session_id: str) -> None:
        async with self._parts.telling():
            await self._chats.open_chat(session_id)

    def told(self, chat: Chat, what: str) -> None:
        """A chat changed: one in which a message is sent is empty no longer."""
        if what == "posting":
            self._posted_in = chat

    def chat_shown(self) -> None:
        """Another chat is on the screen."""
        self._posted_in = None
        if self._chats.current.view.empty:
            self.list_recent()

    def list_recent(self) -> None:
        """Look which chats can be gone on with."""
        self._program.start(self._list_recent, group="recent", exclusive=True)

    async def _list_recent(self) -> None:
        found = [chat for chat in await self._chats.manager.list(_LOOKED_AT) if chat.title]
        found.sort(key=lambda chat: is_asked_once(chat.labels))  # stable: conversations first, then one-shots
        self._recent = [chat for chat in found if chat.id != self._chats.current.id]
        self.show()

    def show(self) -> None:
        """Show how to begin, or no longer."""
        if self._parts.furnished and self._parts.opening.is_mounted:
            rows = rows_for_page(self._program.size.height)
            self._parts.opening.show(self._facts(), self._parts.grid, rows)

    def _facts(self) -> Facts | None:
        chat, model = self._chats.current, self._model
        if not self._chats.begun.is_set() or self._first_run.page is not None or self._parts.draft.text:
            return None
        if not chat.view.empty or chat.busy or chat.view.error is not None or chat is self._posted_in:
            return None
        # The pane beside it lists them all.
        most = 0 if chat.private else 1 if self._parts.side_open else MOST_CHATS
        return Facts(
            model=model.name,
            failed=model.failed,
            window=model.window,
            gpu_layers=model.gpu_layers,
            layers=model.layers,
            starter=model.name == STARTER,
            private=chat.private,
            recent=tuple(
                Recent(one.id, one.title or "", age(one.updated_at, now())) for one in self._recent[:most]
            ),
            more=0 < most < len(self._recent) and not self._parts.side_open,
        )
