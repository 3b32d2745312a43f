"""The chats that are open: which one is on the screen, and the managers that hold them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from app.frontend.model_name import UNKNOWN, ModelState
from app.frontend.start import Start, configure
from app.tui.bell import rings
from app.tui.keys import word
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal
from app.tui.program.window import Window

if TYPE_CHECKING:
    from app.frontend.private_chats import PrivateChats
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSummary
    from app.tui.chat.chat import Chat
    from app.tui.chat.facts import Facts
    from app.tui.shell import Program
    from app.tui.transcript.gallery import Content
    from app.tui.transcript.picture_entry import PictureRow

MOST_OPEN = 12
"""Chats that stay open beside the one on the screen while nothing happens in them."""


class OpenChats:
    """Chats, one of them on the screen."""

    def __init__(
        self, program: Program, parts: Parts, window: Window, model: ModelState, start: Start
    ) -> None:
        self.switched: Signal[[Chat, Chat, bool]] = Signal()
        """From one chat to another; True where what is being written goes along, behind the draft of that
        chat. Heard in the same moment: a key goes to the one chat or the other."""
        self.shown: Signal[[]] = Signal()
        """Another chat is on the screen, with its draft."""
        self.told: Signal[[Chat, str]] = Signal()
        """A chat tells that something of it is different."""
        self.folder = start.folder or Path()
        """Where shell lines run and files are named; without one, a name that leads nowhere."""
        self.open: dict[str, Chat] = {}
        """Those that have a session, by its id."""
        self.begun = asyncio.Event()
        """Set when the chat is on the screen that the command line chose."""
        self.closing = False
        self._program = program
        self._parts = parts
        self._window = window
        self._model = model
        self._start = start
        self._manager: SessionManager | None = None

    # ---- managers --------------------------------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        """The chats of this person. RuntimeError in the first moments, before `ready`."""
        if self._manager is None:
            raise RuntimeError("The chats are still being opened.")
        return self._manager

    @cached_property
    def _private(self) -> PrivateChats:
        from app.frontend.private_chats import PrivateChats

        return PrivateChats(self._start)

    @property
    def is_open(self) -> bool:
        """Whether `manager` is there."""
        return self._manager is not None

    def hold(self, manager: SessionManager) -> None:
        """The chats of this person are open."""
        self._manager = manager

    async def give_manager(self) -> None:
        """Give the chat on the screen the manager that holds it from now on."""
        self.current.manager = await self.private_manager() if self._start.private else self.manager

    async def ready(self) -> Chat:
        """Wait until `manager` is there, and the chat that the command line chose; the one on the screen."""
        await self.begun.wait()
        return self.current

    async def holder(self, session_id: str) -> tuple[SessionManager, bool]:
        """The manager of a chat, and whether it is the one of private chats."""
        return await self._private.holder(session_id, self.manager)

    async def private_manager(self) -> SessionManager:
        return await self._private.open(self.manager)

    async def private_chats(self) -> Sequence[SessionSummary]:
        """The private chats that are open, newest first."""
        return await self._private.list(MOST_OPEN)

    async def close_managers(self) -> None:
        """The program ends."""
        await self._private.close()
        if self._manager is not None:
            await self._manager.aclose()

    # ---- what is there ---------------------------------------------------------------------

    @property
    def current(self) -> Chat:
        return self._current

    @cached_property
    def _current(self) -> Chat:
        """First an empty one, without a manager yet."""
        # A private program keeps nothing from its first key on.
        chat = self._new(None, private=self._start.private)
        chat.view.page.shown = True
        return chat

    @property
    def all(self) -> set[Chat]:
        """Every chat that is open, also the one on the screen that has no session yet."""
        return {self.current, *self.open.values()}

    def live_states(self) -> Mapping[str, Facts]:
        """How the chats that are open here stand, by session id."""
        return {session_id: chat.facts for session_id, chat in self.open.items()}

    @property
    def loading(self) -> bool:
        """Whether a model is being loaded, and nobody knows what it can read."""
        return self._model.load is not None

    @property
    def answerer(self) -> str:
        """Who answers, as names tell it."""
        return self._model.name or UNKNOWN

    # ---- opening and closing ---------------------------------------------------------------

    async def open_chat(self, session_id: str, *, item_id: str | None = None, query: str = "") -> None:
        """Show a chat; with `item_id` at that item. FiresideError where it is not there."""
        await self.ready()
        chat = await self._open(session_id)
        if item_id is not None:
            await chat.bring(item_id)
            chat.reveal(item_id, query)

    async def open_first(self, session_id: str) -> None:
        """Show the chat to go on with; what is being written already goes along."""
        await self._open(session_id, carry=True)

    async def _open(self, session_id: str, *, carry: bool = False) -> Chat:
        chat = self.open.get(session_id)
        if chat is None:
            manager, private = await self.holder(session_id)
            chat = self._new(manager, session_id=session_id, private=private)
            await chat.open()
            # Somebody else may have opened it meanwhile.
            if (other := self.open.get(session_id)) is not None:
                await chat.close()
                chat = other
            self.open[session_id] = chat
        await self._show(chat, carry=carry)
        return chat

    def _new(
        self, manager: SessionManager | None, *, session_id: str | None = None, private: bool = False
    ) -> Chat:
        from app.tui.chat.chat import Chat

        def told(what: str) -> None:
            self._changed(chat, what)

        chat = Chat(
            manager,
            self._parts.transcript,
            told,
            session_id=session_id,
            private=private,
            name=self.answerer,
            prepare=self._prepare,
        )
        if session_id is None:
            # Until its session is made, it says what that is going to begin with.
            chat.facts.approve = self._start.approve
        keys = (word("variant_before", self._parts.bound), word("variant_after", self._parts.bound))
        chat.view.variant_keys = " ".join(filter(None, keys))
        return chat

    async def _prepare(self, manager: SessionManager, session_id: str) -> None:
        await configure(manager, session_id, self._start, is_new=True)

    async def new_chat(self, *, private: bool = False) -> None:
        """Show an empty chat."""
        await self.ready()
        current = self.current
        if current.view.empty and current.private == private and not current.busy:
            self._parts.draft.focus()
            return
        manager = await self.private_manager() if private else self.manager
        await self._show(self._new(manager, private=private))

    def begin_chat(self) -> None:
        """Show an empty chat, soon."""
        self._program.start(self.new_chat, group="chats")

    async def close_chat(self, session_id: str) -> None:
        """A chat is gone; an empty one takes its place on the screen."""
        chat = self.open.pop(session_id, None)
        if chat is None:
            return
        await chat.close()
        if chat is self._current:
            await self._show(self._new(self.manager))

    async def _show(self, chat: Chat, *, carry: bool = False) -> None:
        before = self._current
        if chat is before:
            return
        self._current = chat
        before.view.page.leave()
        chat.facts.unread = False
        chat.view.page.show(chat.view.story.entries)
        self.switched(before, chat, carry)
        self.shown()
        await before.keep_draft(before.draft)
        if before.id is not None and before is not self._current and await before.drop_if_empty():
            self.open.pop(before.id, None)
            await before.close()
        await self._let_go()

    async def _let_go(self) -> None:
        """Close chats in which nothing happens, oldest first, when there are many."""
        idle = [chat for chat in self.open.values() if chat is not self._current and not chat.facts.running]
        idle = [chat for chat in idle if not chat.facts.asking and not chat.private and not chat.attached]
        for chat in idle[: max(0, len(self.open) - MOST_OPEN)]:
            assert chat.id is not None
            del self.open[chat.id]
            await chat.close()

    async def picture(self, row: PictureRow) -> Content:
        """The file of a picture on the page. FiresideError where it is gone."""
        from app.terminal.figures import byte_size
        from app.tui.transcript.gallery import Content
        from app.tui.transcript.pictures import MOST_BYTES

        await self.ready()
        chat = self.current
        file = await chat.manager.files.get(str(chat.id), row.file_id)
        data = None
        if file.bytes <= MOST_BYTES:
            data = await chat.manager.files.get_content(str(chat.id), row.file_id)
        return Content(file.name, byte_size(file.bytes), data)

    # ---- what they tell --------------------------------------------------------------------

    def _changed(self, chat: Chat, what: str) -> None:
        if self.closing:
            return
        if what == "made" and chat.id is not None:
            self.open[chat.id] = chat
        if what in ("ended", "asked", "failed"):
            chat.facts.unread = chat is not self._current and what == "ended"
            when = self._start.settings.get("bell", "unfocused")
            if rings(when, what, chat.view.took_s, self._window.attention):
                self._program.bell()
        if what in ("ended", "opened"):
            self._model.read(self.manager)
        self.told(chat, what)
