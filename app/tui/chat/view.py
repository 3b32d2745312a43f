"""What is known of one session and shown of it: its story on the page, its branches, and its errors."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from app.frontend.model_name import UNKNOWN
from app.sessions.errors import FiresideError
from app.sessions.items import ErrorItem, Item, Message, Reasoning
from app.tui.chat.facts import Facts, choices_for
from app.tui.chat.page import ChatPage
from app.tui.chat.reply import LiveReply
from app.tui.chat.story import Story, common_start
from app.tui.transcript.entries import ErrorEntry, Note
from app.tui.transcript.entry import Entry

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.tui.transcript.view import Transcript


class ChatView:
    """The page and the facts of one session. `changed` is told whenever the facts may differ."""

    def __init__(
        self,
        manager: SessionManager | None,
        transcript: Transcript,
        changed: Callable[[str], None],
        *,
        session_id: str | None = None,
        private: bool = False,
        name: str = UNKNOWN,
        prepare: Callable[[SessionManager, str], Awaitable[None]] | None = None,
    ) -> None:
        self._manager = manager
        self.page = ChatPage(transcript)
        self.private = private
        self.facts = Facts()
        self.story = Story(name)
        self.draft = ""
        """What was being written when another chat took the screen."""
        self.kept_draft = ""
        """What the store has of it."""
        self.attached: list[dict[str, Any]] = []
        """Blocks that go with the next message."""
        self.unsent: list[Entry] = []
        """Shell lines of the person whose output has not gone with a message yet."""
        self.has_older = False
        self.variant_keys = "[ ]"
        """What walks the variants, as a row tells it."""
        self._id: str | None = session_id
        self._changed = changed
        self._prepare = prepare
        self._reply: LiveReply | None = None
        self._stopped: LiveReply | None = None
        """The reply that was told to stop last."""
        self._begun_at = 0.0
        self._making = asyncio.Lock()
        self._variants: dict[str, tuple[str, ...]] = {}
        self._error: ErrorEntry | None = None
        self._fading: set[asyncio.Task[None]] = set()

    # ---- what it is ------------------------------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        """The manager that holds this chat. RuntimeError in the program's first moments."""
        if self._manager is None:
            raise RuntimeError("The chats are still being opened.")
        return self._manager

    @manager.setter
    def manager(self, manager: SessionManager) -> None:
        self._manager = manager

    @property
    def id(self) -> str | None:
        return self._id

    @property
    def title(self) -> str:
        return self.facts.title

    @property
    def busy(self) -> bool:
        return self.facts.running

    @property
    def stopping(self) -> bool:
        """Whether the reply was told to stop and has not stopped yet."""
        reply = self._reply
        return self.busy and reply is not None and not reply.ended and reply is self._stopped

    @property
    def reply(self) -> LiveReply | None:
        """What is being written."""
        return self._reply

    @property
    def took_s(self) -> float:
        """How long the last reply is being made, or was when it ends."""
        return time.monotonic() - self._begun_at

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self.story.entries

    @property
    def error(self) -> ErrorEntry | None:
        """The error that the last turn ended with."""
        return self._error

    def last_message(self, role: str) -> Message | None:
        """The last message of a role on the page."""
        for item in reversed(self.story.items.values()):
            if isinstance(item, Message) and item.role == role and not item.is_meta:
                return item
        return None

    @property
    def last_response(self) -> str | None:
        """The response that answers the last message of the person."""
        for item in reversed(self.story.items.values()):
            if isinstance(item, Message) and item.role == "user" and not item.is_meta:
                return None
            if item.response_id is not None:
                return item.response_id
        return None

    @property
    def unanswered(self) -> bool:
        """Whether the last message of the person has no reply, and none is coming."""
        reply = self._reply
        if self.busy or self._error is not None or (reply is not None and not reply.ended):
            return False
        last = next(reversed(self.story.items.values()), None)
        if not isinstance(last, Message) or self.facts.waiting:
            return False
        # A reply that was stopped before its first word, and before a thought.
        is_empty = last.interrupted and not last.text and not isinstance(self._before_last, Reasoning)
        return last.role == "user" or bool(is_empty)

    @property
    def _before_last(self) -> Item | None:
        return next(islice(reversed(self.story.items.values()), 1, None), None)

    def tick(self) -> None:
        """Time went on: the numbers of what is being written."""
        if self._reply is not None:
            self._reply.tick()
            self.facts.speed = self._reply.speed or self.facts.speed
            if self._reply.prompt_tokens:
                self.facts.context_tokens = self._reply.prompt_tokens + self._reply.tokens

    # ---- branches --------------------------------------------------------------------------

    async def _branched(self) -> None:
        """Another path is active: keep what both begin with, tell the rest anew."""
        assert self._id is not None
        snapshot = await self.manager.get(self._id)
        shown = [entry.id for entry in self.story.entries[:1]]
        fresh = Story(self.story.name)
        fresh.tell(snapshot.items)
        if self.has_older and shown != [entry.id for entry in fresh.entries[:1]]:
            older = self._before(fresh)
            if older is None:
                self.has_older = snapshot.has_more_items
                self._reset(fresh, 0)
                return
            fresh = older
        self._reset(fresh, common_start(self.story, fresh))

    def _before(self, fresh: Story) -> Story | None:
        """`fresh` with what is shown above its first entry; None where it does not meet the page."""
        first = fresh.entries[0].id if fresh.entries else ""
        place = next((at for at, entry in enumerate(self.story.entries) if entry.id == first and first), None)
        if place is None:
            return None
        kept = self.story.entries[:place]
        joined = Story(self.story.name, [*kept, *fresh.entries])
        ids = {entry.id for entry in kept}
        joined.items = {key: item for key, item in self.story.items.items() if key in ids} | fresh.items
        joined.calls = {**self.story.calls, **fresh.calls}
        joined.names = {**self.story.names, **fresh.names}
        return joined

    def _reset(self, fresh: Story, same: int) -> None:
        """Show `fresh`, whose first `same` entries are on the page already."""
        kept = self.story.entries[:same]
        gone = self.story.entries[same:]
        for old, new in zip(kept, fresh.entries[:same], strict=True):
            for response_id, row in fresh.names.items():
                if row is new:
                    fresh.names[response_id] = cast("Any", old)
            for call_id, call in fresh.calls.items():
                if call is new:
                    fresh.calls[call_id] = cast("Any", old)
        fresh.entries[:same] = kept
        for entry in reversed(gone):
            self.page.discard(entry)
        for entry in fresh.entries[same:]:
            self.page.add(entry)
        for entry in gone:
            if any(entry is one for one in self.unsent):
                fresh.entries.append(entry)
                self.page.add(entry)
        self.story = fresh
        self.facts.context_tokens = None
        self._reply = None
        self._error = None
        self._spawn(self._count_variants())
        self._changed("branched")

    async def _count_variants(self) -> None:
        """Tell beside the last name how many variants there are."""
        last = self.last_response
        row = self.story.names.get(last) if last else None
        if row is None:
            return
        with contextlib.suppress(FiresideError):
            others = await self.variants()
            place = next((index for index, one in enumerate(others) if one["active"]), 0)
            variant = (place + 1, len(others)) if others else None
            if variant != row.variant:
                row.variant, row.variant_keys = variant, self.variant_keys
                self.page.changed(row)

    async def variants(self, item: Item | None = None) -> Sequence[Mapping[str, Any]]:
        """The variants of a message of the person, else of the last reply, else of what that answers.

        As `siblings` tells them; none where there is only one.
        """
        last = self.last_response
        reply = next((one for one in self.story.items.values() if last and one.response_id == last), None)
        for one in (item,) if item is not None else (reply, self.last_message("user")):
            if one is not None and len(others := await self.manager.siblings(one.id)) > 1:
                return others
        return ()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._fading.add(task)
        task.add_done_callback(self._fading.discard)

    # ---- notes and errors ------------------------------------------------------------------

    def add_note(self, text: str, *, lost: bool = False) -> None:
        """A line across the page. It is not part of the conversation."""
        note = Note(text, lost=lost)
        self.story.entries.append(note)
        self.page.add(note)

    def add_entry(self, entry: Entry) -> None:
        """Show something that is not part of the conversation."""
        self.story.entries.append(entry)
        self.page.add(entry)

    def _failed(self, item: ErrorItem) -> None:
        """Why a turn failed, as it is stored; it is told once, also where its status says so too."""
        self.story.items[item.id] = item
        if self._error is None:
            self._fail(item.message, item.remediation or "", item.code)
        if self._error is not None:
            self._error.id = item.id

    def _fail(self, message: str, remedy: str = "", code: str = "") -> None:
        """The turn failed: what happened, what is safe, what can be done."""
        self._dismiss_error()
        sentence, _, cause = message.partition("\n")
        safe = "Your message and what was written of the reply are saved."
        error = ErrorEntry(sentence, cause, safe=safe, remedy=remedy, choices=choices_for(code))
        self._error = error
        self.facts.failed = True
        self.story.entries.append(error)
        self.page.add(error)
        self._changed("failed")

    def _dismiss_error(self) -> None:
        """What can be done about the last error is no longer offered."""
        if self._error is not None:
            self._error.choices, self._error.chosen = (), None
            self.page.changed(self._error)
            self._error = None
