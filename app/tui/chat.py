"""One open chat: follows its session's events, keeps its page and what the status bar tells of it.

Decides nothing about conversations; every wish goes to the session manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from app.sessions.errors import FiresideError
from app.sessions.events import (
    TERMINAL_TYPES,
    CompactionCompletedEvent,
    CompactionFailedEvent,
    CompactionInProgressEvent,
    ElicitationRequestEvent,
    ElicitationResolvedEvent,
    FunctionCallArgumentsDeltaEvent,
    FunctionCallOutputDeltaEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    ReasoningTextDeltaEvent,
    ResponseCreatedEvent,
    ResponseErrorEvent,
    ResponseEvent,
    ResponseQueuedEvent,
    SessionBranchEvent,
    SessionEvent,
    SessionInputConsumedEvent,
    SessionModelEvent,
    SessionModelLoadEvent,
    SessionPrefillEvent,
    SessionQueueEvent,
    SessionSettingsEvent,
    SessionSpeedEvent,
    SessionStatusEvent,
    SessionTitleEvent,
    SessionUsageEvent,
)
from app.sessions.items import FunctionCall, Item, Message, item_from_wire
from app.tui.chat_page import ChatPage
from app.tui.reply import Reply
from app.tui.story import Story, common_start
from app.tui.transcript.entries import Choice, ErrorEntry, Note
from app.tui.transcript.entry import Entry
from app.tui.widgets.question import Question
from app.tui.widgets.status import short_count

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.tui.transcript.view import Transcript

logger = logging.getLogger("fireside")

OLDER_ITEMS = 200
UNKNOWN = "model"
"""Who answers, before a model is there."""
BUSY = ("running", "launching")


@dataclass
class Facts:
    """What is known of a chat beside its page."""

    title: str = ""
    status: str = "idle"
    waits: bool = False
    load: float | None = None
    prefill: float | None = None
    speed: float | None = None
    first_s: float | None = None
    reused: int | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    approve: str = "ask"
    model: str | None = None
    """A model of its own, in place of the loaded one."""
    unread: bool = False
    failed: bool = False
    stopped: bool = False
    summarising: bool = False
    questions: list[Question] = field(default_factory=list[Question])
    waiting: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def running(self) -> bool:
        """Whether a reply is being made."""
        return self.status in BUSY

    @property
    def pace(self) -> str:
        """How far or how fast what is made goes, in a word for the chats pane."""
        if self.prefill is not None:
            return f"{self.prefill * 100:.0f} %"
        return f"{self.speed:.0f} t/s" if self.speed else "..."

    @property
    def asking(self) -> int:
        """Open questions."""
        return len(self.questions)


class Chat:
    """A chat on one transcript. `changed` is told whenever its facts may differ.

    `session_id` is None for a chat that has no message yet; `ensure` makes its session, and `prepare`
    gives it the settings it begins with.
    """

    def __init__(
        self,
        manager: SessionManager | None,
        transcript: Transcript,
        changed: Callable[[Chat, str], None],
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
        self.has_older = False
        self._id = session_id
        self._changed = changed
        self._prepare = prepare
        self._reply: Reply | None = None
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
    def reply(self) -> Reply | None:
        """What is being written."""
        return self._reply

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self.story.entries

    @property
    def error(self) -> ErrorEntry | None:
        """The error that the last turn ended with."""
        return self._error

    # ---- opening ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the session and follow it. FiresideError where it is not there."""
        if self._id is None:
            return
        snapshot = await self.manager.get(self._id)
        self.draft = self.kept_draft = snapshot.draft
        self.facts.title = snapshot.title or ""
        self.facts.status = snapshot.status
        self.facts.context_tokens = snapshot.last_total_tokens
        self.facts.context_window = snapshot.context_window
        self.facts.model = snapshot.model_override
        self.has_older = snapshot.has_more_items
        self.story = Story(self.story.name)
        self.story.tell(snapshot.items)
        self.page.replace(self.story.entries)
        self.facts.questions = [Question.of(self._id, event) for event in snapshot.pending_elicitations]
        self._take_queue(snapshot.pending_inputs)
        self._start()
        await self._read_settings(self._id)
        self._changed(self, "opened")

    async def ensure(self) -> str:
        """The session's id; makes the session where there is none yet."""
        async with self._making:
            if self._id is None:
                snapshot = await self.manager.create()
                if self._prepare is not None:
                    await self._prepare(self.manager, snapshot.id)
                self._id = snapshot.id
                self._start()
                await self._read_settings(self._id)
                self._changed(self, "made")
            return self._id

    def _start(self) -> None:
        self._follow = asyncio.create_task(self._run(), name=f"chat {self._id}")

    async def _read_settings(self, session_id: str) -> None:
        settings = await self.manager.settings(session_id)
        self.facts.approve = str(settings["approve"]["value"])

    async def close(self) -> None:
        """No longer follow the session. It goes on where a reply is being written."""
        if self._follow is not None:
            self._follow.cancel()
            await asyncio.wait([self._follow])

    async def load_older(self) -> int:
        """Put a page of older items above; how many entries came."""
        if not self.has_older or self._id is None:
            return 0
        known = next(iter(self.story.items), None)
        items = await self.manager.list_items(self._id, limit=OLDER_ITEMS, after=known, order="desc")
        self.has_older = len(items) == OLDER_ITEMS
        older = Story(self.story.name)
        older.tell(reversed(items))
        self.story.entries[:0] = older.entries
        self.story.items = {**older.items, **self.story.items}
        self.story.calls = {**older.calls, **self.story.calls}
        self.story.names = {**older.names, **self.story.names}
        self.page.replace(self.story.entries, keep_place=True)
        return len(older.entries)

    # ---- what a person does ----------------------------------------------------------------

    async def send(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Post a message; it waits where a reply is being written. Durable on return."""
        session_id = await self.ensure()
        self._dismiss_error()
        await self.manager.post_event(session_id, {"type": "message", "data": {"content": list(blocks)}})

    async def stop(self) -> None:
        """Stop the reply; what was shown of it is kept."""
        if self._id is not None:
            await self.manager.interrupt(self._id)

    async def answer(self, question: Question, action: str, content: Mapping[str, Any]) -> None:
        """Answer an open question."""
        result = {"action": action, "content": dict(content)}
        await self.manager.resolve_elicitation(question.session_id, question.id, result)

    async def retry(self, response_id: str | None = None, n: int = 1) -> None:
        """Answer again. Without an answer yet, the last message is answered."""
        response_id = response_id or self.last_response
        self._dismiss_error()
        if response_id is not None:
            await self.manager.retry(response_id, n)
            return
        last = self.last_message("user")
        if last is not None:
            await self.manager.edit(last.id, last.content)

    async def go_on(self) -> None:
        """Go on with the last reply where it was cut off or stopped."""
        if self.last_response is not None:
            await self.manager.continue_reply(self.last_response)

    async def variant(self, step: int) -> tuple[int, int] | None:
        """Show the variant before or after the last reply; its number and how many there are."""
        last = self.last_message("assistant")
        if last is None or last.response_id is None:
            return None
        others = await self.manager.siblings(last.id)
        place = next((index for index, one in enumerate(others) if one["active"]), None)
        if place is None or len(others) < 2:
            return None
        place = (place + step) % len(others)
        await self.manager.select(str(others[place]["item_id"]))
        return place + 1, len(others)

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

    def item_of(self, entry: Entry) -> Item | None:
        """The item that an entry shows."""
        return self.story.items.get(entry.id)

    # ---- for panes and screens -------------------------------------------------------------

    def search(self, query: str) -> int:
        return self.page.transcript.find(query)

    def reveal(self, item_id: str, query: str = "") -> None:
        entry = next((one for one in self.story.entries if one.id == item_id), None)
        if entry is None:
            return
        if not query or not self.page.transcript.find(query, near=entry):
            self.page.transcript.jump_to(entry)

    async def keep_draft(self, text: str) -> None:
        """Have the store keep what is being written."""
        await self.manager.set_draft(await self.ensure(), text)
        self.kept_draft = text

    async def drop_if_empty(self) -> bool:
        """Leave nothing of a chat in which nothing was said and nothing is being written."""
        if self._id is None or self.story.items or self.facts.waiting or self.facts.running:
            return False
        if self.kept_draft.strip() or self.draft.strip():
            return False
        with contextlib.suppress(FiresideError):
            await self.manager.delete(self._id)
        return True

    def show_loading(self, fraction: float) -> None:
        """The model that a waiting reply needs is being loaded."""
        if self.facts.running and self._reply is not None and not self._reply.tokens:
            self._reply.show_loading(fraction)

    def model_loaded(self, name: str, window: int | None, *, changed: bool) -> None:
        """Another model answers from now on."""
        if self.facts.model is None:
            self.story.name = name
            self.facts.context_window = window or self.facts.context_window
        if self._reply is not None and not self._reply.ended and self._reply.name is not None:
            if not self._reply.tokens:
                self._reply.name.name = name
                self._reply.end_progress()
                self.page.changed(self._reply.name)
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

    def tick(self) -> None:
        """Time went on: the numbers of what is being written."""
        if self._reply is not None:
            self._reply.tick()
            self.facts.speed = self._reply.speed or self.facts.speed

    # ---- events ----------------------------------------------------------------------------

    async def _run(self) -> None:
        assert self._id is not None
        with contextlib.suppress(asyncio.CancelledError):
            async with aclosing(self.manager.stream(self._id)) as events:
                async for event in events:
                    try:
                        await self._take(event)
                    except FiresideError as err:
                        self._fail(err.message, err.remedy)
                    except Exception as err:  # One event that cannot be shown must not end the chat.
                        logger.exception("an event could not be shown")
                        self._fail(f"Something could not be shown: {type(err).__name__}: {err}")

    async def _take(self, event: SessionEvent) -> None:
        if self._take_reply(event) or self._take_facts(event):
            return
        match event:
            case SessionInputConsumedEvent():
                self._consumed(event)
            case SessionBranchEvent():
                await self._branched()
            case SessionStatusEvent():
                await self._status(event)
            case ResponseCreatedEvent(response=response):
                self._begin(response.id)
            case ResponseEvent() if isinstance(event, TERMINAL_TYPES):
                self._ended(event)
            case OutputItemDoneEvent(item=item):
                self._item(item)
            case ElicitationRequestEvent():
                self._asked(event)
            case ElicitationResolvedEvent(elicitation_id=elicitation_id):
                self._resolved(elicitation_id)
            case ResponseErrorEvent(error=error):
                self._fail(
                    str(error.get("message")), str(error.get("remediation") or ""), str(error.get("code"))
                )
            case CompactionFailedEvent(error=error):
                self.facts.summarising = False
                self.add_note(str((error or {}).get("message", "Nothing was summarised.")))
            case _:
                pass

    def _take_reply(self, event: SessionEvent) -> bool:
        """The many small events of a reply."""
        match event:
            case OutputTextDeltaEvent(delta=delta, message_id=message_id):
                reply = self._begin(None)
                if reply.takes(message_id):
                    reply.write(delta)
                    self.facts.prefill = self.facts.load = None
            case ReasoningTextDeltaEvent(delta=delta, message_id=message_id, held=held):
                reply = self._begin(None)
                if not held and reply.takes(message_id):
                    reply.think(delta)
                    self.facts.prefill = self.facts.load = None
            case FunctionCallArgumentsDeltaEvent(delta=delta, index=index, name=name):
                self._begin(None).write_call(index, name, delta)
            case FunctionCallOutputDeltaEvent(call_id=call_id, delta=delta):
                self._begin(None).show_output(call_id, delta)
            case SessionPrefillEvent(done=done, total=total, reused=reused):
                reply = self._begin(None)
                if reply.tokens == 0 or total - reused > 64:
                    reply.show_prefill(done, total, reused)
                self.facts.prefill, self.facts.load = reply.prefill, None
                self._changed(self, "prefill")
            case SessionModelLoadEvent(fraction=fraction):
                self.facts.load = fraction if fraction < 1 else None
                self._begin(None).show_loading(fraction)
                self._changed(self, "load")
            case _:
                return False
        return True

    def _take_facts(self, event: SessionEvent) -> bool:
        """Events that change nothing of the page."""
        facts = self.facts
        match event:
            case SessionUsageEvent(context_tokens=tokens, context_window=window):
                facts.context_tokens = tokens
                facts.context_window = window or facts.context_window
            case SessionSpeedEvent():
                facts.speed = event.tokens_per_second or None
                facts.first_s = event.time_to_first_token_s
                facts.reused = event.reused_tokens
            case SessionTitleEvent(title=title):
                facts.title = title or ""
            case SessionQueueEvent(inputs=inputs):
                self._take_queue(inputs)
            case SessionSettingsEvent(settings=settings):
                facts.approve = str(
                    cast("Mapping[str, Any]", settings.get("approve", {})).get("value", "ask")
                )
            case SessionModelEvent(model=model):
                facts.model = model
            case ResponseQueuedEvent():
                facts.waits = True
            case CompactionInProgressEvent():
                facts.summarising = True
            case CompactionCompletedEvent():
                facts.summarising = False
            case _:
                return False
        self._changed(self, "facts")
        return True

    def _begin(self, response_id: str | None) -> Reply:
        if self._reply is None or self._reply.ended:
            self._reply = Reply(self.page, self.story)
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
        self._changed(self, "consumed")

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
                await self._count_variants()
                self._changed(self, "ended")
        self._changed(self, "status")

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
        if reply is not None and not reply.ended:
            if item.response_id in (None, reply.response_id) or reply.response_id is None:
                reply.take(item)
        else:
            for entry in self.story.tell([item]):
                self.page.add(entry)
        if isinstance(item, FunctionCall) and item.status == "action_required":
            self._changed(self, "client call")

    def _asked(self, event: ElicitationRequestEvent) -> None:
        assert self._id is not None
        question = Question.of(self._id, event.to_wire())
        self.facts.questions.append(question)
        call_id = event.params.get("call_id")
        if self._reply is not None and isinstance(call_id, str):
            self._reply.set_asking(call_id, True)
        self._changed(self, "asked")

    def _resolved(self, elicitation_id: str) -> None:
        answered = next((one for one in self.facts.questions if one.id == elicitation_id), None)
        self.facts.questions = [one for one in self.facts.questions if one.id != elicitation_id]
        if self._reply is not None and answered is not None:
            self._reply.set_asking(answered.call_id, False, answered.diff)
        self._changed(self, "resolved")

    def _take_queue(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        waiting: list[tuple[str, str]] = []
        for wire in inputs:
            item = item_from_wire(wire)
            if isinstance(item, Message):
                texts = [str(block.get("label") or block.get("text") or "") for block in item.content]
                waiting.append((item.id, "".join(texts)))
        self.facts.waiting = waiting

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
        self._changed(self, "branched")

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
                row.variant = variant
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
        self._changed(self, "failed")

    def _dismiss_error(self) -> None:
        """What can be done about the last error is no longer offered."""
        if self._error is not None:
            self._error.choices, self._error.chosen = (), None
            self.page.changed(self._error)
            self._error = None


def choices_for(code: str) -> tuple[Choice, ...]:
    """The ways out of a failed turn."""
    again = Choice("r", "try again")
    model = Choice("m", "choose another model")
    log = Choice("v", "view the log")
    match code:
        case "context_overflow":
            return (Choice("c", "summarise older turns", "then try again"), Choice("n", "new chat"), model)
        case (
            "not_found" | "not_gguf" | "truncated" | "unsupported_arch" | "not_a_chat_model" | "missing_shard"
        ):
            return (model, again, log)
        case _:
            return (again, model, log)
