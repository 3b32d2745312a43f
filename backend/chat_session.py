"""`ChatSession`: a conversation that keeps its own history on a model."""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from backend.reply import Failed, Ids, Reply
from backend.stream import Inbox, Stream
from backend.types import (
    ChatCard,
    ChatOutcome,
    GenerationConfig,
    Message,
    QueueFullError,
    TextPiece,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backend.chat_engine import Request, Tool
    from backend.model import GenerativeModel
    from backend.pipeline import Pipeline

Config = GenerationConfig | Mapping[str, Any] | None
StreamMode = bool | Literal["events"]


class EngineHandle:
    """A counted share of a model's engine; two consumers may share one (92)."""

    def __init__(self, model: GenerativeModel) -> None:
        model.handle.retain()
        self._model = model
        self._lock = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def model(self) -> GenerativeModel:
        return self._model

    @property
    def pipeline(self) -> Pipeline:
        """What answers requests. ValueError after `close()`."""
        if self._closed:
            raise ValueError("the engine handle is closed")
        return self._model.handle.pipeline()

    def close(self) -> None:
        """Give the share back; the engine goes with the last one. Harmless when repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._model.handle.release()


class _Turn:
    """One waiting or running turn of a session."""

    def __init__(
        self, request: Callable[[], Request], *, keeps_history: bool, commit: Callable[[_Turn], None]
    ) -> None:
        self.request = request
        self.keeps_history = keeps_history
        self.owner = threading.get_ident()
        self.reply: Reply | None = None
        self.inbox = Inbox(on_outcome=self._note)
        self.over = threading.Event()
        """Set when the turn no longer occupies its session."""
        self.outcome: ChatOutcome | None = None
        self.began = False
        """Whether a first piece of the reply came."""
        self.cancelled = False
        self.text: list[str] = []
        self._commit = commit

    def _note(self, outcome: ChatOutcome) -> None:
        self.outcome = outcome

    def finish(self) -> None:
        """Enter the result into the history, once."""
        if not self.over.is_set():
            self.over.set()
            self._commit(self)


class ChatSession:
    """A conversation on one model (checklist 74 to 94).

    `system` seeds the history; `default_budget` bounds a reply that names no `max_new_tokens`;
    at most `max_active` turns run and `max_queued` wait, further ones raise QueueFullError.
    Turns that use the history run one after another. A context manager.
    """

    def __init__(
        self,
        model: GenerativeModel,
        *,
        system: str | None = None,
        model_id: str = "",
        max_active: int = 1,
        max_queued: int = 256,
        default_budget: int = 256,
        tools: Sequence[Tool] | None = None,
    ) -> None:
        for name, value, least in (
            ("max_active", max_active, 1),
            ("max_queued", max_queued, 0),
            ("default_budget", default_budget, 1),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        self._check_tools(model, tools)
        self.messages: list[dict[str, Any]] = []
        """The live history; it may be edited between turns."""
        if system:
            self.messages.append({"role": "system", "content": system})
        self._model = model
        self._engine = EngineHandle(model)
        self._max_active = max_active
        self._max_queued = max_queued
        self._budget = default_budget
        self._tools = tuple(tools or ())
        card = model.card
        self._card = replace(
            card, model_id=model_id or card.model_id, max_active=max_active, max_queued=max_queued
        )
        self._report: ChatOutcome | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._prior: tuple[str, tuple[int, ...]] | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._waiting: deque[_Turn] = deque()
        self._running: list[_Turn] = []
        if max_active > 1:
            model.handle.pipeline().engine.widen(max_active)
        self._thread = threading.Thread(target=self._work, name="fireside-session", daemon=True)
        self._thread.start()

    # ---- properties ------------------------------------------------------------------------

    @property
    def card(self) -> ChatCard:
        """What a face shows of the model; it does not change between turns."""
        return self._card

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def engine(self) -> EngineHandle:
        """The engine this session runs on; it can be shared."""
        return self._engine

    @property
    def report(self) -> ChatOutcome | None:
        """The last reply's outcome, None before the first."""
        return self._report

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply."""
        return self._calls

    def history(self) -> list[dict[str, Any]]:
        """A deep copy of the conversation."""
        return copy.deepcopy(self.messages)

    # ---- turns -----------------------------------------------------------------------------

    def send(
        self,
        content: str | Sequence[Mapping[str, Any]],
        *,
        stream: StreamMode = False,
        config: Config = None,
        images: Sequence[Any] = (),
        audio: Sequence[Any] = (),
        videos: Sequence[Any] = (),
        tools: Sequence[Tool] | None = None,
        **overrides: Any,
    ) -> Any:
        """Say something; the reply as text, or as an iterator of pieces with `stream`.

        Both turns join the history when the reply is complete. A send that fails before its first
        token takes its user turn back; one cut off later keeps both, marked `interrupted`.

        Raises ValueError, ContextOverflowError, QueueFullError, EngineError.
        """
        self._refuse_media(images, audio, videos)
        user = {"role": "user", "content": content}
        return self._turn([user], stream, GenerationConfig.of(config, **overrides), tools)

    def respond(
        self,
        *,
        stream: StreamMode = False,
        config: Config = None,
        tools: Sequence[Tool] | None = None,
        **overrides: Any,
    ) -> Any:
        """Let the model go on from the history as it stands (89, 90)."""
        return self._turn([], stream, GenerationConfig.of(config, **overrides), tools)

    def complete(
        self,
        messages: Sequence[Message],
        *,
        stream: StreamMode = False,
        config: Config = None,
        images: Sequence[Any] = (),
        audio: Sequence[Any] = (),
        videos: Sequence[Any] = (),
        tools: Sequence[Tool] | None = None,
        **overrides: Any,
    ) -> Any:
        """Answer an explicit conversation; the history stays as it is (82)."""
        self._refuse_media(images, audio, videos)
        settings = GenerationConfig.of(config, **overrides)
        offered = self._offered(tools)
        request = self._model.chat_request(list(messages), self._budgeted(settings), offered)
        return self._enqueue(_Turn(lambda: request, keeps_history=False, commit=self._note), stream)

    def add_tool_result(self, call_id: str, content: str, *, name: str = "") -> None:
        """Append what a tool answered; it generates nothing by itself (88)."""
        result = {"role": "tool", "tool_call_id": call_id, "content": content}
        self.messages.append({**result, "name": name} if name else result)

    def reset(self, *, keep_system: bool = True) -> None:
        """Forget the conversation, but not the system turn unless told (83)."""
        kept = [turn for turn in self.messages if keep_system and turn["role"] == "system"]
        self.messages[:] = kept[:1]
        self._prior = None
        self._calls = ()

    def close(self) -> None:
        """Cancel the running turns, drop the waiting ones, give the engine back (91)."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            running, waiting = list(self._running), list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for turn in running:
            self._cancel(turn)
        for turn in waiting:
            turn.inbox.put([Failed(ValueError("the session was closed before this turn began"))])
            turn.over.set()
        self._engine.close()

    def __enter__(self) -> ChatSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------

    def _turn(
        self,
        added: list[dict[str, Any]],
        stream: StreamMode,
        config: GenerationConfig,
        tools: Sequence[Tool] | None,
    ) -> Any:
        offered = self._offered(tools)
        settings = self._budgeted(config)
        # Checked here, so that what cannot be asked raises before anything is queued.
        self._model.chat_request([*self.messages, *added], settings, offered)

        def request() -> Request:
            self.messages.extend(added)
            return self._model.chat_request(self.messages, settings, offered, self._prior)

        def commit(turn: _Turn) -> None:
            self._enter(turn, added)

        return self._enqueue(_Turn(request, keeps_history=True, commit=commit), stream)

    def _enqueue(self, turn: _Turn, stream: StreamMode) -> Any:
        with self._changed:
            if self._closed:
                raise ValueError("the session is closed")
            if len(self._waiting) >= self._max_queued and not self._may_start(turn):
                raise QueueFullError(
                    f"{len(self._waiting)} turns are waiting already, and this session queues "
                    f"{self._max_queued}. Wait for one to finish."
                )
            self._waiting.append(turn)
            self._changed.notify_all()
        if stream:
            items = self._events(turn) if stream == "events" else _text(self._events(turn))
            return Stream(items, lambda _: self._leave(turn), lambda: self._finish(turn))
        return self._wait(turn)

    def _wait(self, turn: _Turn) -> str:
        try:
            for _ in self._events(turn):
                pass
        except BaseException:
            self._leave(turn)
            raise
        self._finish(turn)
        return turn.outcome.text if turn.outcome else ""

    def _events(self, turn: _Turn) -> Iterator[Any]:
        self._check_order(turn)
        for item in turn.inbox:
            if isinstance(item, TextPiece):
                turn.began = True
                turn.text.append(item.text)
            if not isinstance(item, Ids | Failed):
                yield item

    def _check_order(self, turn: _Turn) -> None:
        """A thread that waits for its second turn before it has read its first would wait for ever."""
        with self._changed:
            for other in self._running:
                unread = other.keeps_history and turn.keeps_history and not other.over.is_set()
                if unread and other is not turn and other.owner == threading.get_ident():
                    raise ValueError("read the streamed reply to its end, or close it, before the next turn")

    def _leave(self, turn: _Turn) -> None:
        """The reader went away, or the turn failed: stop it, and enter what there is."""
        with self._changed:
            if turn in self._waiting:
                self._waiting.remove(turn)
                turn.over.set()
                return
        self._cancel(turn)
        self._finish(turn)

    def _finish(self, turn: _Turn) -> None:
        turn.finish()
        with self._changed:
            self._changed.notify_all()

    def _cancel(self, turn: _Turn) -> None:
        turn.cancelled = True
        if turn.reply:
            self._model.handle.pipeline().cancel(turn.reply.id)

    def _may_start(self, turn: _Turn) -> bool:
        if len(self._running) >= self._max_active:
            return False
        return not (turn.keeps_history and any(other.keeps_history for other in self._running))

    def _work(self) -> None:
        """Start waiting turns in order, as far as they may run beside the running ones."""
        while True:
            with self._changed:
                self._running = [turn for turn in self._running if not turn.over.is_set()]
                turn = next((turn for turn in self._waiting if self._may_start(turn)), None)
                if turn is None:
                    if self._closed:
                        return
                    self._changed.wait()
                    continue
                self._waiting.remove(turn)
                self._running.append(turn)
            self._start(turn)

    def _start(self, turn: _Turn) -> None:
        try:
            request = turn.request()
            turn.reply = self._engine.pipeline.start(request, turn.inbox.put)
            if turn.cancelled:
                self._cancel(turn)
        except Exception as err:
            turn.inbox.put([Failed(err)])

    def _enter(self, turn: _Turn, added: list[dict[str, Any]]) -> None:
        """Write a finished turn into the history."""
        outcome = turn.outcome
        if not turn.began and (outcome is None or outcome.finish == "cancelled"):
            self.messages[:] = [turn for turn in self.messages if not any(turn is one for one in added)]
            return
        whole = outcome is not None and outcome.finish not in ("cancelled", "error")
        text = outcome.text if outcome and whole else "".join(turn.text)
        reply: dict[str, Any] = {"role": "assistant", "content": text}
        if outcome is None or not whole:
            reply["interrupted"] = True
        else:
            self._prior = turn.reply.transcript if turn.reply else None
            if outcome.reasoning:
                reply["reasoning_content"] = outcome.reasoning
            if outcome.tool_calls:
                reply["tool_calls"] = [call.to_message() for call in outcome.tool_calls]
        self.messages.append(reply)
        self._note(turn)

    def _note(self, turn: _Turn) -> None:
        if turn.outcome:
            self._report = turn.outcome
            self._calls = turn.outcome.tool_calls

    def _offered(self, tools: Sequence[Tool] | None) -> tuple[Tool, ...]:
        offered = self._tools if tools is None else tuple(tools)
        self._check_tools(self._model, offered)
        return offered

    @staticmethod
    def _check_tools(model: GenerativeModel, tools: Sequence[Tool] | None) -> None:
        if tools and not model.supports_tools:
            raise ValueError(
                f"{model.card.model_id} has no tool-call format, so tools cannot be offered to it"
            )

    def _budgeted(self, config: GenerationConfig) -> GenerationConfig:
        return config.over(GenerationConfig(max_new_tokens=self._budget))

    def _refuse_media(self, images: Sequence[Any], audio: Sequence[Any], videos: Sequence[Any]) -> None:
        for name, media in (("images", images), ("audio", audio), ("videos", videos)):
            if len(media):
                raise ValueError(f"{name}: {self._card.model_id} reads text only")


def _text(events: Iterator[Any]) -> Iterator[str | ToolCall]:
    for item in events:
        if isinstance(item, TextPiece):
            yield item.text
        elif isinstance(item, ToolCall):
            yield item
