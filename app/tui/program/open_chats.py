"""The chats that are open: which one is on the screen, private ones, and what becomes of drafts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.frontend.draft import Block, file_block, mentions
from app.frontend.draft_keeper import DraftKeeper
from app.frontend.history import History
from app.frontend.model_name import UNKNOWN, ModelState
from app.frontend.start import Start, configure, open_private_manager
from app.settings.config import Settings
from app.terminal.glyphs import Glyphs
from app.terminal.theming import Palette
from app.tui.bell import rings
from app.tui.keys import word
from app.tui.program.parts import Stage

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSummary
    from app.terminal.graphics import Way
    from app.tui.chat.chat import Chat
    from app.tui.screens.model_plans import Catalog
    from app.tui.transcript.gallery import Content
    from app.tui.transcript.picture_entry import PictureRow

MOST_OPEN = 12
"""Chats that stay open beside the one on the screen while nothing happens in them."""


class OpenChats(Stage):
    """Chats on a stage, one of them shown. What holds of the model and the program is `Program`'s."""

    def __init__(
        self,
        start: Start,
        palette: Palette,
        glyphs: Glyphs,
        *,
        history: History | None = None,
        motion: bool = True,
        hyperlinks: bool = True,
        keymap: Mapping[str, str] | None = None,
        pictures: Way = "blocks",
        catalog: Catalog | None = None,
    ) -> None:
        super().__init__(
            palette, glyphs, history or History(), motion=motion, hyperlinks=hyperlinks, keymap=keymap
        )
        self._pictures: Way = pictures
        self.catalog = catalog
        """What the model picker asks about files; None: those of this machine."""
        self.start = start
        self.folder = start.folder or Path()
        """Where shell lines run and files are named; without one, a name that leads nowhere."""
        self.model = ModelState()
        self.chats: dict[str, Chat] = {}
        """Those that have a session, by its id."""
        self._manager: SessionManager | None = None
        self._private: SessionManager | None = None
        self._making_private = asyncio.Lock()
        self._begun = asyncio.Event()
        self._closing = False
        self._keeper = DraftKeeper(
            lambda: self.run_worker(self.save_draft(), exit_on_error=False, group="draft")
        )

    # ---- what screens ask ------------------------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        if self._manager is None:
            raise RuntimeError("The chats are still being opened.")
        return self._manager

    @property
    def settings(self) -> Settings:
        return self.start.settings

    @property
    def chat(self) -> Chat:
        return self._chat

    @cached_property
    def _chat(self) -> Chat:
        """The chat on the screen: first an empty one, without a manager yet."""
        # A private program keeps nothing from its first key on.
        chat = self._new(None, private=self.start.private)
        chat.page.shown = True
        return chat

    async def ready(self) -> None:
        """Wait until `manager` is there, and the chat that the command line chose."""
        await self._begun.wait()

    def live_states(self) -> Mapping[str, Any]:
        """How the chats that are open here stand."""
        return {session_id: chat.facts for session_id, chat in self.chats.items()}

    @property
    def answerer(self) -> str:
        """Who answers, as names tell it."""
        return self.model.name or UNKNOWN

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncGenerator[None]:
        """Within, what a session refuses is told in the seam."""
        from app.exits import explain
        from app.sessions.errors import FiresideError

        try:
            yield
        except FiresideError as err:
            self.say(str(explain(err)), error=True)

    def stop_reading_ahead(self) -> None:
        """Nothing is read any more before it is sent."""

    def refresh_facts(self) -> None:
        """What is known of a chat is another: whoever tells it draws it anew."""

    # ---- chats -----------------------------------------------------------------------------

    async def open_chat(self, session_id: str, *, item_id: str | None = None, query: str = "") -> None:
        """Show a chat; with `item_id` at that item. FiresideError where it is not there."""
        await self.ready()
        chat = await self._open(session_id)
        if item_id is not None:
            await chat.bring(item_id)
            chat.reveal(item_id, query)

    async def _open(self, session_id: str, *, carry: bool = False) -> Chat:
        chat = self.chats.get(session_id)
        if chat is None:
            manager, private = await self.holder(session_id)
            chat = self._new(manager, session_id=session_id, private=private)
            await chat.open()
            # Somebody else may have opened it meanwhile.
            if (other := self.chats.get(session_id)) is not None:
                await chat.close()
                chat = other
            self.chats[session_id] = chat
        await self._show(chat, carry=carry)
        return chat

    async def holder(self, session_id: str) -> tuple[SessionManager, bool]:
        """The manager of a chat, and whether it is the one of private chats."""
        from app.sessions.errors import FiresideError

        if self._private is not None:
            with contextlib.suppress(FiresideError):
                await self._private.get(session_id, include_items=False)
                return self._private, True
        return self.manager, False

    async def private_chats(self) -> Sequence[SessionSummary]:
        """The private chats that are open, newest first."""
        return [] if self._private is None else await self._private.list(MOST_OPEN)

    def _new(
        self, manager: SessionManager | None, *, session_id: str | None = None, private: bool = False
    ) -> Chat:
        from app.tui.chat.chat import Chat

        def told(what: str) -> None:
            self._chat_changed(chat, what)

        chat = Chat(
            manager,
            self.transcript,
            told,
            session_id=session_id,
            private=private,
            name=self.answerer,
            prepare=self._prepare,
        )
        if session_id is None:
            # Until its session is made, it says what that is going to begin with.
            chat.facts.approve = self.start.approve
        keys = (word("variant_before", self.bound), word("variant_after", self.bound))
        chat.variant_keys = " ".join(filter(None, keys))
        return chat

    async def _prepare(self, manager: SessionManager, session_id: str) -> None:
        await configure(manager, session_id, self.start, is_new=True)

    async def new_chat(self, *, private: bool = False) -> None:
        """Show an empty chat."""
        await self.ready()
        if self._chat.empty and self._chat.private == private and not self._chat.busy:
            self.draft.focus()
            return
        manager = await self._private_manager() if private else self.manager
        chat = self._new(manager, private=private)
        await self._show(chat)

    async def close_chat(self, session_id: str) -> None:
        """A chat is gone; an empty one takes its place on the screen."""
        chat = self.chats.pop(session_id, None)
        if chat is None:
            return
        await chat.close()
        if chat is self._chat:
            await self._show(self._new(self.manager))

    async def _private_manager(self) -> SessionManager:
        async with self._making_private:  # Asked for twice at once, it is made once.
            if self._private is None:
                self._private = await open_private_manager(self.start, self.manager)
            return self._private

    async def _show(self, chat: Chat, *, carry: bool = False) -> None:
        """Show a chat. With `carry` what is being written goes along, behind the draft of that chat."""
        before = self._chat
        if chat is before:
            return
        # All at once: a key goes to the one chat or the other.
        self.leave_edit()
        if not carry:
            before.draft = self.draft.kept
        before.page.leave()
        self._chat = chat
        chat.facts.unread = False
        chat.page.show(chat.story.entries)
        if not carry:
            self.draft.folds.clear()
            self.draft.put(chat.draft)
        elif chat.draft:
            self.draft.put("\n".join(part for part in (chat.draft, self.draft.text) if part))
        self.chat_shown()
        await self._keep(before, before.draft)
        if before.id is not None and before is not self._chat and await before.drop_if_empty():
            self.chats.pop(before.id, None)
            await before.close()
        await self._let_go()

    def leave_edit(self) -> None:
        """An edit of an earlier message is given up."""

    def chat_shown(self) -> None:
        """Another chat is on the screen."""
        self.show_chat()

    async def _let_go(self) -> None:
        """Close chats in which nothing happens, oldest first, when there are many."""
        idle = [chat for chat in self.chats.values() if chat is not self._chat and not chat.facts.running]
        idle = [chat for chat in idle if not chat.facts.asking and not chat.private and not chat.attached]
        for chat in idle[: max(0, len(self.chats) - MOST_OPEN)]:
            assert chat.id is not None
            del self.chats[chat.id]
            await chat.close()

    def _chat_changed(self, chat: Chat, what: str) -> None:
        """A chat tells that something of it is different."""
        if self._closing:
            return
        if what == "made" and chat.id is not None:
            self.chats[chat.id] = chat
        match what:
            case "ended" | "asked" | "failed":
                chat.facts.unread = chat is not self._chat and what == "ended"
                if rings(self.settings.get("bell", "unfocused"), what, chat.took_s, self.attention):
                    self.bell()
            case _:
                pass
        if what in ("ended", "opened"):
            self.model.read(self.manager)
        self.chat_told(chat, what)

    def chat_told(self, chat: Chat, what: str) -> None:
        """Draw what may be different."""
        if chat is self._chat:
            self.show_chat()
        else:
            self.refresh_facts()

    def show_chat(self) -> None:
        """Queue, card and facts of the chat on the screen."""
        facts = self._chat.facts
        self.waiting.show(facts.waiting)
        question = facts.questions[0] if facts.questions else None
        if question is not None and self._chat.private:
            question = question.without("always")  # nothing of it is kept
        self.approval.ask(question, 1, len(facts.questions), drafting=bool(self.draft.text))
        self.refresh_facts()

    # ---- drafts ----------------------------------------------------------------------------

    def attach(self, block: Block) -> None:
        """Let a block go with the next message of this chat."""
        self._chat.attached.append(block)

    async def post(self, draft: str, blocks: Sequence[Block]) -> None:
        """Send a draft as a message. Raises FiresideError or OSError; nothing is sent then.

        `blocks` are the draft's: its pastes may be gone by now. `draft` names the files that go along.
        """
        from app.frontend.modality import require_senses

        await self.ready()
        chat = self._chat
        named = [path for path in mentions(draft, self.folder)]
        loading = self.model.load is not None
        require_senses(chat.attached, named, chat.manager.card, chat.facts.model, loading=loading)
        attached = list(chat.attached)
        if named:
            session_id = await chat.ensure()
            for path in named:
                file = await chat.manager.files.upload(session_id, path)
                attached.append(file_block(file.id, file.name, file.bytes, file.content_type))
        await chat.send([*attached, *blocks])
        del chat.attached[: len(attached) - len(named)]
        chat.unsent = [line for line in chat.unsent if line.live]

    async def _picture(self, row: PictureRow) -> Content:
        """The file of a picture on the page. FiresideError where it is gone."""
        from app.terminal.figures import byte_size
        from app.tui.transcript.gallery import Content
        from app.tui.transcript.pictures import MOST_BYTES

        await self.ready()
        chat = self._chat
        file = await chat.manager.files.get(str(chat.id), row.file_id)
        data = None
        if file.bytes <= MOST_BYTES:
            data = await chat.manager.files.get_content(str(chat.id), row.file_id)
        return Content(file.name, byte_size(file.bytes), data)

    def save_draft_soon(self) -> None:
        """Keep the draft over a crash, a moment from now: also while the person types on and on."""
        self._keeper.changed()

    @property
    def unsent(self) -> str:
        """All that is being written, as keys would have to write it."""
        return self.draft.kept

    async def save_draft(self) -> None:
        """Keep the draft of the chat on the screen. A private chat's stays in memory."""
        if self._begun.is_set():
            await self._keep(self._chat, self.unsent)

    async def _keep(self, chat: Chat, text: str) -> None:
        if self._manager is None or (text == chat.kept_draft):
            return
        if chat.id is None and (chat.private or not text.strip()):
            return
        await chat.keep_draft(text)
