"""`ChatSession`: a conversation that keeps its own history on a model."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from backend.reply import Failed, Ids
from backend.request_checks import (
    check_content,
    check_flags,
    check_prompt,
    check_stream,
    check_whole,
    refuse_media,
)
from backend.stream import Stream
from backend.turns import Turn, TurnQueue
from backend.types import (
    ChatCard,
    ChatOutcome,
    GenerationConfig,
    Message,
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
SESSION_OPTIONS = frozenset("system model_id max_active max_queued default_budget tools".split())
"""The keywords of a `ChatSession`."""


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
        return self._model.shared_pipeline()

    def close(self) -> None:
        """Give the share back; the engine goes with the last one. Harmless when repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._model.handle.release()


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
            check_whole(name, value, least)
        if not hasattr(model, "chat_request"):
            raise ValueError(f"model must be a loaded model, not {type(model).__name__}")
        for name, text in (("system", "" if system is None else system), ("model_id", model_id)):
            check_prompt(text, name)
        self._tools = model.offered(tools)
        self.messages: list[dict[str, Any]] = []
        """The live history; it may be edited between turns."""
        if system:
            self.messages.append({"role": "system", "content": system})
        self._model = model
        self._engine = EngineHandle(model)
        self._budget = default_budget
        card = model.card
        self._card = replace(
            card, model_id=model_id or card.model_id, max_active=max_active, max_queued=max_queued
        )
        self._report: ChatOutcome | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._prior: tuple[str, tuple[int, ...]] | None = None
        self._lock = threading.Lock()
        """Of the history, where a turn begins, ends or is forgotten."""
        self._resets = 0
        if max_active > 1:
            model.shared_pipeline().engine.widen(max_active)
        self._turns = TurnQueue(self._start, max_active=max_active, max_queued=max_queued)

    # ---- properties ------------------------------------------------------------------------

    @property
    def card(self) -> ChatCard:
        """What a face shows of the model; it does not change between turns."""
        return self._card

    @property
    def closed(self) -> bool:
        return self._turns.closed

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
        refuse_media(self._card.model_id, images, audio, videos)
        if content is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ValueError("send needs something to say, not None; respond() continues without a new turn")
        check_content(content, "what is sent")
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
        refuse_media(self._card.model_id, images, audio, videos)
        settings = GenerationConfig.of(config, **overrides)
        offered = self._offered(tools)
        check_stream(stream)
        request = self._model.chat_request(messages, self._budgeted(settings), offered)
        turn = Turn(lambda: request, keeps_history=False, commit=lambda _: None, on_outcome=self._remember)
        return self._enqueue(turn, stream)

    def add_tool_result(self, call_id: str, content: str, *, name: str = "") -> None:
        """Append what a tool answered to the call `call_id`; it generates nothing by itself (88)."""
        if not check_prompt(call_id, "call_id"):
            raise ValueError("call_id is empty: it says which call this is the result of")
        if content is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ValueError("content must be the text that the tool gave, not None")
        check_content(content, "the result of a tool")
        check_prompt(name, "name")
        result = {"role": "tool", "tool_call_id": call_id, "content": content}
        self.messages.append({**result, "name": name} if name else result)

    def reset(self, *, keep_system: bool = True) -> None:
        """Forget the conversation, but not the system turn unless told (83).

        A turn that runs goes on to its end for whoever reads it, and does not join the history.
        """
        check_flags(keep_system=keep_system)
        with self._lock:
            kept = [turn for turn in self.messages if keep_system and _is_system(turn)]
            self.messages[:] = kept[:1]
            self._resets += 1
            self._prior = None
            self._calls = ()

    def close(self) -> None:
        """Cancel the running turns, drop the waiting ones, give the engine back (91)."""
        for turn in self._turns.close():
            self._cancel(turn)
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
        check_stream(stream)
        offered = self._offered(tools)
        settings = self._budgeted(config)
        # Checked here, so that what cannot be asked raises before anything is queued.
        self._model.chat_request([*self.messages, *added], settings, offered)

        began_after = 0

        def request() -> Request:
            nonlocal began_after
            with self._lock:
                began_after = self._resets
                self.messages.extend(added)
                return self._model.chat_request(self.messages, settings, offered, self._prior)

        def commit(turn: Turn) -> None:
            with self._lock:
                if began_after == self._resets:
                    self._enter(turn, added)

        def remember(outcome: ChatOutcome) -> None:
            with self._lock:
                self._remember(outcome)
                if began_after != self._resets:
                    self._calls = ()

        turn = Turn(request, keeps_history=True, commit=commit, on_outcome=remember)
        return self._enqueue(turn, stream)

    def _enqueue(self, turn: Turn, stream: StreamMode) -> Any:
        self._turns.add(turn)
        if stream:
            items = self._events(turn) if stream == "events" else _text(self._events(turn))
            return Stream(items, lambda _: self._leave(turn), lambda: self._turns.finish(turn))
        return self._wait(turn)

    def _wait(self, turn: Turn) -> str:
        try:
            for _ in self._events(turn):
                pass
        except BaseException:
            self._leave(turn)
            raise
        self._turns.finish(turn)
        return turn.outcome.text if turn.outcome else ""

    def _events(self, turn: Turn) -> Iterator[Any]:
        self._turns.read_by_this_thread(turn)
        for item in turn.inbox:
            turn.note(item)
            if not isinstance(item, Ids | Failed):
                yield item

    def _leave(self, turn: Turn) -> None:
        """The reader went away, or the turn failed: stop it, and enter what there is."""
        self._turns.withdraw(turn)
        self._cancel(turn)
        self._turns.finish(turn)

    def _cancel(self, turn: Turn) -> None:
        turn.cancelled = True
        if turn.reply:
            self._model.shared_pipeline().cancel(turn.reply.id)

    def _start(self, turn: Turn) -> None:
        """Begin a turn, on the session's own thread."""
        try:
            request = turn.begin()
            if request is None:
                return
            turn.reply = self._engine.pipeline.start(request, turn.inbox.put)
            if turn.cancelled:
                self._cancel(turn)
        except Exception as err:
            turn.inbox.put([Failed(err)])

    def _enter(self, turn: Turn, added: list[dict[str, Any]]) -> None:
        """Write a finished turn into the history."""
        outcome = turn.outcome
        if outcome is None or not turn.is_whole:
            self._enter_interrupted(turn, added)
            return
        reply: dict[str, Any] = {"role": "assistant", "content": outcome.text}
        if outcome.reasoning:
            reply["reasoning_content"] = outcome.reasoning
        if outcome.tool_calls:
            reply["tool_calls"] = [call.to_message() for call in outcome.tool_calls]
        self.messages.append(reply)
        self._prior = turn.reply.transcript if turn.reply else None

    def _enter_interrupted(self, turn: Turn, added: list[dict[str, Any]]) -> None:
        """Keep what was read of a reply; without a first piece the turn never was."""
        if not turn.began:
            self.messages[:] = [turn for turn in self.messages if not any(turn is one for one in added)]
            return
        reply: dict[str, Any] = {"role": "assistant", "content": "".join(turn.text), "interrupted": True}
        if turn.reasoning:
            reply["reasoning_content"] = "".join(turn.reasoning)
        self.messages.append(reply)

    def _remember(self, outcome: ChatOutcome) -> None:
        self._report = outcome
        self._calls = outcome.tool_calls

    def _offered(self, tools: Sequence[Tool] | None) -> tuple[Tool, ...]:
        return self._tools if tools is None else self._model.offered(tools)

    def _budgeted(self, config: GenerationConfig) -> GenerationConfig:
        return config.over(GenerationConfig(max_new_tokens=self._budget))


def _is_system(turn: object) -> bool:
    return isinstance(turn, Mapping) and cast("Mapping[str, object]", turn).get("role") == "system"


def _text(events: Iterator[Any]) -> Iterator[str | ToolCall]:
    for item in events:
        if isinstance(item, TextPiece):
            yield item.text
        elif isinstance(item, ToolCall):
            yield item
