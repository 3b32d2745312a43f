"""The running program: its manager, chats and model, and what becomes of drafts. Keys are `app`'s matter."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import work

from app.config import Settings
from app.glyphs import Glyphs
from app.theming import Palette
from app.tui.bell import rings
from app.tui.grid import Grid
from app.tui.keys import word
from app.tui.model_state import UNKNOWN, ModelState, short_name
from app.tui.sending import Block, blocks_of, file_block, mentions, require_sight
from app.tui.stage import Stage, one_line
from app.tui.start import Start, configure, in_thread, make_manager, newest_of
from app.tui.widgets.history import History
from app.tui.widgets.status import Facts

if TYPE_CHECKING:
    from app.exits import Failure
    from app.graphics import Way
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSummary
    from app.tui.chat import Chat
    from app.tui.transcript.gallery import Content
    from app.tui.transcript.picture_entry import PictureRow

TICK_S = 0.5
SAVE_DRAFT_S = 1.0
MOST_OPEN = 12
"""Chats that stay open beside the one on the screen while nothing happens in them."""


class Program(Stage):
    """Chats on a stage. `make` builds the manager, off the event loop."""

    def __init__(
        self,
        start: Start,
        palette: Palette,
        glyphs: Glyphs,
        *,
        make: Callable[[Start], SessionManager] = make_manager,
        history: History | None = None,
        motion: bool = True,
        hyperlinks: bool = True,
        keymap: Mapping[str, str] | None = None,
        pictures: Way = "blocks",
    ) -> None:
        super().__init__(
            palette, glyphs, history or History(), motion=motion, hyperlinks=hyperlinks, keymap=keymap
        )
        self._pictures: Way = pictures
        self.start = start
        self.model = ModelState()
        self._given_up = False
        self.drawn: Callable[[], None] = lambda: None
        """Called once, when what a person waits for at the start is on the screen."""
        self.failure: Failure | None = None
        """Why the program could not begin; told after the terminal is itself again."""
        self.chats: dict[str, Chat] = {}
        """Those that have a session, by its id."""
        self._make = make
        self._manager: SessionManager | None = None
        self._private: SessionManager | None = None
        self._making_private = asyncio.Lock()
        self._opened = asyncio.Event()
        self._begun = asyncio.Event()
        self._closing = False
        self._saving: asyncio.TimerHandle | None = None

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

    # ---- beginning and end -----------------------------------------------------------------

    def on_mount(self) -> None:
        """The first frame is near: everything heavy comes after it."""
        self.show_facts(Facts(private=self.start.private))
        self.call_after_refresh(self._begin)

    async def furnish(self) -> None:
        """Bring the other parts, and what draws pictures."""
        from app.tui.transcript.gallery import Gallery

        await super().furnish()
        self.transcript.gallery = Gallery(
            self._pictures, self._picture, self.transcript.changed, self.write_out
        )

    @work(exit_on_error=False, group="begin")
    async def _begin(self) -> None:
        from app.exits import explain

        await self.furnish()
        self.take_keys()
        self.set_interval(TICK_S, self._tick)
        try:
            if self._make is make_manager:
                await self._glance()
            self.drawn()
            manager = await in_thread(self._make, self.start)
            self._manager = manager
            await manager.start()
            self._chat.manager = await self._private_manager() if self.start.private else manager
            self._opened.set()
            if self.start.notices:
                # They stay until a key is pressed: some say what is wrong with the settings.
                self.say("   ".join(self.start.notices), error=True)
            self.load_first()
            await self._first_chat(manager)
            # What was sent meanwhile goes to this chat, not to the one that stood in for it.
            self._begun.set()
        except Exception as err:
            if self._closing:  # the person left before it had begun
                return
            self.failure = explain(err)
            self.exit(return_code=int(self.failure.exit_code))
            return
        self.started()
        await in_thread(_load_markdown)

    async def _glance(self) -> None:
        """Show the end of the chat to go on with, and wait until it is painted: all else takes longer."""
        items = await in_thread(newest_of, self.start)
        if not items:
            return
        from app.tui.story import Story

        self.transcript.replace_all(Story(self.answerer).tell(items))
        painted = asyncio.Event()
        self.call_after_refresh(painted.set)
        await painted.wait()

    def started(self) -> None:
        """The manager is there, and the first chat."""

    @work(exit_on_error=False, group="load")
    async def load_first(self) -> None:
        from app.oneshot import source_of

        options = {"slots": 4, **self.settings.load_options()}
        options.pop("assistant_model", None)
        await self.load_model(source_of(self.settings), options)

    async def _first_chat(self, manager: SessionManager) -> None:
        start = self.start
        if start.fork is not None or start.resume:
            from app.find_chat import find

            found = await find(manager, start.fork or start.resume or "")
            chosen = await manager.fork(found.id) if start.fork is not None else found.id
            await configure(manager, chosen, start, is_new=False)
            await self._open(chosen, carry=True)
            return
        if start.private:
            return
        newest = await manager.list(1)
        if not newest:
            return
        if start.last:
            await configure(manager, newest[0].id, start, is_new=False)
            await self._open(newest[0].id, carry=True)
            return
        snapshot = await manager.get(newest[0].id)
        if snapshot.draft and not snapshot.items and not self.draft.text:
            # What was being written when the program ended.
            await self._open(newest[0].id, carry=True)

    def stop_reading_ahead(self) -> None:
        """Nothing is read any more before it is sent."""

    async def close_down(self) -> None:
        """Stop what runs and store the rest; the terminal is the shell's again already."""
        self._closing = True
        self.stop_reading_ahead()
        if self._saving is not None:
            self._saving.cancel()
        for chat in {self._chat, *self.chats.values()}:
            chat.page.close()
        with contextlib.suppress(Exception):
            await self.save_draft()
        for chat in {self._chat, *self.chats.values()}:
            await chat.close()
            chat.attached.clear()
            await chat.drop_if_empty()
        if self._private is not None:
            await self._private.stop()
            await self._private.store.close()
        if self._manager is not None:
            await self._manager.aclose()

    @property
    def resume_line(self) -> str | None:
        """What brings this chat back, for the shell; None for one that is not kept."""
        chat = self._chat
        if chat.id is None or chat.private or not chat.story.items:
            return None
        return (
            f"fireside --resume {chat.id.removeprefix('sess_')[:8]}   goes on with {one_line(chat.title)!r}"
        )

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
        from app.tui.chat import Chat

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
                from app.tui.start import make_private_manager

                made: SessionManager = await in_thread(make_private_manager, self.start, self.manager)
                await made.start()
                self._private = made
            return self._private

    async def _show(self, chat: Chat, *, carry: bool = False) -> None:
        """Show a chat. With `carry` what is being written goes along, behind the draft of that chat."""
        before = self._chat
        if chat is before:
            return
        # All at once: a key goes to the one chat or the other.
        self.leave_edit()
        if not carry:
            before.draft = self.draft.whole
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
        self.approval.ask(question, 1, len(facts.questions), drafting=bool(self.draft.text))
        self.refresh_facts()

    # ---- the model -------------------------------------------------------------------------

    @property
    def answerer(self) -> str:
        """Who answers, as names tell it."""
        return self.model.name or UNKNOWN

    async def load_model(self, source: str | None, options: Mapping[str, Any] | None = None) -> bool:
        """Load a model for all chats, its progress in the status bar. False where it failed; that is told."""
        from app.sessions.errors import FiresideError

        await self._opened.wait()
        self.model.load, self.model.failed, self._given_up = 0.0, False, False
        self.refresh_facts()
        before = self.model.name
        try:
            await self.manager.load_model(
                source, progress=self._progress, go_on=lambda: not self._given_up, **(options or {})
            )
        except FiresideError as err:
            self.model.failed = self.manager.desk.card is None
            if self._given_up:
                self.say("The load was given up. The next message loads the model of before.")
            else:
                self.load_failed(err)
            return False
        finally:
            self.model.load = None
            self.refresh_facts()
        self.model.failed = False
        self.model.read(self.manager)
        for chat in [self._chat, *self.chats.values()]:
            chat.model_loaded(
                self.model.name, self.model.window, changed=bool(before) and before != self.model.name
            )
        self.refresh_facts()
        return True

    def begin_download(self) -> None:
        """A model is fetched from now on, until a person gives it up."""
        self._given_up = False
        self.show_download(0.0)

    def give_up(self) -> bool:
        """End the load or the download that runs; False where there is none."""
        if self.model.load is None and self.model.fetched is None:
            return False
        self._given_up = True
        return True

    @property
    def given_up(self) -> bool:
        """Whether a person ended the load or download that runs."""
        return self._given_up

    def show_download(self, fraction: float | None) -> None:
        """How much of a model is fetched; None when nothing is any more."""
        self.model.fetched = fraction
        self.refresh_facts()

    def load_failed(self, err: Any) -> None:
        """No model is there."""
        self.say(f"{err.message} {err.remedy}", error=True)

    def _progress(self, fraction: float) -> None:
        # It comes from the engine's side, where timers and widgets do not know their app.
        self.call_later(self._loading, fraction)

    def _loading(self, fraction: float) -> None:
        if self.model.load is None:
            return  # It comes from another thread, and may be late.
        self.model.load = fraction
        self._chat.show_loading(fraction)
        self.refresh_facts()

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncGenerator[None]:
        """Within, what a session refuses is told in the seam."""
        from app.exits import explain
        from app.sessions.errors import FiresideError

        try:
            yield
        except FiresideError as err:
            self.say(str(explain(err)), error=True)

    # ---- facts -----------------------------------------------------------------------------

    def _tick(self) -> None:
        running = False
        for chat in {*self.chats.values(), self._chat}:
            if chat.facts.running:
                chat.tick()
                running = True
        if running:
            self.refresh_facts()
            self.tick_side()

    def tick_side(self) -> None:
        """The numbers of running chats went on."""

    def placed(self, grid: Grid) -> None:
        """Another width: the bar is drawn anew."""
        self.refresh_facts()

    def refresh_facts(self) -> None:
        """Tell the status bar and the terminal's title what holds now."""
        if not self.is_running:
            return
        facts, model = self._chat.facts, self.model
        asking = sum(chat.facts.asking for chat in {*self.chats.values(), self._chat})
        state, role = self._state()
        window = facts.context_window or model.window
        self.show_facts(
            Facts(
                asking=asking,
                state=state,
                state_role=role,
                private=self._chat.private,
                mode="" if self.draft.vi is None else self.draft.vi.keys.mode,
                machine=() if model.name else model.machine,
                model=one_line(short_name(facts.model) if facts.model else model.name),
                gpu_layers=model.gpu_layers,
                layers=model.layers,
                context_tokens=facts.context_tokens,
                context_window=window,
                reused=facts.reused,
                first_ms=None if facts.first_s is None else facts.first_s * 1000,
                speed=facts.speed,
                tools=facts.approve if model.tools else "",
                help_key=word("help", self.bound) or word("help_always", self.bound),
            )
        )
        self.seam.set_title("" if self.side_open else self._chat.title)
        title = one_line(self._chat.title) or "fireside"
        self.set_terminal_title(f"({asking}) {title}" if asking else title)

    def _state(self) -> tuple[str, str]:
        facts = self._chat.facts
        if self.model.fetched is not None:
            return f"fetching {self.model.fetched * 100:.0f} %", "primary"
        load = self.model.load if self.model.load is not None else facts.load
        if load is not None:
            return f"loading {load * 100:.0f} %", "primary"
        if facts.prefill is not None:
            return f"prefill {facts.prefill * 100:.0f} %", "primary"
        if facts.waits:
            return "waits", "muted"
        if facts.summarising:
            return "summarising", "primary"
        if self.model.failed:
            return "no model", "warning"
        if facts.failed:
            return "stopped", "error"
        return ("stopped", "muted") if facts.stopped else ("", "primary")

    # ---- drafts ----------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The folder that chats work in."""
        return Path(self.start.workspace or ".").expanduser().absolute()

    def attach(self, block: Block) -> None:
        """Let a block go with the next message of this chat."""
        self._chat.attached.append(block)

    async def post(self, draft: str, blocks: Sequence[Block] | None = None) -> None:
        """Send a draft as a message. Raises FiresideError or OSError; nothing is sent then.

        `blocks` are the draft's, where its pastes may be gone by now.
        """
        await self.ready()
        chat = self._chat
        if blocks is None:
            blocks = blocks_of(draft, self.draft.folds)
        named = [path for path in mentions(draft, self.folder)]
        loading = self.model.load is not None
        require_sight(chat.attached, named, chat.manager.desk.card, chat.facts.model, loading=loading)
        attached = list(chat.attached)
        if named:
            session_id = await chat.ensure()
            for path in named:
                file = await chat.manager.files.upload(session_id, path)
                attached.append(file_block(file.id, file.name, file.bytes, file.content_type))
        await chat.send([*attached, *blocks])
        del chat.attached[: len(attached) - len(named)]

    async def _picture(self, row: PictureRow) -> Content:
        """The file of a picture on the page. FiresideError where it is gone."""
        from app.tui.story import size_words
        from app.tui.transcript.gallery import Content
        from app.tui.transcript.pictures import MOST_BYTES

        await self.ready()
        chat = self._chat
        file = await chat.manager.files.get(str(chat.id), row.file_id)
        data = None
        if file.bytes <= MOST_BYTES:
            data = await chat.manager.files.get_content(str(chat.id), row.file_id)
        return Content(file.name, size_words(file.bytes), data)

    def save_draft_soon(self) -> None:
        """Keep the draft over a crash, a moment from now: also while the person types on and on."""
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(SAVE_DRAFT_S, self._save_now)

    def _save_now(self) -> None:
        self._saving = None
        self.run_worker(self.save_draft(), exit_on_error=False, group="draft")

    @property
    def unsent(self) -> str:
        """All that is being written."""
        return self.draft.whole

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


def _load_markdown() -> None:
    """What the first reply would wait for otherwise."""
    from app.tui.transcript.markdown import warm

    warm()
