"""Follows one session: every event becomes a change of its page, or of what is known of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from app.frontend.call_words import target_of
from app.frontend.follow import follow
from app.frontend.question import Question
from app.sessions.errors import FiresideError
from app.sessions.items import ErrorItem, FunctionCall, Item, arguments_of, item_from_wire
from app.tui.chat.view import ChatView

if TYPE_CHECKING:
    from app.sessions.events import (
        ElicitationRequestEvent,
        ResponseEvent,
        SessionEvent,
        SessionInputConsumedEvent,
        SessionStatusEvent,
    )
    from app.sessions.manager import SessionManager


class Follower:
    """Takes the events of a session as they come, and shows them on its view.

    `changed` is told what happened, whenever the facts may differ.
    """

    def __init__(
        self, manager: SessionManager, session_id: str, view: ChatView, changed: Callable[[str], None]
    ) -> None:
        self._manager = manager
        self._id = session_id
        self._view = view
        self._facts = view.facts
        self._changed = changed
        self._is_torn = False
        """Whether what is being written has lost its beginning."""
        self._task: asyncio.Task[None] | None = None
        self._counting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Follow from now on."""
        self._task = asyncio.create_task(self._run(), name=f"chat {self._id}")

    async def close(self) -> None:
        """No longer follow. The session goes on where a reply is being written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await follow(self._manager, self._id, self._take, missed=self._read_anew, failed=self._view.fail)

    async def _read_anew(self) -> None:
        """Events were missed: tell everything from the store."""
        view = self._view
        snapshot = await self._manager.get(self._id)
        facts, was_running = view.facts, view.busy
        view.read(snapshot)
        facts.waits, facts.prefill, facts.load = False, None, None
        view.tell_anew(snapshot.items)
        self._count_soon()
        # What is being written has lost its beginning; it is told whole when it is complete.
        self._is_torn = facts.running
        if was_running and not facts.running:
            self._changed("ended")
        self._changed("status")

    # ---- branches --------------------------------------------------------------------------

    async def branched(self) -> None:
        """Another path is active: the page tells that one."""
        self._view.tell_branch(await self._manager.get(self._id))
        self._count_soon()

    def _count_soon(self) -> None:
        task = asyncio.create_task(self._count_variants())
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    async def _count_variants(self) -> None:
        """Tell beside the last name how many variants there are."""
        view = self._view
        last = view.last_response
        row = view.story.names.get(last) if last else None
        if row is None:
            return
        with contextlib.suppress(FiresideError):
            others = await self.variants()
            place = next((index for index, one in enumerate(others) if one["active"]), 0)
            variant = (place + 1, len(others)) if others else None
            if variant != row.variant:
                row.variant, row.variant_keys = variant, view.variant_keys
                view.page.changed(row)

    async def variants(self, item: Item | None = None) -> Sequence[Mapping[str, Any]]:
        """The variants of a message of the person, else of the last reply, else of what that answers.

        As `siblings` tells them; none where there is only one.
        """
        view = self._view
        last = view.last_response
        reply = next((one for one in view.story.items.values() if last and one.response_id == last), None)
        for one in (item,) if item is not None else (reply, view.last_message("user")):
            if one is not None and len(others := await self._manager.siblings(one.id)) > 1:
                return others
        return ()

    # ---- events ----------------------------------------------------------------------------

    async def _take(self, event: SessionEvent) -> None:
        from app.sessions import events

        if self._take_reply(event) or self._take_facts(event):
            return
        match event:
            case events.SessionInputConsumedEvent():
                self._consumed(event)
            case events.SessionBranchEvent():
                await self.branched()
            case events.SessionStatusEvent():
                await self._status(event)
            case events.ResponseCreatedEvent(response=response):
                self._view.begin_reply(response.id)
            case events.ResponseEvent() if isinstance(event, events.TERMINAL_TYPES):
                self._ended(event)
            case events.OutputItemDoneEvent(item=item):
                self._item(item)
            case events.ElicitationRequestEvent():
                self._asked(event)
            case events.ElicitationResolvedEvent(elicitation_id=elicitation_id):
                self._resolved(elicitation_id)
            case events.ResponseErrorEvent(error=error):
                self._view.fail(
                    str(error.get("message")), str(error.get("remediation") or ""), str(error.get("code"))
                )
            case _:
                self._take_note(event)

    def _take_note(self, event: SessionEvent) -> None:
        """Events that a line across the page tells of."""
        from app.sessions import events

        match event:
            case events.CompactionFailedEvent(error=error):
                self._facts.summarising = False
                self._view.add_note(str((error or {}).get("message", "Nothing was summarised.")))
            case events.OutputFileDoneEvent(filename=name):
                self._view.add_note(f"A file was made: {name or event.file_id}")
            case events.SessionNoticeEvent(message=message):
                self._view.add_note(message, lost=True)
            case _:
                pass

    def _take_reply(self, event: SessionEvent) -> bool:
        """The many small events of a reply."""
        from app.sessions import events

        match event:
            case events.OutputTextDeltaEvent(delta=delta, message_id=message_id):
                reply = self._view.begin_reply(None)
                if reply.takes(message_id):
                    reply.write(delta)
                    self._facts.prefill = self._facts.load = None
            case events.ReasoningTextDeltaEvent(delta=delta, message_id=message_id, held=held):
                reply = self._view.begin_reply(None)
                if not held and reply.takes(message_id):
                    reply.think(delta)
                    self._facts.prefill = self._facts.load = None
            case events.FunctionCallArgumentsDeltaEvent(delta=delta, index=index, name=name):
                self._view.begin_reply(None).write_call(index, name, delta)
                self._facts.prefill = self._facts.load = None
            case events.FunctionCallOutputDeltaEvent(call_id=call_id, delta=delta):
                self._view.begin_reply(None).show_output(call_id, delta)
            case events.SessionPrefillEvent(done=done, total=total, reused=reused):
                reply = self._view.begin_reply(None)
                if reply.tokens == 0 or total - reused > 64:
                    reply.show_prefill(done, total, reused)
                self._facts.prefill, self._facts.load = reply.prefill, None
                reply.prompt_tokens = total
                self._changed("prefill")
            case events.SessionModelLoadEvent(fraction=fraction):
                self._facts.load = fraction if fraction < 1 else None
                self._view.begin_reply(None).show_loading(fraction)
                self._changed("load")
            case _:
                return False
        return True

    def _take_facts(self, event: SessionEvent) -> bool:
        """Events that change nothing of the page."""
        from app.sessions import events

        facts = self._facts
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
                self._facts.take_queue(inputs)
            case events.SessionSettingsEvent(settings=settings):
                facts.take_settings(settings)
            case events.SessionModelEvent(model=model):
                facts.model = model
                self._recount()
            case events.ResponseQueuedEvent():
                facts.waits = True
            case events.CompactionInProgressEvent():
                facts.summarising = True
            case events.CompactionCompletedEvent():
                facts.summarising = False
                self._recount()
            case _:
                return False
        self._changed("facts")
        return True

    def _recount(self) -> None:
        """Something else goes to the model now: what is known of its size holds no longer."""
        if not self._facts.running:
            self._facts.context_tokens = None
            self._changed("recount")

    def _consumed(self, event: SessionInputConsumedEvent) -> None:
        item = item_from_wire({**event.data, "type": event.type_})
        reply = self._view.begin_reply(event.response_id)
        reply.take(item)
        if event.response_id is not None:
            reply.begin(event.response_id)
        self._changed("consumed")

    async def _status(self, event: SessionStatusEvent) -> None:
        facts, before = self._facts, self._facts.running
        facts.status = event.status
        if facts.running:
            facts.waits = False
            if not before or self._view.reply is None or self._view.reply.ended:
                reply = self._view.begin_reply(event.response_id)
                if event.response_id is not None and not facts.summarising:
                    reply.begin(event.response_id)
        else:
            facts.prefill = facts.load = None
            facts.waits = False
            if event.status == "failed" and event.error is not None and self._view.error is None:
                error = event.error
                self._view.fail(
                    str(error.get("message")), str(error.get("remediation") or ""), str(error.get("code"))
                )
            if self._view.reply is not None and not self._view.reply.ended:
                self._view.reply.end("failed" if event.status == "failed" else "completed", (), None)
            if before:
                if self._is_torn:
                    self._is_torn = False
                    await self._read_anew()
                await self._count_variants()
                self._changed("ended")
        self._changed("status")

    def _ended(self, event: ResponseEvent) -> None:
        response = event.response
        reply = self._view.reply
        if reply is None or (reply.response_id not in (None, response.id)):
            return
        for data in response.output:
            if data.get("type") == ErrorItem.type and data.get("id") not in self._view.story.items:
                # It was told before it had the name that it is stored under.
                self._view.failed(cast("ErrorItem", item_from_wire(data)))
        reply.end(response.status, tuple(response.output), self._facts.speed)
        self._facts.prefill = self._facts.load = None
        self._facts.stopped = response.status == "cancelled"
        self._facts.failed = response.status == "failed"
        if response.incomplete_details and response.incomplete_details.get("reason") == "max_rounds":
            self._view.add_note("the number of rounds for calls is used up")

    def _item(self, item: Item) -> None:
        reply = self._view.reply
        if item.id in self._view.story.items:
            if isinstance(item, FunctionCall):
                self._settled(item)
            return
        if isinstance(item, ErrorItem):
            self._view.failed(item)
        elif reply is not None and not reply.ended:
            if item.response_id in (None, reply.response_id) or reply.response_id is None:
                reply.take(item)
        else:
            for entry in self._view.story.tell([item]):
                self._view.page.add(entry)
        if isinstance(item, FunctionCall) and item.status == "action_required":
            self._changed("client call")

    def _settled(self, item: FunctionCall) -> None:
        """Of arguments that a person put in place of the model's, show what they came to."""
        call = self._view.story.calls.get(item.call_id)
        if call is not None and call.approved_arguments != item.approved_arguments:
            call.approved_arguments = item.approved_arguments
            call.target = target_of(arguments_of(item.approved_arguments or item.arguments))
            self._view.page.changed(call)

    def _asked(self, event: ElicitationRequestEvent) -> None:
        question = Question.of(self._id, event.elicitation_id, event.params)
        self._facts.questions.append(question)
        if self._view.reply is not None:
            self._view.reply.end_progress()  # it waits for the person now
        if self._view.reply is not None and question.call_id:
            self._view.reply.set_asking(question.call_id, True)
        self._changed("asked")

    def _resolved(self, elicitation_id: str) -> None:
        answered = next((one for one in self._facts.questions if one.id == elicitation_id), None)
        self._facts.questions = [one for one in self._facts.questions if one.id != elicitation_id]
        if self._view.reply is not None and answered is not None:
            self._view.reply.set_asking(answered.call_id, False, answered.diff)
        self._changed("resolved")
