"""What is known of one session and shown of it: its story on the page, and its errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from app.frontend.model_name import UNKNOWN
from app.frontend.question import Question
from app.sessions.items import ErrorItem, FunctionCallOutput, Item, Message, Reasoning
from app.terminal.figures import short_count
from app.tui.chat.facts import Facts, choices_for
from app.tui.chat.page import ChatPage
from app.tui.chat.reply import LiveReply
from app.tui.chat.story import Story, common_start
from app.tui.transcript.entries import ErrorEntry, Note
from app.tui.transcript.entry import Entry

if TYPE_CHECKING:
    from app.sessions.snapshot import SessionSnapshot
    from app.tui.transcript.view import Transcript


class ChatView:
    """The page and the facts of one session. `changed` is told whenever the facts may differ."""

    def __init__(self, transcript: Transcript, changed: Callable[[str], None], name: str = UNKNOWN) -> None:
        self.page = ChatPage(transcript)
        self.facts = Facts()
        self.story = Story(name)
        self.unsent: list[Entry] = []
        """Shell lines of the person whose output has not gone with a message yet."""
        self.has_older = False
        self.variant_keys = "[ ]"
        """What walks the variants, as a row tells it."""
        self.reply: LiveReply | None = None
        """What is being written, or was last."""
        self.error: ErrorEntry | None = None
        """The error that the last turn ended with."""
        self._changed = changed
        self._stopped: LiveReply | None = None
        """The reply that was told to stop last."""
        self._begun_at = 0.0

    # ---- what it is ------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a reply is being written."""
        return self.facts.running

    @property
    def stopping(self) -> bool:
        """Whether the reply was told to stop and has not stopped yet."""
        reply = self.reply
        return self.busy and reply is not None and not reply.ended and reply is self._stopped

    @property
    def took_s(self) -> float:
        """How long the last reply is being made, or was when it ends."""
        return time.monotonic() - self._begun_at

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self.story.entries

    def last_message(self, role: str) -> Message | None:
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
        reply = self.reply
        if self.busy or self.error is not None or (reply is not None and not reply.ended):
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
        if self.reply is not None:
            self.reply.tick()
            self.facts.speed = self.reply.speed or self.facts.speed
            if self.reply.prompt_tokens:
                self.facts.context_tokens = self.reply.prompt_tokens + self.reply.tokens

    # ---- what is shown of it ---------------------------------------------------------------

    def read(self, snapshot: SessionSnapshot) -> None:
        """Take what the store knows of the session beside its items."""
        facts = self.facts
        facts.status, facts.title = snapshot.status, snapshot.title or ""
        facts.questions = [
            Question.of(snapshot.id, one.elicitation_id, one.params) for one in snapshot.pending_elicitations
        ]
        facts.take_queue(snapshot.pending_inputs)
        self.has_older = snapshot.has_more_items

    def tell(self, items: Sequence[Item]) -> None:
        """Show these items and nothing else."""
        self.story = Story(self.story.name)
        self.story.tell(items)
        self.page.replace(self.story.entries)

    def tell_above(self, items: Sequence[Item]) -> int:
        """Put older items above; how many entries came."""
        older = Story(self.story.name)
        older.tell(items)
        self.story.entries[:0] = older.entries
        self.story.items = {**older.items, **self.story.items}
        self.story.calls = {**older.calls, **self.story.calls}
        self.story.names = {**older.names, **self.story.names}
        self.page.replace(self.story.entries, keep_place=True)
        return len(older.entries)

    def tell_branch(self, snapshot: SessionSnapshot) -> None:
        """Another path is active: keep what both begin with, tell the rest anew."""
        shown = [entry.id for entry in self.story.entries[:1]]
        fresh = Story(self.story.name)
        fresh.tell(snapshot.items)
        if self.has_older and shown != [entry.id for entry in fresh.entries[:1]]:
            older = self._joined(fresh)
            if older is None:
                self.has_older = snapshot.has_more_items
                self._reset(fresh, 0)
                return
            fresh = older
        self._reset(fresh, common_start(self.story, fresh))

    def tell_anew(self, items: Sequence[Item]) -> None:
        """Show these items, and behind them what has not gone with a message yet."""
        fresh = Story(self.story.name)
        fresh.tell(items)
        self._reset(fresh, 0)

    def begin_reply(self, response_id: str | None) -> LiveReply:
        """The reply that is being written; a new one where the last has ended."""
        if self.reply is None or self.reply.ended:
            self.reply = LiveReply(self.page, self.story)
            self._begun_at = time.monotonic()
            self.facts.stopped = self.facts.failed = False
        if response_id is not None and self.reply.response_id is None:
            self.reply.response_id = response_id
        return self.reply

    def told_to_stop(self) -> None:
        """The reply was told to stop."""
        self._stopped = self.reply

    def reveal(self, item_id: str, query: str = "") -> None:
        """Scroll to an item, with `query` marked in it."""
        item = self.story.items.get(item_id)
        call = self.story.calls.get(item.call_id) if isinstance(item, FunctionCallOutput) else None
        entry = call or next((one for one in self.story.entries if one.id == item_id), None)
        if entry is None:
            return
        if not query or not self.page.transcript.find(query, near=entry, words=True):
            self.page.transcript.jump_to(entry)

    def item_of(self, entry: Entry) -> Item | None:
        return self.story.items.get(entry.id)

    def _joined(self, fresh: Story) -> Story | None:
        """`fresh` with what is shown above its first entry; None where it does not meet the page."""
        first = fresh.entries[0].id if fresh.entries else ""
        place = next((at for at, entry in enumerate(self.story.entries) if entry.id == first and first), None)
        if place is None:
            return None
        kept = self.story.entries[:place]
        whole = Story(self.story.name, [*kept, *fresh.entries])
        ids = {entry.id for entry in kept}
        whole.items = {key: item for key, item in self.story.items.items() if key in ids} | fresh.items
        whole.calls = {**self.story.calls, **fresh.calls}
        whole.names = {**self.story.names, **fresh.names}
        return whole

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
        self.reply = None
        self.error = None
        self._changed("branched")

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

    def failed(self, item: ErrorItem) -> None:
        """Why a turn failed, as it is stored; it is told once, also where its status says so too."""
        self.story.items[item.id] = item
        if self.error is None:
            self.fail(item.message, item.remediation or "", item.code)
        if self.error is not None:
            self.error.id = item.id

    def fail(self, message: str, remedy: str = "", code: str = "") -> None:
        """The turn failed: what happened, what is safe, what can be done."""
        self.dismiss_error()
        sentence, _, cause = message.partition("\n")
        safe = "Your message and what was written of the reply are saved."
        error = ErrorEntry(sentence, cause, safe=safe, remedy=remedy, choices=choices_for(code))
        self.error = error
        self.facts.failed = True
        self.story.entries.append(error)
        self.page.add(error)
        self._changed("failed")

    def dismiss_error(self) -> None:
        """What can be done about the last error is no longer offered."""
        if self.error is not None:
            self.error.choices, self.error.chosen = (), None
            self.page.changed(self.error)
            self.error = None

    # ---- the model --------------------------------------------------------------------------

    def show_loading(self, fraction: float) -> None:
        """The model that a waiting reply needs is being loaded."""
        if self.facts.running and self.reply is not None and not self.reply.tokens:
            self.reply.show_loading(fraction)

    def model_loaded(self, name: str, window: int | None, *, changed: bool) -> None:
        """Another model answers from now on."""
        if self.facts.model is None:
            if changed:
                self.facts.context_tokens = None  # each model counts in its own way
            self.story.name = name
            self.facts.context_window = window or self.facts.context_window
        if self.reply is not None and not self.reply.ended and self.reply.name is not None:
            if not self.reply.tokens:
                self.reply.name.name = name
                self.reply.end_progress()
                self.page.changed(self.reply.name)
        elif changed and self.story.entries:
            size = f", context {short_count(window)}" if window else ""
            self.add_note(f"model changed to {name}{size}")
        elif self.story.entries and not changed:
            self.rename(name)

    def rename(self, name: str) -> None:
        """Tell the name of who answers beside the replies that were shown before it was known."""
        for row in self.story.names.values():
            if row.name == UNKNOWN:
                row.name = name
                self.page.changed(row)
