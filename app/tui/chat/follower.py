"""Follows one session: every event becomes a change of its page, or of what is known of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from app.frontend.follow import follow
from app.frontend.question import Question
from app.sessions.items import ErrorItem, FunctionCall, Item, Message, item_from_wire
from app.tui.chat.reply import LiveReply
from app.tui.chat.story import Story, target_of
from app.tui.chat.view import ChatView

if TYPE_CHECKING:
    from app.sessions.events import (
        ElicitationRequestEvent,
        ResponseEvent,
        SessionEvent,
        SessionInputConsumedEvent,
        SessionStatusEvent,
    )


class Following(ChatView):
    """Takes the events of a session as they come."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._is_torn = False
        """Whether what is being written has lost its beginning."""
        self._follow: asyncio.Task[None] | None = None

    # ---- events ----------------------------------------------------------------------------

    async def _run(self) -> None:
        assert self._id is not None
        read_anew = partial(self._read_anew, self._id)
        with contextlib.suppress(asyncio.CancelledError):
            await follow(self.manager, self._id, self._take, missed=read_anew, failed=self._fail)

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
            case events.OutputFileDoneEvent(filename=name):
                self.add_note(f"A file was made: {name or event.file_id}")
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
        if not self.facts.running:
            self.facts.context_tokens = None
            self._changed("recount")

    def _begin(self, response_id: str | None) -> LiveReply:
        if self._reply is None or self._reply.ended:
            self._reply = LiveReply(self.page, self.story)
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
            if isinstance(item, FunctionCall):
                self._settled(item)
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

    def _settled(self, item: FunctionCall) -> None:
        """Of arguments that a person put in place of the model's, show what they came to."""
        call = self.story.calls.get(item.call_id)
        if call is not None and call.approved_arguments != item.approved_arguments:
            call.approved_arguments = item.approved_arguments
            call.target = target_of(item.approved_arguments or item.arguments)
            self.page.changed(call)

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
        from app.sessions.turn.media import file_labels

        waiting: list[tuple[str, str]] = []
        contents: dict[str, Sequence[Mapping[str, Any]]] = {}
        for wire in inputs:
            item = item_from_wire(wire)
            if isinstance(item, Message):
                texts = [str(block.get("label") or block.get("text") or "") for block in item.content]
                words = "".join(texts)
                waiting.append((item.id, words if words.strip() else ", ".join(file_labels(item.content))))
                contents[item.id] = item.content
        self.facts.waiting, self.facts.contents = waiting, contents
