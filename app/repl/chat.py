"""The chat that is open line by line: made, opened, followed, sent to, and left as it should be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.frontend.draft import file_block
from app.frontend.draft_keeper import DraftKeeper
from app.frontend.find_chat import chosen, unsaid
from app.frontend.follow import follow
from app.frontend.private_chats import PrivateChats
from app.frontend.question import Question
from app.frontend.start import Start, configure, make_manager, open_manager
from app.repl.console import Console
from app.repl.narrator import Narrator
from app.repl.page import ReplPage
from app.sessions.errors import FiresideError
from app.sessions.events import ResponseCreatedEvent
from app.sessions.inputs import posted_message

if TYPE_CHECKING:
    from app.sessions.events import SessionEvent
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSnapshot


CLOSED = "the private chat is closed; nothing of it was saved"
REPLAYED = 60
"""Items that are shown of a chat that is opened."""


class ReplChat:
    """One chat at a time, told on a page. `name` gives the model's name."""

    def __init__(
        self, start: Start, console: Console, page: ReplPage, name: Callable[[], str], *, echoes: bool
    ) -> None:
        self.start = start
        self.console = console
        self.page = page
        self.is_private = start.private
        self.attached: list[dict[str, Any]] = []
        """Blocks that go with the next message."""
        self._put_by: dict[tuple[bool, str | None], list[dict[str, Any]]] = {}
        """Those of other chats, by whether a chat is private, and its id."""
        self.changed: Callable[[], None] = lambda: None
        """Called when a turn or a question begins or ends."""
        self._name = name
        self._echoes = echoes
        self._manager: SessionManager | None = None
        self._private = PrivateChats(start)
        self._session_id: str | None = None
        self._draft = ""
        self._keeper = DraftKeeper(lambda: self._spawn(self._save_draft()))
        self._making = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._follower: asyncio.Task[None] | None = None
        self.narrator = self._narrator("")

    @property
    def manager(self) -> SessionManager:
        """The one that holds this chat: private chats have one of their own."""
        found = self._private.manager if self.is_private else self._manager
        assert found is not None, "the chats are not open yet"
        return found

    @property
    def kept(self) -> SessionManager:
        """The one of chats that are kept."""
        assert self._manager is not None, "the chats are not open yet"
        return self._manager

    @property
    def is_open(self) -> bool:
        """Whether the manager is there."""
        return self._manager is not None and (self._private.manager is not None or not self.is_private)

    @property
    def session_id(self) -> str | None:
        """Of the open chat; None before its first message."""
        return self._session_id

    # ---- opening and closing ---------------------------------------------------------------

    async def open(self) -> None:
        """Make the manager, and open the chat that was chosen. Raises what fails."""
        manager = await open_manager(self.start, make_manager, self._hold)
        if self.start.private:
            await self._private.open(manager)
        for notice in self.start.notices:
            self.page.news(notice)
        session_id = await chosen(self.manager, self.start)
        if session_id is None and self.start.resume is None and not (self.is_private or self.console.piped):
            session_id = await unsaid(manager)
        if session_id is not None:
            await self.open_session(session_id)

    def _hold(self, manager: SessionManager) -> None:
        self._manager = manager

    async def close(self) -> None:
        """Stop what runs, keep what was said, free the model."""
        if self._manager is not None:
            await self._settle_draft()
        await self._stop_following()
        if await self._private.close():
            with contextlib.suppress(OSError):  # The terminal may be gone.
                self.page.note(CLOSED)
        if self._manager is not None:
            self.attached.clear()
            await self._drop_empty()
            await self._manager.aclose()

    async def _drop_empty(self) -> None:
        """A chat in which nothing was said and nothing is being written leaves nothing behind."""
        if self._session_id is None or self.is_private or self.attached or self._draft.strip():
            return
        with contextlib.suppress(FiresideError):
            snapshot = await self.manager.get(self._session_id)
            if not snapshot.items and not snapshot.pending_inputs:
                await self.manager.delete(self._session_id)
                self._session_id = None

    # ---- one chat --------------------------------------------------------------------------

    async def session(self) -> str:
        """The open chat's id; makes the chat where there is none yet."""
        async with self._making:  # Its draft may be kept at the moment it is sent.
            if self._session_id is None:
                made = await self.manager.create()
                await self._configure(self.manager, made.id, is_new=True)
                await self._follow(made.id)
        assert self._session_id is not None
        return self._session_id

    async def _configure(self, manager: SessionManager, session_id: str, *, is_new: bool) -> None:
        overflow = "error" if self.console.piped else None
        await configure(manager, session_id, self.start, is_new=is_new, overflow=overflow)
        # A chat that is open elsewhere is refused here, not when something was written for it.
        await manager.configure(session_id)

    async def open_session(self, session_id: str) -> None:
        """Leave this chat for another and show it."""
        if session_id == self._session_id:
            self.page.news("You are in this chat already.")
            return
        manager, private = await self._private.holder(session_id, self.kept)
        snapshot = await manager.get(session_id)
        await self._configure(manager, session_id, is_new=False)
        await self._leave()
        if self.is_private and not private:
            await self._stop_following()
            await self._close_private([one.id for one in await self._private.list()])
        self._attach_to(session_id, private=private)
        self.is_private = private
        self._replay(snapshot)
        await self._follow(session_id, snapshot)

    async def new_session(self, *, private: bool = False) -> None:
        """Leave this chat for a new one."""
        if private:
            await self._private.open(self.kept)
        await self._leave()
        await self._stop_following()
        if self.is_private:
            # Another private chat may be a copy of this one: that is still found from a private one.
            own = [] if self._session_id is None else [self._session_id]
            await self._close_private(own if private else [one.id for one in await self._private.list()])
        self._attach_to(None, private=private)
        self._session_id = None
        self.is_private = private
        self.narrator = self._narrator("")
        if not private:
            self.page.note("a new chat")

    async def _leave(self) -> None:
        """Another chat comes: this one says no more, and its draft is stored as it is now."""
        await self._stop_following()
        self.narrator.leave()
        await self._settle_draft()
        await self._drop_empty()

    async def _close_private(self, ids: Sequence[str]) -> None:
        """Private chats are left, and nothing leads back to them."""
        failures = await self._private.forget(ids)
        for err in failures:
            self.page.news(f"{err.message} {err.remedy}".strip(), error=True)
        for session_id in ids:
            self._put_by.pop((True, session_id), None)
            if session_id == self._session_id:
                self._session_id = None
                self.attached = []
        if ids and not failures:
            self.page.note(CLOSED)

    def _attach_to(self, session_id: str | None, *, private: bool) -> None:
        """What is attached stays with its chat: a file is known there only, and may be private."""
        self._put_by[self.is_private, self._session_id] = self.attached
        self.attached = self._put_by.pop((private, session_id), [])

    async def send(self, message: Sequence[Mapping[str, Any]], files: Sequence[Path]) -> None:
        """Post a message with these files and what is attached."""
        session_id = await self.session()
        blocks: list[dict[str, Any]] = list(self.attached)
        for path in files:
            blocks.append(await self._upload(session_id, path))
        blocks += [dict(block) for block in message]
        self.narrator.expect()
        try:
            await self.manager.post(session_id, posted_message(blocks))
        except FiresideError:
            self.narrator.settled = True
            raise
        self.attached.clear()

    def keep_draft(self, text: str) -> None:
        """Keep what is being written over a crash, a moment after the last key."""
        self._draft = text
        if self.is_open and (self._session_id is not None or self._begins_a_chat):
            self._keeper.changed()

    @property
    def _begins_a_chat(self) -> bool:
        """Whether what is being written is worth a chat before it is sent: a private one keeps nothing, and
        a command or a shell line is no message."""
        return not self.is_private and bool(self._draft.strip()) and self._draft.lstrip()[0] not in "/!"

    async def _save_draft(self) -> None:
        with contextlib.suppress(FiresideError, OSError):
            if self._session_id is not None or self._begins_a_chat:
                await self.manager.set_draft(await self.session(), self._draft)

    async def _settle_draft(self) -> None:
        """Have the draft stored as it is now."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._keeper.stop():
            await self._save_draft()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _upload(self, session_id: str, path: Path) -> dict[str, Any]:
        file = await self.manager.files.upload(session_id, path)
        return file_block(file.id, file.name, file.bytes, file.content_type)

    async def interrupt(self) -> None:
        """Stop the reply that is being written."""
        if self._session_id is not None:
            await self.manager.interrupt(self._session_id)

    async def notice_turn(self) -> None:
        """Learn whether a command began a turn, before its first event comes."""
        if self._session_id is not None:
            snapshot = await self.manager.get(self._session_id, include_items=False)
            if snapshot.status == "running" and self.narrator.session_id == snapshot.id:
                self.narrator.expect()

    async def resolve(self, question: Question, result: Mapping[str, Any]) -> None:
        """Hand on the answer to a question, unless it was answered meanwhile."""
        if all(one.id != question.id for one in self.narrator.questions):
            return
        self.narrator.drop(question.id)
        await self.manager.resolve_elicitation(question.session_id, question.id, result)

    # ---- following -------------------------------------------------------------------------

    def _narrator(self, session_id: str) -> Narrator:
        return Narrator(
            self.page,
            session_id,
            self._name,
            lambda: self.changed(),
            echoes=self._echoes,
            hints=not self.console.piped,
            aside=self._aside,
            private=self.is_private,
        )

    def _aside(self) -> str:
        return "send or clear your draft, then answer; tab answers at once" if self.console.draft else ""

    def _replay(self, snapshot: SessionSnapshot) -> None:
        items = list(snapshot.items)
        if len(items) > REPLAYED or snapshot.has_more_items:
            self.page.note("older messages are not shown; /export writes all of them")
        self.narrator = self._narrator(snapshot.id)
        self.narrator.replay(items[-REPLAYED:])
        self._draft = snapshot.draft
        if snapshot.draft:
            self.console.insert(snapshot.draft)

    async def _follow(self, session_id: str, snapshot: SessionSnapshot | None = None) -> None:
        await self._stop_following()
        self._session_id = session_id
        if snapshot is None:
            self.narrator = self._narrator(session_id)
        narrator, manager, first = self.narrator, self.manager, asyncio.Event()

        async def take(event: SessionEvent) -> None:
            if not first.is_set():
                first.set()
                if snapshot is not None:
                    narrator.busy = snapshot.status == "running"
                    for pending in snapshot.pending_elicitations:
                        narrator.reopen(pending)
            if isinstance(event, ResponseCreatedEvent) and narrator.is_anew:
                await self._count_variants(narrator, event.response.id)
            narrator.take(event)

        async def missed() -> None:
            narrator.catch_up(await manager.get(session_id))

        def failed(message: str, remedy: str) -> None:
            self.page.news(f"{message} {remedy}".strip(), error=True)

        following = follow(manager, session_id, take, missed=missed, failed=failed)
        self._follower = asyncio.create_task(following)
        # From the first event on nothing is missed.
        waiting = asyncio.create_task(first.wait())
        await asyncio.wait((self._follower, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def _count_variants(self, narrator: Narrator, response_id: str) -> None:
        """The last message is answered anew: say which of its answers comes."""
        narrator.is_anew = False
        if narrator.answer_id is None:
            return
        with contextlib.suppress(FiresideError):
            answers = await self.manager.siblings(narrator.answer_id)
            number = 1 + sum(answer["response_id"] != response_id for answer in answers)
            narrator.variant = f"variant {number} of {number}"

    async def _stop_following(self) -> None:
        task, self._follower = self._follower, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
