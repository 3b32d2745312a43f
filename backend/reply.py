"""One request in flight: from the engine's outputs to the pieces and outcomes a caller gets."""

from __future__ import annotations

import os
import string
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from backend.chat_engine import Request
from backend.engine.request import Delta, Ended, Output, Progress
from backend.prompt import Prompt
from backend.types import (
    BackendError,
    ChatOutcome,
    Finish,
    HeldPiece,
    Piece,
    PrefillProgress,
    ReasoningPiece,
    StageEvent,
    StageObserver,
    TextPiece,
    TokenLogprob,
    ToolCall,
    ToolCallPiece,
)

if TYPE_CHECKING:
    from backend.grammar.answer import AnswerCheck


@dataclass(frozen=True, slots=True)
class Ids:
    """Token ids one step added, for callers who want ids instead of text."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed; nothing follows."""

    error: Exception


Delivery = Piece | Ids | Failed
Sink = Callable[[list[Delivery]], None]


class Parsed(Protocol):
    """What a reply was, once it is complete; `pieces` are those that only its end released."""

    @property
    def tool_calls(self) -> Sequence[ToolCall]: ...
    @property
    def pieces(self) -> Sequence[TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


class ReplyParser(Protocol):
    """Splits a reply's text into text, thought and calls, in increments of any size."""

    def feed(self, text: str) -> Sequence[TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece]: ...
    def finish(self) -> Parsed: ...


class _Voice:
    """One of a request's replies, being assembled."""

    def __init__(self, index: int, parser: ReplyParser | None, check: AnswerCheck | None) -> None:
        self.index = index
        self._parser = parser
        self._check = check
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._undelivered: list[TokenLogprob] = []
        self.logprobs: list[TokenLogprob] = []
        self._thinking = False
        self.reasoning_tokens = 0
        self.parse_s = 0.0

    def take(self, delta: Delta) -> list[Piece]:
        """The pieces a step's text makes."""
        self.logprobs += delta.logprobs
        self._undelivered += delta.logprobs
        pieces = self._parse(delta.text)
        if self._thinking:
            self.reasoning_tokens += len(delta.ids)
        return pieces

    def _parse(self, text: str) -> list[Piece]:
        if self._parser is None:
            return self._collect([TextPiece(text)] if text else [])
        began = time.perf_counter()
        pieces: Sequence[Piece] = self._parser.feed(text) if text else ()
        self.parse_s += time.perf_counter() - began
        return self._collect(pieces)

    def _collect(self, pieces: Sequence[Piece]) -> list[Piece]:
        collected: list[Piece] = []
        for piece in pieces:
            match piece:
                case TextPiece(text):
                    self._text.append(text)
                    self._thinking = False
                    collected.append(TextPiece(text, self._tokens(), self.index))
                case ReasoningPiece(text):
                    self._reasoning.append(text)
                    self._thinking = True
                    collected.append(ReasoningPiece(text, self._tokens(), self.index))
                case HeldPiece(text):
                    collected.append(HeldPiece(text, self.index))
                case ToolCallPiece(index, name, delta):
                    self._thinking = False
                    collected.append(ToolCallPiece(index, name, delta, self.index))
                case _:
                    collected.append(piece)
        return collected

    def _tokens(self) -> tuple[TokenLogprob, ...]:
        """Logprobs not handed out yet: those of a piece that was held come with the next one."""
        tokens, self._undelivered = tuple(self._undelivered), []
        return tokens

    def end(
        self, ended: Ended, truncated: int, notes: tuple[str, ...], *, wants_logprobs: bool
    ) -> list[Piece]:
        """The last pieces, the calls, and the outcome."""
        pieces: list[Piece] = []
        calls: tuple[ToolCall, ...] = ()
        warnings: tuple[str, ...] = ()
        if self._parser is not None:
            began = time.perf_counter()
            parsed = self._parser.finish()
            self.parse_s += time.perf_counter() - began
            calls, warnings = tuple(map(_with_id, parsed.tool_calls)), tuple(parsed.warnings)
            pieces += self._collect(parsed.pieces)
        finish: Finish = "tool_calls" if calls and ended.finish == "stop" else ended.finish
        text = "".join(self._text)
        speed = (ended.new_tokens - 1) / ended.decode_s if ended.decode_s and ended.new_tokens > 1 else 0.0
        outcome = ChatOutcome(
            finish=finish,
            prompt_tokens=ended.prompt_tokens,
            reused_tokens=ended.reused_tokens,
            new_tokens=ended.new_tokens,
            reasoning_tokens=self.reasoning_tokens,
            queue_s=ended.queue_s,
            prefill_s=ended.prefill_s,
            decode_s=ended.decode_s,
            time_to_first_token_s=ended.time_to_first_token_s,
            tokens_per_second=speed,
            forced_tokens=ended.forced_tokens,
            stop_match=ended.stop_match,
            seed=ended.seed,
            truncated=truncated,
            logprobs=tuple(self.logprobs) if wants_logprobs else None,
            notes=notes,
            warnings=warnings,
            text=text,
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            reply=self.index,
            schema_errors=self._check.violations(text) if self._check and finish == "stop" else (),
        )
        return [*pieces, *calls, outcome]


_ID_CHARACTERS = string.ascii_letters + string.digits


def _with_id(call: ToolCall) -> ToolCall:
    """The call with an id: its own, or nine letters and digits (what Mistral's templates demand)."""
    if call.id:
        return call
    return replace(call, id="".join(_ID_CHARACTERS[byte % len(_ID_CHARACTERS)] for byte in os.urandom(9)))


class Reply:
    """A request in flight. Its deliveries go to `sink`, on the pipeline's delivery thread.

    The last delivery is the `ChatOutcome` of the last reply to end, or `Failed`. `keep` is given the
    name, the tokens and the possible texts of a conversation that has a name.
    """

    def __init__(
        self,
        request: Request,
        sink: Sink,
        observer: StageObserver | None,
        *,
        ids: bool,
        keep: Callable[..., None] | None = None,
    ) -> None:
        self.request = request
        self.id = request.id
        self.cancelled = threading.Event()
        self._sink = sink
        self._observer = observer
        self._wants_ids = ids
        self._keep = keep
        self._voices: list[_Voice] = []
        self._left = request.n
        self._prompt = Prompt("", [])
        self._ids: list[int] = []
        self._raw: list[str] = []
        self._is_whole = False
        self._prefilled = False
        self._reused = 0
        self._notes: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the last delivery was made, or is being made."""
        return self._left == 0

    @property
    def transcript(self) -> tuple[str, tuple[int, ...]] | None:
        """Prompt and first reply as text and as the very tokens, for `Request.prior`.

        None where text and tokens do not match: before the end, or when a stop string was cut off.
        """
        if not self._is_whole:
            return None
        return self._prompt.text + "".join(self._raw), (*self._prompt.tokens, *self._ids)

    def prepared(
        self,
        parsers: Sequence[ReplyParser | None],
        prompt: Prompt,
        duration_s: float,
        answer_check: AnswerCheck | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """The prompt is tokenized and goes to the engine now. A finished answer is still to be checked;
        `notes` say what of the request cannot be done."""
        self._voices = [_Voice(index, parser, answer_check) for index, parser in enumerate(parsers)]
        self._prompt = prompt
        self._notes = notes
        self._observe(StageEvent("tokenize", self.id, len(prompt.tokens), duration_s))

    def take(self, output: Output) -> bool:
        """Turn an engine's output into deliveries; True when the request is over."""
        match output:
            case Progress(done, total, reused):
                self._reused = reused
                self.deliver([PrefillProgress(done, total, reused)])
            case Delta():
                self._take_delta(output)
            case Ended():
                return self._end(output)
        return False

    def _take_delta(self, delta: Delta) -> None:
        if not self._prefilled:
            self._prefilled = True
            evaluated = len(self._prompt.tokens) - self._reused
            self._observe(StageEvent("prefill", self.id, evaluated, delta.prefill_s))
        pieces: list[Delivery] = list(self._voices[delta.reply].take(delta))
        if self._wants_ids:
            pieces = [Ids(delta.ids)]
        if delta.reply == 0:
            self._ids += delta.ids
            self._raw.append(delta.text)
        self.deliver(pieces)

    def _end(self, ended: Ended) -> bool:
        if ended.error is not None:
            self.fail(ended.error)
            return True
        self._left -= 1
        voice = self._voices[ended.reply]
        pieces = voice.end(
            ended,
            self._prompt.truncated,
            self._notes,
            wants_logprobs=self.request.config.logprobs is not None,
        )
        if ended.reply == 0:
            if ended.end_token is not None and self._ids:
                self._ids.pop()  # The end token is no part of the text, and its cell was never filled.
            self._is_whole = not ended.is_cut and ended.finish in ("stop", "length")
            self._remember()
            outcome = pieces[-1]
            text = outcome.text if isinstance(outcome, ChatOutcome) else None
            self._observe(StageEvent("decode", self.id, ended.new_tokens, ended.decode_s))
            self._observe(StageEvent("detokenize", self.id, ended.new_tokens, voice.parse_s, text))
        if self._wants_ids:
            pieces = [piece for piece in pieces if isinstance(piece, ChatOutcome)]
        self.deliver(list(pieces))
        return self._left == 0

    def _remember(self) -> None:
        """Keep the transcript for the conversation's next turn, before anybody hears of this one's end."""
        name, whole = self.request.conversation, self.transcript
        if self._keep and name and whole and self._prompt.is_plain:
            text, tokens = whole
            raw = "".join(self._raw)
            # A template writes the reply behind its header as it was shown, or behind a blank of its own.
            bare = [self._prompt.text + raw[1:]] if raw.startswith(" ") else []
            self._keep(name, tokens, text, *bare)

    def fail(self, error: Exception) -> None:
        """End with an error that the caller will see raised."""
        if not isinstance(error, BackendError | ValueError | TypeError):
            wrapped = BackendError(f"The request failed: {error}")
            wrapped.__cause__ = error
            error = wrapped
        self._left = 0
        self.deliver([Failed(error)])

    def deliver(self, pieces: list[Delivery]) -> None:
        if pieces:
            self._sink(pieces)

    def _observe(self, event: StageEvent) -> None:
        if self._observer is not None:
            self._observer(event)
