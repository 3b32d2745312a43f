"""Follows one session: every event becomes a change of its page, or of what is known of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from app.sessions.errors import FiresideError
from app.sessions.items import ErrorItem, FunctionCall, Item, Message, Reasoning, item_from_wire
from app.tui.chat_facts import Facts, choices_for
from app.tui.chat_page import ChatPage
from app.tui.model_state import UNKNOWN
from app.tui.reply import Reply
from app.tui.story import Story, common_start
from app.tui.transcript.entries import ErrorEntry, Note
from app.tui.transcript.entry import Entry
from app.tui.widgets.question import Question

if TYPE_CHECKING:
    from app.sessions.events import (
        ElicitationRequestEvent,
        ResponseEvent,
        SessionEvent,
        SessionInputConsumedEvent,
        SessionStatusEvent,
    )
    from app.sessions.manager import SessionManager
    from app.tui.transcript.view import Transcript

logger = logging.getLogger("fireside")

BEHIND = "subscriber_behind"


class Following:
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
        self.has_older = False
        self.variant_keys = "[ ]"
        """What walks the variants, as a row tells it."""
        self._id: str | None = session_id
        self._changed = changed
        self._prepare = prepare
        self._reply: Reply | None = None
        self._stopped: Reply | None = None
        """The reply that was told to stop last."""
        self._is_torn = False
        self._begun_at = 0.0
        self._follow: asyncio.Task[None] | None = None
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
    def reply(self) -> Reply | None:
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

    # ---- events ----------------------------------------------------------------------------

    async def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            missed = False
            while True:
                try:
                    await self._listen(missed)
                    return
                except FiresideError as err:
                    # While the program stood still, in an editor or in the background, too much came.
                    missed = err.code == BEHIND
                    if not missed:
                        self._fail(err.message, err.remedy)
                        return

    async def _listen(self, missed: bool) -> None:
        """Take events until the session closes. `missed`: read first what became of the session."""
        assert self._id is not None
        async with aclosing(self.manager.stream(self._id)) as events:
            async for event in events:
                try:
                    if missed:
                        missed = False
                        await self._read_anew(self._id)
                    await self._take(event)
                except FiresideError as err:
                    self._fail(err.message, err.remedy)
                except Exception as err:  # One event that cannot be shown must not end the chat.
                    logger.exception("an event could not be shown")
                    self._fail(f"Something could not be shown: {type(err).__name__}: {err}")

    async def _read_anew(self, session_id: str) -> None:
        """Events were missed: tell everything from the store."""
        snapshot = await self.manager.get(session_id)
        facts, was_running = self.facts, self.facts.running
        facts.status, facts.title = snapshot.status, snapshot.title or ""
        facts.waits, facts.prefill, facts.load = False, None, None
        facts.questions = [Question.of(session_id, event) for event in snapshot.pending_elicitations]
        self._take_queue(snapshot.pending_inputs)
        fresh = Story(self.story.name)
        fresh.tell(snapshot.items)
        self.has_older = snapshot.has_more_items
        self._reset(fresh, 0)
        # What is being written has lost its beginning; it is told whole when it is complete.
        self._is_torn = facts.running
        if was_running and not facts.running:
            self._changed("ended")
        self._changed("status")

    async def _take(self, event: SessionEvent) -> None:
        from app.sessions import events

        if self._take_reply(event) or self._take_facts(event):
            return
        match event:
            case events.SessionInputConsumedEvent():
                self._consumed(event)
            case events.SessionBranchEvent():
                await self._branched()
            case events.SessionStatusEvent():
                await self._status(event)
            case events.ResponseCreatedEvent(response=response):
                self._begin(response.id)
            case events.ResponseEvent() if isinstance(event, events.TERMINAL_TYPES):
                self._ended(event)
            case events.OutputItemDoneEvent(item=item):
                self._item(item)
            case events.ElicitationRequestEvent():
                self._asked(event)
            case events.ElicitationResolvedEvent(elicitation_id=elicitation_id):
                self._resolved(elicitation_id)
            case events.ResponseErrorEvent(error=error):
                self._fail(
                    str(error.get("message")), str(error.get("remediation") or ""), str(error.get("code"))
                )
            case _:
                self._take_note(event)

    def _take_note(self, event: SessionEvent) -> None:
        """Events that a line across the page tells of."""
        from app.sessions import events

        match event:
            case events.CompactionFailedEvent(error=error):
                self.facts.summarising = False
                self.add_note(str((error or {}).get("message", "Nothing was summarised.")))
            case events.SessionNoticeEvent(message=message):
                self.add_note(message, lost=True)
            case _:
                pass

    def _take_reply(self, event: SessionEvent) -> bool:
        """The many small events of a reply."""
        from app.sessions import events

        match event:
            case events.OutputTextDeltaEvent(delta=delta, message_id=message_id):
                reply = self._begin(None)
                if reply.takes(message_id):
                    reply.write(delta)
                    self.facts.prefill = self.facts.load = None
            case events.ReasoningTextDeltaEvent(delta=delta, message_id=message_id, held=held):
                reply = self._begin(None)
                if not held and reply.takes(message_id):
                    reply.think(delta)
                    self.facts.prefill = self.facts.load = None
            case events.FunctionCallArgumentsDeltaEvent(delta=delta, index=index, name=name):
                self._begin(None).write_call(index, name, delta)
                self.facts.prefill = self.facts.load = None
            case events.FunctionCallOutputDeltaEvent(call_id=call_id, delta=delta):
                self._begin(None).show_output(call_id, delta)
            case events.SessionPrefillEvent(done=done, total=total, reused=reused):
                reply = self._begin(None)
                if reply.tokens == 0 or total - reused > 64:
                    reply.show_prefill(done, total, reused)
                self.facts.prefill, self.facts.load = reply.prefill, None
                reply.prompt_tokens = total
                self._changed("prefill")
            case events.SessionModelLoadEvent(fraction=fraction):
                self.facts.load = fraction if fraction < 1 else None
                self._begin(None).show_loading(fraction)
                self._changed("load")
            case _:
                return False
        return True

    def _take_facts(self, event: SessionEvent) -> bool:
        """Events that change nothing of the page."""
        from app.sessions import events

        facts = self.facts
        match event:
            case events.SessionUsageEvent(context_tokens=tokens, context_window=window):
                facts.context_tokens = tokens
                facts.context_window = window or facts.context_window
            case events.SessionSpeedEvent():
                facts.speed = event.tokens_per_second or None
                facts.first_s = event.time_to_first_token_s
                facts.reused = event.reused_tokens
            case events.SessionTitleEvent(title=title):
                facts.title = title or ""
            case events.SessionQueueEvent(inputs=inputs):
                self._take_queue(inputs)
            case events.SessionSettingsEvent(settings=settings):
                facts.approve = str(
                    cast("Mapping[str, Any]", settings.get("approve", {})).get("value", "ask")
                )
            case events.SessionModelEvent(model=model):
                facts.model = model
            case events.ResponseQueuedEvent():
                facts.waits = True
            case events.CompactionInProgressEvent():
                facts.summarising = True
            case events.CompactionCompletedEvent():
                facts.summarising = False
            case _:
                return False
        self._changed("facts")
        return True

    def _begin(self, response_id: str | None) -> Reply:
        if self._reply is None or self._reply.ended:
            self._reply = Reply(self.page, self.story)
            self._begun_at = time.monotonic()
            self.facts.stopped = self.facts.failed = False
        reply = self._reply
        if response_id is not None and reply.response_id is None:
            reply.response_id = response_id
        return reply

    def _consumed(self, event: SessionInputConsumedEvent) -> None:
        item = item_from_wire({**event.data, "type": event.type_})
        reply = self._begin(event.response_id)
        reply.take(item)
        if event.response_id is not None:
            reply.begin(event.response_id)
        self._changed("consumed")

    async def _status(self, event: SessionStatusEvent) -> None:
        facts, before = self.facts, self.facts.running
        facts.status = event.status
        if facts.running:
            facts.waits = False
            if not before or self._reply is None or self._reply.ended:
                self._begin(event.response_id)
        else:
            facts.prefill = facts.load = None
            facts.waits = False
            if event.status == "failed" and event.error is not None and self._error is None:
                error = event.error
                self._fail(
                    str(error.get("message")), str(error.get("remediation") or ""), str(error.get("code"))
                )
            if self._reply is not None and not self._reply.ended:
                self._reply.end("failed" if event.status == "failed" else "completed", (), None)
            if before:
                if self._is_torn:
                    self._is_torn = False
                    await self._read_anew(str(self._id))
                await self._count_variants()
                self._changed("ended")
        self._changed("status")

    def _ended(self, event: ResponseEvent) -> None:
        response = event.response
        reply = self._reply
        if reply is None or (reply.response_id not in (None, response.id)):
            return
        reply.end(response.status, tuple(response.output), self.facts.speed)
        self.facts.prefill = self.facts.load = None
        self.facts.stopped = response.status == "cancelled"
        self.facts.failed = response.status == "failed"
        if response.incomplete_details and response.incomplete_details.get("reason") == "max_rounds":
            self.add_note("the number of rounds for calls is used up")

    def _item(self, item: Item) -> None:
        reply = self._reply
        if item.id in self.story.items:
            return
        if isinstance(item, ErrorItem):
            self._failed(item)
        elif reply is not None and not reply.ended:
            if item.response_id in (None, reply.response_id) or reply.response_id is None:
                reply.take(item)
        else:
            for entry in self.story.tell([item]):
                self.page.add(entry)
        if isinstance(item, FunctionCall) and item.status == "action_required":
            self._changed("client call")

    def _asked(self, event: ElicitationRequestEvent) -> None:
        assert self._id is not None
        question = Question.of(self._id, event.to_wire())
        self.facts.questions.append(question)
        call_id = event.params.get("call_id")
        if self._reply is not None and isinstance(call_id, str):
            self._reply.set_asking(call_id, True)
        self._changed("asked")

    def _resolved(self, elicitation_id: str) -> None:
        answered = next((one for one in self.facts.questions if one.id == elicitation_id), None)
        self.facts.questions = [one for one in self.facts.questions if one.id != elicitation_id]
        if self._reply is not None and answered is not None:
            self._reply.set_asking(answered.call_id, False, answered.diff)
        self._changed("resolved")

    def _take_queue(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        waiting: list[tuple[str, str]] = []
        contents: dict[str, Sequence[Mapping[str, Any]]] = {}
        for wire in inputs:
            item = item_from_wire(wire)
            if isinstance(item, Message):
                texts = [str(block.get("label") or block.get("text") or "") for block in item.content]
                waiting.append((item.id, "".join(texts)))
                contents[item.id] = item.content
        self.facts.waiting, self.facts.contents = waiting, contents

    # ---- branches --------------------------------------------------------------------------

    async def _branched(self) -> None:
        """Another path is active: keep what both begin with, tell the rest anew."""
        assert self._id is not None
        snapshot = await self.manager.get(self._id)
        shown = [entry.id for entry in self.story.entries]
        fresh = Story(self.story.name)
        fresh.tell(snapshot.items)
        if self.has_older and shown[:1] != [entry.id for entry in fresh.entries[:1]]:
            older = self._before(fresh)
            if older is None:
                self.has_older = snapshot.has_more_items
                self._reset(fresh, 0)
                return
            fresh = older
        same = common_start(shown, [entry.id for entry in fresh.entries])
        self._reset(fresh, same)

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
        self.story = fresh
        self._reply = None
        self._error = None
        self._spawn(self._count_variants())
        self._changed("branched")

    async def _count_variants(self) -> None:
        """Tell beside the last name how many variants there are."""
        last = self.last_response
        row = self.story.names.get(last) if last else None
        item = next((one for one in self.story.items.values() if last and one.response_id == last), None)
        if row is None or item is None:
            return
        with contextlib.suppress(FiresideError):
            others = await self.manager.siblings(item.id)
            place = next((index for index, one in enumerate(others) if one["active"]), 0)
            variant = (place + 1, len(others)) if len(others) > 1 else None
            if variant != row.variant:
                row.variant, row.variant_keys = variant, self.variant_keys
                self.page.changed(row)

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
