"""A chat's events, told on a page. One file, because all of them change one reply's state.

Replies, thoughts, calls, questions, and what goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from app import clock
from app.frontend.call_words import target_of
from app.frontend.question import Question
from app.repl.page import ReplPage
from app.repl.words import compacted, shown_text, tool_row
from app.sessions.events import (
    TERMINAL_TYPES,
    CompactionCompletedEvent,
    CompactionFailedEvent,
    CompactionInProgressEvent,
    ElicitationRequestEvent,
    ElicitationResolvedEvent,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    PolicyDeniedEvent,
    ReasoningTextDeltaEvent,
    Response,
    ResponseCreatedEvent,
    ResponseErrorEvent,
    ResponseEvent,
    ResponseRetryEvent,
    SessionBranchEvent,
    SessionEvent,
    SessionInputConsumedEvent,
    SessionModelLoadEvent,
    SessionNoticeEvent,
    SessionPrefillEvent,
    SessionQueueEvent,
    SessionSpeedEvent,
    SessionStatusEvent,
    SessionUsageEvent,
)
from app.sessions.items import (
    Compaction,
    ErrorItem,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    TerminalCommand,
    arguments_of,
    ends_with_thought,
    item_from_wire,
)
from app.terminal.figures import reading, short_count

if TYPE_CHECKING:
    from app.sessions.shapes import PendingElicitation
    from app.sessions.snapshot import SessionSnapshot

DEFAULT_NAME = "model"
_Running = tuple[FunctionCall, float]


@dataclass
class Narrator:
    """Tells one chat. `name` gives the model's name; `changed` is called when a turn or question begins
    or ends. Without `echoes` a message that was typed into this very page is not written again;
    without `hints` nothing is said about what a person could do.
    """

    page: ReplPage
    session_id: str
    name: Callable[[], str] = lambda: DEFAULT_NAME
    changed: Callable[[], None] = lambda: None
    echoes: bool = True
    hints: bool = True
    private: bool = False
    aside: Callable[[], str] = lambda: ""
    """A word below a question about how to come to it."""
    settled: bool = True
    """Whether nothing runs and nothing that was sent waits to be answered."""
    busy: bool = False
    """Whether a reply is being made."""
    failed: dict[str, Any] | None = None
    """Why the last message was not answered."""
    denied: int = 0
    """Calls that were not run."""
    questions: list[Question] = field(default_factory=list[Question])
    queued: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The messages that wait."""
    _carded: str = ""
    _held: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """What is told once no card is open: between a card and its answer nothing else stands."""
    _is_torn: bool = False
    """Whether the beginning of the answer that is written was missed: it is told once it is whole."""
    _was_queued: set[str] = field(default_factory=set[str])
    variant: str = ""
    """A word about the next reply, such as "variant 2 of 2"."""
    question_id: str | None = None
    """The message that was answered last, and below the text of its answer."""
    answer_id: str | None = None
    is_anew: bool = False
    """Whether the next reply answers the same message as the last one."""
    _began: float = 0.0
    _thought_at: float | None = None
    _named: bool = False
    _streamed: set[str | None] = field(default_factory=set[str | None])
    _answered: str | None = None
    _calls: dict[str, tuple[FunctionCall, float]] = field(
        default_factory=dict[str, tuple[FunctionCall, float]]
    )
    _speeds: list[SessionSpeedEvent] = field(default_factory=list[SessionSpeedEvent])
    _context: tuple[int, int] | None = None

    def take(self, event: SessionEvent) -> None:
        match event:
            case OutputTextDeltaEvent():
                self._say(event)
            case ReasoningTextDeltaEvent():
                self._think(event)
            case OutputItemDoneEvent(item=item):
                self._item(item)
            case ResponseEvent():
                self._response(event)
            case ElicitationRequestEvent():
                self._ask(event)
            case ElicitationResolvedEvent():
                self.drop(event.elicitation_id)
                self.changed()
            case SessionInputConsumedEvent():
                self.failed = None
                self._consumed(event)
            case SessionQueueEvent():
                self._queue([dict(item) for item in event.inputs])
            case SessionSpeedEvent():
                self._speeds.append(event)
            case SessionUsageEvent():
                self._context = (event.context_tokens or 0, event.context_window or 0)
            case SessionStatusEvent():
                self._status(event)
            case _:
                self._state(event)

    # ---- a reply ---------------------------------------------------------------------------

    def _response(self, event: ResponseEvent) -> None:
        if isinstance(event, ResponseCreatedEvent) or not self.busy:
            self._start()
        if isinstance(event, TERMINAL_TYPES):
            self._end(event.response)

    def _start(self) -> None:
        if self.busy:
            return
        self.busy, self._named = True, False
        self._began = clock.seconds()
        self._speeds.clear()
        self._streamed.clear()
        self._answered = None
        self.changed()

    def _head(self) -> None:
        if not self._named:
            self._named = True
            self.page.begin(self.name(), self.variant)
            self.variant = ""

    def _say(self, event: OutputTextDeltaEvent) -> None:
        if self._is_torn:
            return
        if event.repeated:
            # It stands above already.
            self.variant = "continued"
            self._streamed.add(event.message_id)
            return
        self._end_thought()
        self._head()
        if event.message_id != self._answered and self._answered is not None:
            self.page.end_answer()
        self._answered = event.message_id
        self._streamed.add(event.message_id)
        self.page.answer(event.delta)

    def _think(self, event: ReasoningTextDeltaEvent) -> None:
        self._head()
        if self._thought_at is None:
            self._thought_at = clock.seconds()
        self._streamed.add(f"{event.message_id} thought")
        if not event.held:
            self.page.think(event.delta)

    def _end_thought(self) -> None:
        if self._thought_at is not None:
            self.page.end_thought(clock.seconds() - self._thought_at)
            self._thought_at = None

    def _end(self, response: Response) -> None:
        self._end_thought()
        self.page.end_answer()
        self._tell_held()
        if response.status == "cancelled":
            self._tell_stopped(response)
        self.page.state("")
        self._calls.clear()
        self.busy = False
        stored = [data["seconds"] for data in response.output if isinstance(data.get("seconds"), float)]
        seconds = stored[-1] if stored else clock.seconds() - self._began
        match response.status:
            case "failed":
                self._tell_failure(response.error or {})
            case "cancelled":
                self.page.news("Stopped. What was written is kept.")
            case _:
                self.page.stats(self._figures(seconds))
        if response.status == "incomplete":
            self._tell_cut(response)
        elif response.status == "completed":
            self._tell_silence(response)
        self.changed()

    def leave(self) -> None:
        """Another chat comes on the page: what is written of a reply ends here, the reply itself goes on."""
        if self.settled and not self.busy:
            return
        self._end_thought()
        self.page.end_answer()
        self._held.clear()
        self.page.state("")
        self.page.note("the reply continues in its chat; /chats leads back")

    def _tell_stopped(self, response: Response) -> None:
        """What the calls had come to that were stopped with their reply."""
        for data in response.output:
            if data.get("type") == FunctionCallOutput.type and data.get("call_id") in self._calls:
                item = item_from_wire(data)
                if isinstance(item, FunctionCallOutput) and item.stopped:
                    self._item(item)

    def _figures(self, seconds: float) -> str:
        new = sum(speed.new_tokens for speed in self._speeds)
        spent = sum(one.new_tokens / one.tokens_per_second for one in self._speeds if one.tokens_per_second)
        parts = [f"{seconds:.1f} s"]
        if new and spent:
            parts.append(f"{new / spent:.0f} tok/s")
        if self._context and self._context[1]:
            used, window = self._context
            parts.append(f"ctx {short_count(used)}/{short_count(window)}")
        return "   ".join(parts)

    def _tell_failure(self, error: Mapping[str, Any]) -> None:
        self.failed = dict(error)
        message = str(error.get("message") or "The reply failed.")
        remedy = str(error.get("remediation") or "")
        self.page.news(f"{message} {remedy}".strip(), error=True)
        if self.hints:
            self.page.news("Your message is kept; /retry sends it again.")

    def _tell_cut(self, response: Response) -> None:
        match (response.incomplete_details or {}).get("reason"):
            case "max_output_tokens" if self._context and self._context[0] >= self._context[1] > 0:
                self.page.note(
                    "the reply was cut off because the context is full; /compact makes room", warning=True
                )
            case "max_output_tokens" if ends_with_thought(response.output):
                self.page.note(
                    "the reply was cut off while thinking; /think off skips thinking", warning=True
                )
            case "max_output_tokens":
                self.page.note(
                    "the reply was cut off at its token limit; /continue continues it", warning=True
                )
            case "max_rounds":
                self.page.note("the model was still calling tools when its rounds were used up", warning=True)
            case _:
                self.page.note("the reply is incomplete; /continue continues it", warning=True)

    def _tell_silence(self, response: Response) -> None:
        """A reply without a word or a call would look like one that was lost."""
        if not response.output:
            return
        last = response.output[-1]
        if last.get("type") != "message" or last.get("content"):
            return
        why = " with its thought" if ends_with_thought(response.output) else " without an answer"
        self.page.note(f"the model ended{why}; /retry asks again", warning=True)

    # ---- items -----------------------------------------------------------------------------

    def _item(self, item: Item) -> None:
        match item:
            case Message(role="assistant"):
                self.answer_id = item.id
                self._is_torn = False
                if item.text and not self._streamed & {item.id, None}:
                    self._end_thought()
                    self._head()
                    self.page.answer(item.text)
                if item.id not in self._streamed and None not in self._streamed and not item.text:
                    return
                self.page.end_answer()
                self._answered = None
            case Reasoning():
                self._end_thought()
            case FunctionCall(status="in_progress" | "action_required"):
                self._end_thought()
                self._head()
                self._calls.setdefault(item.call_id, (item, clock.seconds()))
                target = target_of(arguments_of(item.approved_arguments or item.arguments))
                self.page.state(f"{item.name} {target}".strip())
            case FunctionCall():
                self._calls[item.call_id] = (item, self._calls.get(item.call_id, (item, clock.seconds()))[1])
            case FunctionCallOutput():
                self.page.state("")
                call, since = self._calls.get(item.call_id, (None, None))
                row = tool_row(call, item, None if since is None else clock.seconds() - since)
                self._after_card(partial(self.page.tool, row))
                self.denied += bool(item.denied)
            case TerminalCommand() | Message():
                pass
            case Compaction():
                self.page.note(compacted(item))
            case _:
                pass

    def expect(self) -> None:
        """A message is about to be sent."""
        self.settled, self.failed = False, None

    def replay(self, items: Sequence[Item]) -> None:
        """Show what was said before, through the same page."""
        calls: dict[str, FunctionCall] = {}
        named: str | None = None
        for item in items:
            match item:
                case Message(role="user") if not item.is_meta:
                    self.question_id, self.answer_id = item.id, None
                    self.page.user(shown_text(item.content))
                    named = None
                case Message(role="assistant"):
                    self.answer_id = item.id
                    named = self._replay_head(item, named)
                    if item.text:
                        self.page.answer(item.text)
                        self.page.end_answer()
                    if item.interrupted:
                        self.page.note("stopped")
                case Reasoning() if item.text:
                    named = self._replay_head(item, named)
                    self.page.think(item.text)
                    self.page.end_thought(None)
                case FunctionCall():
                    named = self._replay_head(item, named)
                    calls[item.call_id] = item
                case FunctionCallOutput():
                    self.page.tool(tool_row(calls.get(item.call_id), item, None))
                case Compaction():
                    self.page.note(compacted(item))
                case ErrorItem():
                    self.page.news(item.message, error=True)
                case TerminalCommand(input=str()):
                    self.page.user(f"!{item.input}")
                case _:
                    pass

    def catch_up(self, snapshot: SessionSnapshot) -> None:
        """Events were missed: tell what the last message was answered with so far, and what is asked."""
        self._end_thought()
        self.page.end_answer()
        self.page.state("")
        self.page.note("too much arrived to show it all; here is the end of the chat")
        items = list(snapshot.items)
        users = [at for at, item in enumerate(items) if isinstance(item, Message) and item.role == "user"]
        self.busy = self._is_torn = snapshot.status == "running"
        self.settled, self._named = not self.busy, False
        self._streamed.clear()
        self._calls.clear()
        self._held.clear()
        self.replay(items[users[-1] :] if users else ())
        self.queued = [dict(wire) for wire in snapshot.pending_inputs]
        self.questions, self._carded = [], ""
        for pending in snapshot.pending_elicitations:
            self.reopen(pending)
        self.changed()

    def _replay_head(self, item: Item, named: str | None) -> str | None:
        response = item.response_id or item.id
        if named != response:
            self.page.begin(self.name())
        return response

    # ---- the rest --------------------------------------------------------------------------

    def _ask(self, event: ElicitationRequestEvent) -> None:
        self._end_thought()
        self.reopen(event)

    def reopen(self, event: ElicitationRequestEvent | PendingElicitation) -> None:
        """Show an open question."""
        question = Question.of(self.session_id, event.elicitation_id, event.params)
        # Of a private chat nothing is kept for good.
        self.questions.append(question.without("always") if self.private else question)
        self._show_question()
        self.changed()

    def drop(self, question_id: str) -> None:
        """A question is answered, or nobody waits for its answer."""
        self.questions = [one for one in self.questions if one.id != question_id]
        if all(one.id != self._carded for one in self.questions):
            self._tell_held()
        self._show_question()

    def _show_question(self) -> None:
        """Show the card of the question that is answered next: no other stands between it and the answer."""
        if self.questions and self.questions[0].id != self._carded:
            self._carded = self.questions[0].id
            self.page.card(self.questions[0], self.aside())

    def _after_card(self, tell: Callable[[], None]) -> None:
        if self.questions:
            self._held.append(tell)
        else:
            tell()

    def _tell_held(self) -> None:
        held, self._held = self._held, []
        for tell in held:
            tell()

    def _consumed(self, event: SessionInputConsumedEvent) -> None:
        if event.type_ != "message" or event.data.get("is_meta"):
            return
        self.question_id, self.answer_id = event.item_id, None
        if self.echoes or event.item_id in self._was_queued:
            self.page.end_answer()
            self.page.user(shown_text(event.data.get("content") or ()))
        self._named = False

    def _queue(self, waiting: list[dict[str, Any]]) -> None:
        for item in waiting:
            if item["id"] not in self._was_queued:
                self._was_queued.add(item["id"])
                self.page.user(shown_text(item.get("content") or ()), "queued")
        self.queued = waiting

    def _status(self, event: SessionStatusEvent) -> None:
        if event.status not in ("idle", "waiting", "failed"):
            return
        self.settled = True
        if self.busy:
            self._end_thought()
            self.page.end_answer()
        self._tell_held()
        self.busy = False
        self.page.state("")
        if event.status == "failed" and self.failed is None:
            # It died before its response.
            self._tell_failure(event.error or {})
        self.changed()

    def _state(self, event: SessionEvent) -> None:
        page = self.page
        match event:
            case SessionPrefillEvent(done=done, total=total, reused=reused) if done < total:
                page.state(reading(done, total, reused))
            case SessionPrefillEvent():
                page.state("")
            case SessionModelLoadEvent(fraction=fraction):
                page.state(f"loading {fraction:.0%}".replace("%", " %"))
            case CompactionInProgressEvent():
                page.state("summarising older turns")
            case CompactionCompletedEvent():
                page.state("")
                page.note("older turns are summarised")
            case CompactionFailedEvent(error=error):
                page.state("")
                page.note(f"no summary: {(error or {}).get('message', 'it failed')}", warning=True)
            case SessionBranchEvent(active=active):
                self._answered = None
                self.is_anew = active is not None and active == self.question_id
            case _:
                self._after_card(partial(self._note, event))

    def _note(self, event: SessionEvent) -> None:
        page = self.page
        match event:
            case ResponseRetryEvent(attempt=attempt, max_attempts=most):
                page.note(f"trying again, {attempt} of {most}")
            case ResponseErrorEvent(error=error, tool_name=str() as tool):
                page.note(f"{tool}: {error.get('message', 'failed')}", warning=True)
            case PolicyDeniedEvent(reason=reason):
                page.note(f"refused: {reason}")
            case OutputFileDoneEvent(filename=name):
                page.note(f"a file was made: {name or event.file_id}")
            case SessionNoticeEvent(message=message):
                page.note(message, warning=True)
            case _:
                pass
