"""The reply that is being written. One file, because each event may end what another began."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app import clock
from app.frontend.call_words import target_of
from app.sessions.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    arguments_of,
    ends_with_thought,
)
from app.terminal.figures import duration, reading
from app.tui.chat.story import (
    CUT,
    CUT_THINKING,
    NOT_RUN,
    SILENT,
    Story,
    end_call,
    ends_without_words,
)
from app.tui.transcript.entries import Answer, NameRow, Progress, Thought
from app.tui.transcript.entry import Entry
from app.tui.transcript.tool_entry import ToolCall

STOP_HINT = "esc stops"
RATE_AFTER_S = 0.2
"""A rate over less time than this is a guess: progress that arrives late arrives at once."""


class ReplyPage(Protocol):
    """The page of one chat, as far as a reply needs it; `Transcript` is one."""

    def add(self, entry: Entry) -> None: ...
    def discard(self, entry: Entry) -> None: ...
    def append_text(self, entry: Entry, delta: str) -> None: ...
    def finish(self, entry: Entry) -> None: ...
    def changed(self, entry: Entry) -> None: ...
    def flush(self) -> None: ...
    def fold_thought(self, entry: Entry) -> bool: ...


@dataclass
class LiveReply:
    """One response while it is made. `seconds` is a clock that never goes back."""

    page: ReplyPage
    story: Story
    seconds: Callable[[], float] = clock.seconds
    response_id: str | None = None
    name: NameRow | None = None
    tokens: int = 0
    prompt_tokens: int = 0
    """Of the prompt that is being answered; 0 before it is known."""
    prefill: float | None = None
    """Share of the prompt that is read, while it is read."""
    _message_id: str | None = None
    _progress: Progress | None = None
    _read_from: tuple[float, int] | None = None
    _thought: Thought | None = None
    _thought_from: float = 0.0
    _thought_tokens: int = 0
    _answer: Answer | None = None
    _writing: dict[int, ToolCall] = field(default_factory=dict[int, ToolCall])
    _running: dict[str, float] = field(default_factory=dict[str, float])
    _from: float = 0.0
    _first: float | None = None
    _paused_at: float | None = None
    """Since when calls are asked for or run, and nothing is written."""
    _paused: float = 0.0
    _asked: float = 0.0
    """Seconds that the person was asked."""
    _asked_from: float = 0.0
    _others: set[str] = field(default_factory=set[str])
    ended: bool = False

    # ---- the head --------------------------------------------------------------------------

    def begin(self, response_id: str | None) -> None:
        """A response begins: the name of who answers, alive."""
        if self.name is not None:
            return
        self._from = self.seconds()
        self.response_id = response_id
        self.name = NameRow(self.story.name, (STOP_HINT,), live=True)
        if response_id is not None:
            self.story.names[response_id] = self.name
        self._add(self.name)
        self._show_progress("reading", None, "", ())

    def show_loading(self, fraction: float) -> None:
        """The model is being loaded."""
        self.begin(self.response_id)
        self._show_progress("loading", fraction, "", ())

    def show_prefill(self, done: int, total: int, reused: int) -> None:
        """So many tokens of the prompt are read, `reused` of them were known."""
        now = self.seconds()
        if self._read_from is None or self._read_from[1] > done:
            self._read_from = (now, done)
        began, at = self._read_from
        speed = (done - at) / (now - began) if now - began >= RATE_AFTER_S else 0.0
        left = f"{max(1, round((total - done) / speed))} s left" if speed and done < total else ""
        facts = [f"{done:,} of {total:,} tokens"]
        facts += [f"{reused:,} reused"] if reused else []
        facts += [f"{speed:,.0f} tok/s"] if speed else []
        self.prefill = done / total if total and done < total else None
        self.begin(self.response_id)
        if done <= reused < total:
            self._show_progress(reading(done, total, reused), None, "", ())
            return
        self._show_progress("reading", done / total if total else 1.0, left, facts)

    def _show_progress(self, word: str, fraction: float | None, left: str, facts: Any) -> None:
        shown = self._progress
        if shown is None:
            self._progress = Progress(word, fraction, left=left, facts=facts)
            self._add(self._progress)
            return
        shown.word, shown.fraction, shown.left, shown.facts = word, fraction, left, tuple(facts)
        self.page.changed(shown)

    def end_progress(self) -> None:
        """Nothing is read or loaded any more."""
        self.prefill, self._read_from = None, None
        if self._progress is not None:
            self.page.discard(self._progress)
            self.story.entries.remove(self._progress)
            self._progress = None

    # ---- what it says ----------------------------------------------------------------------

    def takes(self, message_id: str | None) -> bool:
        """Whether a delta belongs here: other replies of the same turn are written beside it."""
        if message_id is None or message_id == self._message_id:
            return True
        if message_id in self._others or message_id in self.story.items:
            return False
        if self._message_id is not None and self._message_id not in self.story.items:
            self._others.add(message_id)
            return False
        self._message_id = message_id
        return True

    def think(self, delta: str) -> None:
        """A piece of thought."""
        self._spoke()
        if self._thought is None:
            self._thought = Thought(live=True)
            self._thought_from, self._thought_tokens = self.seconds(), 0
            self._add(self._thought)
        self._thought_tokens += 1
        self.page.append_text(self._thought, delta)

    def write(self, delta: str) -> None:
        """A piece of the answer."""
        self._spoke()
        self._end_thought()
        if self._answer is None:
            self._answer = Answer(live=True, id=self._message_id or "")
            self._add(self._answer)
        self.page.append_text(self._answer, delta)

    def write_call(self, index: int, name: str, delta: str) -> None:
        """A piece of a call's arguments."""
        self._spoke()
        self._end_thought()
        self._end_answer()
        call = self._writing.get(index)
        if call is None:
            self._end_writing()
            call = self._writing[index] = ToolCall(name, state="writing")
            self._add(call)
        self.page.append_text(call, delta)

    def _end_writing(self) -> None:
        """What follows a call has begun: its arguments are whole, and it waits for the end of the reply."""
        for call in self._writing.values():
            if call.state == "writing":
                self.page.flush()  # what of its arguments waits for a frame is not output
                call.state = "waits"
                self.page.changed(call)

    def _spoke(self) -> None:
        self.begin(self.response_id)
        self.end_progress()
        self.tokens += 1
        if self._first is None:
            self._first = self.seconds()
        if self._paused_at is not None:
            self._paused += self.seconds() - self._paused_at
            self._paused_at = None

    # ---- what is complete ------------------------------------------------------------------

    def take(self, item: Item) -> None:
        """An item is stored: the entry that grew is now its own."""
        match item:
            case Reasoning():
                self._name_after(item)
                self._end_thought(item)
            case Message():
                if item.role != "user":  # what is asked ends no reading
                    self._name_after(item)
                self._end_thought()
                self._message(item)
            case FunctionCall():
                self._name_after(item)
                self._end_thought()
                self._end_answer()
                self._call(item)
            case FunctionCallOutput():
                self._result(item)
            case _:
                self.end_progress()
                for entry in self.story.tell([item]):
                    self.page.add(entry)

    def _name_after(self, item: Item) -> None:
        self.end_progress()
        if item.response_id is not None and self.name is not None:
            self.response_id = item.response_id
            self.story.names.setdefault(item.response_id, self.name)

    def _message(self, item: Message) -> None:
        answer = self._answer
        if answer is None and self._is_shown(item.id):
            # It ended when a call began behind it.
            self.story.items[item.id] = item
            return
        if answer is not None and (self._message_id in (None, item.id)):
            answer.id = item.id
            self.story.items[item.id] = item
            self._end_answer()
            return
        head = self._take_off_head() if item.role == "user" else ()
        for entry in self.story.tell([item]):
            self.page.add(entry)
        for entry in head:
            self._add(entry)

    def _take_off_head(self) -> Sequence[Entry]:
        """The name that nothing but its progress follows: a reply to several messages stands below all."""
        head = [entry for entry in (self.name, self._progress) if entry is not None]
        if self.name is None or self.story.entries[-len(head) :] != head:
            return ()
        del self.story.entries[-len(head) :]
        for entry in head:
            self.page.discard(entry)
        return head

    def _is_shown(self, item_id: str) -> bool:
        return any(isinstance(entry, Answer) and entry.id == item_id for entry in self.story.entries[-8:])

    def _call(self, item: FunctionCall) -> None:
        known = self.story.calls.get(item.call_id)
        if known is not None:
            return
        call = self._writing.pop(min(self._writing), None) if self._writing else None
        if call is None:
            for entry in self.story.tell([item]):
                self.page.add(entry)
            call = self.story.calls[item.call_id]
        else:
            self.page.flush()  # what of its arguments waits for a frame is not output
            self.story.calls[item.call_id] = call
            self.story.items[item.id] = item
        call.id, call.name = item.id, item.name
        call.target = target_of(arguments_of(item.arguments))
        call.state = "running"
        self._running[item.call_id] = self.seconds()
        if self._paused_at is None:
            self._paused_at = self.seconds()
        self.page.changed(call)

    def _result(self, item: FunctionCallOutput) -> None:
        call = self.story.calls.get(item.call_id)
        self.story.items[item.id] = item
        if call is None:
            return
        self.page.flush()
        call.output = item.shown
        began = self._running.pop(item.call_id, None)
        end_call(call, item, None if began is None else self.seconds() - began)
        self.page.changed(call)

    def show_output(self, call_id: str, delta: str) -> None:
        """A piece of a running call's output."""
        call = self.story.calls.get(call_id)
        if call is not None:
            self.page.append_text(call, delta)

    def set_asking(self, call_id: str, asking: bool, diff: str = "") -> None:
        """Whether a call waits for an answer of the person."""
        call = self.story.calls.get(call_id)
        if call is None or not call.live:
            return
        was_asking = self._is_asking()
        call.state = "asks" if asking else "running"
        if asking and not was_asking:
            self._asked_from = self.seconds()
        elif was_asking and not self._is_asking():
            self._asked += self.seconds() - self._asked_from
        if diff and not call.diff:
            call.diff = diff
        if not asking:
            self._running[call_id] = self.seconds()
        self.page.changed(call)

    def _end_thought(self, item: Reasoning | None = None) -> None:
        thought = self._thought
        if item is not None:
            self.story.items[item.id] = item
        if thought is None:
            if item is not None and all(entry.id != item.id for entry in self.story.entries[-8:]):
                del self.story.items[item.id]
                for entry in self.story.tell([item]):
                    self.page.add(entry)
            return
        if thought.live:
            thought.seconds = self.seconds() - self._thought_from
            thought.tokens = self._thought_tokens
            self.page.finish(thought)
            self.page.fold_thought(thought)
            self.page.changed(thought)
        if item is not None:
            thought.id = item.id
            self._thought = None

    def _end_answer(self) -> None:
        if self._answer is not None:
            self.page.finish(self._answer)
            self._answer = None

    # ---- numbers and the end ---------------------------------------------------------------

    def tick(self) -> None:
        """Time went on: the numbers beside the name."""
        if self.name is None or self.ended or self._first is None:
            return
        facts = (duration(self._worked()), *([speed] if (speed := self.speed_words()) else []))
        if facts != self.name.facts:
            self.name.facts = facts
            self.page.changed(self.name)

    def speed_words(self) -> str:
        """Tokens a second so far; empty before there is a speed."""
        speed = self.speed
        return "" if speed is None else f"{speed:,.0f} tok/s"

    @property
    def speed(self) -> float | None:
        """Tokens a second so far."""
        if self._first is None or self.tokens < 2:
            return None
        until = self.seconds() if self._paused_at is None else self._paused_at
        spent = until - self._first - self._paused
        return self.tokens / spent if spent > 0.2 else None

    def end(self, status: str, output: tuple[Mapping[str, Any], ...], speed: float | None) -> None:
        """The response is over; `output` are its items as they are stored."""
        if self.ended:
            return
        self.ended = True
        self.end_progress()
        for call in self._writing.values():
            call.end("denied", NOT_RUN)
            self.page.changed(call)
        self._adopt(output)
        self._end_thought()
        self._end_answer()
        if self.name is None:
            return
        spent = duration(self._spent(output))
        facts = [f"stopped after {spent}"] if status == "cancelled" else [spent]
        if status == "failed":
            facts = [f"failed after {spent}"]
        if speed and status != "cancelled":
            facts.append(f"{speed:,.0f} tok/s")
        if status == "incomplete":
            facts.append(CUT_THINKING if ends_with_thought(output) else CUT)
        if status == "completed" and ends_without_words(output):
            facts.append(SILENT)
        self.name.facts, self.name.live = tuple(facts), False
        self.page.changed(self.name)

    def _spent(self, output: tuple[Mapping[str, Any], ...]) -> float:
        """Seconds that the reply took, without those that a person was asked: as it is stored, if it is."""
        stored = [data["seconds"] for data in output if isinstance(data.get("seconds"), float)]
        return stored[-1] if stored else self._worked()

    def _worked(self) -> float:
        now = self.seconds()
        asking = now - self._asked_from if self._is_asking() else 0.0
        return now - self._from - self._asked - asking

    def _is_asking(self) -> bool:
        return any(call.state == "asks" for call in self.story.calls.values())

    def _adopt(self, output: tuple[Mapping[str, Any], ...]) -> None:
        """Give the entries of a stopped reply the ids under which its items are stored."""
        from app.sessions.items import item_from_wire

        for data in output:
            item = item_from_wire(data)
            if item.id in self.story.items:
                continue
            if isinstance(item, Message) and not item.text and self._answer is None:
                self.story.items[item.id] = item
                continue
            self.take(item)

    def _add(self, entry: Entry) -> None:
        self.story.entries.append(entry)
        self.page.add(entry)
