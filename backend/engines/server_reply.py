"""One reply of a server, read into pieces. One file, because deltas and whole replies share a state."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from backend.chat_engine import Request
from backend.engines import foreign
from backend.types import (
    ChatOutcome,
    Finish,
    Piece,
    PrefillProgress,
    ReasoningPiece,
    TextPiece,
    TokenLogprob,
    ToolCall,
    ToolCallPiece,
)

MOST_CALLS = 128
MOST_ARGUMENT_CHARS = 4 << 20
_START, _END = "<think>", "</think>"
_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "error": "error",
    "abort": "cancelled",
}
_TEXT_KEYS = ("text", "thinking", "content")


@dataclass
class _Call:
    """A call while it arrives."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    told: int = 0
    """How much of the arguments was told."""
    announced: bool = False


@dataclass
class _Usage:
    prompt: int = 0
    new: int = 0
    reasoning: int = 0
    reused: int = 0
    speed: float = 0.0


class InlineThought:
    """Takes a thought between `<think>` and `</think>` at the beginning of a reply out of its text."""

    def __init__(self, *, on: bool) -> None:
        self._state = "undecided" if on else "text"
        self._held = ""

    def stop(self) -> None:
        """The server tells thoughts apart itself: from now on text is text."""
        if self._state == "undecided":
            self._state = "text"

    def feed(self, text: str, *, final: bool = False) -> list[tuple[bool, str]]:
        """`text` in parts, each with whether it is thought."""
        self._held += text
        found: list[tuple[bool, str]] = []
        if self._state == "undecided":
            begun = self._held.lstrip()
            if begun.startswith(_START):
                self._state, self._held = "thought", begun[len(_START) :].lstrip("\n")
            elif final or (begun and not _START.startswith(begun)):
                self._state = "text"
        if self._state == "thought":
            thought, end, rest = self._held.partition(_END)
            if not end:
                keep = 0 if final else _overlap(thought, _END)
                thought, rest = thought[: len(thought) - keep], thought[len(thought) - keep :]
            found.append((True, thought))
            self._held = rest
            if end:
                self._state = "blank"
        if self._state == "blank":
            self._held = self._held.lstrip()
            if self._held:
                self._state = "text"
        if self._state == "text":
            found.append((False, self._held))
            self._held = ""
        return [(is_thought, part) for is_thought, part in found if part]


@dataclass
class ReplyReader:
    """One of the replies to a request: `take` its chunks, then `finish` it. Pieces carry `reply`."""

    request: Request
    reply: int = 0
    notes: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)
    complete: bool = False
    """Whether the server said that the reply has ended."""
    begun: bool = False
    """Whether anything of it has arrived."""
    error: object = None
    """What the server said in place of more, if it did."""
    usage: _Usage = field(default_factory=_Usage)
    _finish: Finish = "stop"
    _text: list[str] = field(default_factory=list[str])
    _thought: list[str] = field(default_factory=list[str])
    _logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    _pending: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    _calls: list[_Call] = field(default_factory=list[_Call])
    _places: dict[int, int] = field(default_factory=dict[int, int])
    _first: float | None = None
    _last: float = 0.0

    def __post_init__(self) -> None:
        self._inline = InlineThought(
            on=self.request.config.reasoning_format != "none" and self.request.messages is not None
        )
        self._text_joiner, self._thought_joiner = foreign.TextJoiner(), foreign.TextJoiner()

    # ---- chunks ----------------------------------------------------------------------------

    def take(self, value: object) -> list[Piece]:
        """The pieces that a chunk, or a whole answer, adds."""
        chunk = foreign.fields(value)
        if chunk.get("error") or chunk.get("object") == "error":
            self.error = value
            return []
        self._read_usage(chunk)
        pieces: list[Piece] = []
        if progress := foreign.fields(chunk.get("prompt_progress")):
            total, reused = foreign.count(progress.get("total")), foreign.count(progress.get("cache"))
            done = foreign.count(progress.get("processed"))
            pieces.append(PrefillProgress(min(done, total), total, min(reused, total)))
        for one in foreign.items(chunk.get("choices"))[:1]:
            choice = foreign.fields(one)
            delta = foreign.fields(choice.get("delta") or choice.get("message"))
            self._read_logprobs(choice.get("logprobs"))
            pieces += self._read(delta or {"content": choice.get("text")})
            if isinstance(reason := choice.get("finish_reason"), str) and reason:
                self._ended(reason)
        if pieces:
            self.begun = True
        return pieces

    def finish(self, *, cancelled: bool = False) -> list[Piece]:
        """What the end of the reply releases: held text, whole calls, and the outcome, which is last."""
        pieces = [
            *self._thoughts(self._thought_joiner.end()),
            *self._inlined(self._text_joiner.end(), final=True),
        ]
        calls: list[ToolCall] = []
        if not cancelled:
            for index, call in enumerate(self._calls):
                pieces += self._tell(index, call, final=True)
                calls.append(_whole(call))
        pieces += calls
        return [*pieces, self._outcome(tuple(calls), cancelled)]

    # ---- inside ----------------------------------------------------------------------------

    def _read(self, delta: Mapping[str, Any]) -> list[Piece]:
        pieces: list[Piece] = []
        thought, text = _parts(delta.get("content"))
        # Some servers send a thought twice, under its old name and its new one.
        named = next((delta[key] for key in ("reasoning_content", "reasoning") if delta.get(key)), "")
        thought = (named if isinstance(named, str) else "".join(_parts(named))) or thought
        if thought:
            self._inline.stop()
            pieces += self._thoughts(self._thought_joiner.feed(thought))
        if text := text or foreign.text(delta.get("refusal")):
            pieces += self._inlined(self._text_joiner.feed(text))
        legacy = foreign.fields(delta.get("function_call"))
        calls = [{"index": 0, "function": legacy}] if legacy else foreign.items(delta.get("tool_calls"))
        for one in calls[:MOST_CALLS]:
            pieces += self._read_call(foreign.fields(one))
        return pieces

    def _inlined(self, text: str, *, final: bool = False) -> list[Piece]:
        pieces: list[Piece] = []
        for is_thought, part in self._inline.feed(text, final=final):
            pieces += self._thoughts(part) if is_thought else self._says(part)
        return pieces

    def _says(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._mark()
        self._text.append(text)
        tokens, self._pending = tuple(self._pending), []
        return [TextPiece(text, tokens, self.reply)]

    def _thoughts(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._mark()
        self._thought.append(text)
        tokens, self._pending = tuple(self._pending), []
        return [ReasoningPiece(text, tokens, self.reply)]

    def _mark(self) -> None:
        self._last = time.monotonic()
        if self._first is None:
            self._first = self._last

    # ---- calls -----------------------------------------------------------------------------

    def _read_call(self, part: Mapping[str, Any]) -> list[Piece]:
        function = foreign.fields(part.get("function")) or part
        call_id, call_name = foreign.text(part.get("id"))[:200], foreign.text(function.get("name"))[:200]
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            written = arguments
        else:
            written = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        place = self._place(part.get("index"), call_id, call_name)
        if place is None:
            return []
        call = self._calls[place]
        call.id = call.id or call_id
        if call_name and call_name != call.name and not call.arguments:
            call.name += call_name
        if written and written == call.arguments and _is_object(written):
            written = ""  # the whole call once more, as some send it at the end
        if len(call.arguments) + len(written) <= MOST_ARGUMENT_CHARS:
            call.arguments += written
        self._mark()
        return self._tell(place, call)

    def _place(self, index: object, call_id: str, call_name: str) -> int | None:
        """Which call a part belongs to: by its index, where that is told and unique, else by its id."""
        known = {call.id: place for place, call in enumerate(self._calls) if call.id}
        if isinstance(index, int) and not isinstance(index, bool):
            place = self._places.get(index)
            other = place is not None and call_id and call_name and self._calls[place].id not in ("", call_id)
            if place is not None and not other:
                return place
            place = known.get(call_id) if call_id else None
            if place is None:
                place = self._open()
            if place is not None:
                self._places[index] = place
            return place
        if call_id:
            return known[call_id] if call_id in known else self._open()
        if call_name or not self._calls:
            return self._open()
        return len(self._calls) - 1

    def _open(self) -> int | None:
        if len(self._calls) >= MOST_CALLS:
            return None
        self._calls.append(_Call())
        return len(self._calls) - 1

    def _tell(self, place: int, call: _Call, *, final: bool = False) -> list[Piece]:
        """What is new of a call. Until its name is certain, nothing; what is told is never taken back."""
        if not call.name or not (call.arguments or final):
            return []
        new, call.told = call.arguments[call.told :], len(call.arguments)
        if not new and call.announced:
            return []
        call.announced = True
        return [ToolCallPiece(place, call.name, _clean(new), self.reply)]

    # ---- numbers ---------------------------------------------------------------------------

    def _ended(self, reason: str) -> None:
        self.complete = True
        self._finish = _FINISHES.get(reason, "stop")
        if reason == "content_filter":
            self.notes = (*self.notes, "The server's filter ended the reply.")

    def _read_usage(self, chunk: Mapping[str, Any]) -> None:
        usage, timings = foreign.fields(chunk.get("usage")), foreign.fields(chunk.get("timings"))
        if usage:
            about = foreign.fields(usage.get("completion_tokens_details"))
            cached = foreign.fields(usage.get("prompt_tokens_details"))
            self.usage = _Usage(
                foreign.count(usage.get("prompt_tokens")) or self.usage.prompt,
                foreign.count(usage.get("completion_tokens")) or self.usage.new,
                foreign.count(about.get("reasoning_tokens")),
                foreign.count(cached.get("cached_tokens")),
                self.usage.speed,
            )
        if timings:
            speed = timings.get("predicted_per_second")
            fast = isinstance(speed, int | float) and not isinstance(speed, bool) and 0 < speed < 1e7
            self.usage = replace(
                self.usage,
                reused=self.usage.reused or foreign.count(timings.get("cache_n")),
                speed=float(cast(float, speed)) if fast else 0.0,
            )

    def _read_logprobs(self, value: object) -> None:
        if self.request.config.logprobs is None:
            return
        for one in foreign.items(foreign.fields(value).get("content")):
            about = foreign.fields(one)
            top = [foreign.fields(other) for other in foreign.items(about.get("top_logprobs"))[:100]]
            token = TokenLogprob(
                -1,
                _clean(foreign.text(about.get("token"))),
                _number(about.get("logprob")),
                tuple((-1, _clean(foreign.text(o.get("token"))), _number(o.get("logprob"))) for o in top),
            )
            self._pending.append(token)
            self._logprobs.append(token)

    def _outcome(self, calls: tuple[ToolCall, ...], cancelled: bool) -> ChatOutcome:
        text, thought = "".join(self._text), "".join(self._thought)
        finish: Finish = "cancelled" if cancelled else self._finish
        if calls and finish == "stop":
            finish = "tool_calls"
        first = self._first if self._first is not None else time.monotonic()
        decode_s = max(0.0, self._last - first)
        written = len(text) + len(thought) + sum(len(call.raw_arguments) for call in calls)
        new = self.usage.new or (max(1, written // 4) if written else 0)
        speed = self.usage.speed or (new / decode_s if decode_s > 0.05 else 0.0)
        schema = self.request.config.json_schema
        broken: tuple[str, ...] = ()
        if schema is not None and finish == "stop":
            broken = _violations(text, schema)
        return ChatOutcome(
            finish=finish,
            prompt_tokens=self.usage.prompt,
            reused_tokens=min(self.usage.reused, self.usage.prompt),
            new_tokens=new,
            reasoning_tokens=self.usage.reasoning,
            prefill_s=first - self.started,
            decode_s=decode_s,
            time_to_first_token_s=first - self.started,
            tokens_per_second=speed,
            seed=self.request.config.seed or 0,
            logprobs=tuple(self._logprobs) if self.request.config.logprobs is not None else None,
            notes=self.notes,
            text=text,
            reasoning=thought,
            tool_calls=calls,
            reply=self.reply,
            schema_errors=broken,
        )


def _violations(text: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    from backend.grammar.answer import AnswerCheck  # rarely wanted

    return AnswerCheck(dict(schema)).violations(text)


def _whole(call: _Call) -> ToolCall:
    raw = _clean(call.arguments)
    call_id = call.id if call.id and call.id.isprintable() else f"call_{secrets.token_hex(12)}"
    name = foreign.one_line(call.name, 200)
    if not raw.strip():
        return ToolCall(call_id, name, {}, raw)
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError) as err:
        why = err.msg if isinstance(err, json.JSONDecodeError) else "nested too deeply"
        return ToolCall(call_id, name, {}, raw, f"The arguments are not valid JSON: {why}.")
    if not isinstance(value, dict):
        return ToolCall(call_id, name, {}, raw, "The arguments are not a JSON object.")
    return ToolCall(call_id, name, cast("dict[str, Any]", value), raw)


def _parts(content: object) -> tuple[str, str]:
    """Thought and text of a delta's content: a text, or a list of parts."""
    if isinstance(content, str):
        return "", content
    thought, text = "", ""
    for one in foreign.items(content):
        part = foreign.fields(one)
        said = next((part[key] for key in _TEXT_KEYS if part.get(key)), "")
        said = said if isinstance(said, str) else "".join(_parts(said))
        if "thinking" in part or part.get("type") in ("thinking", "reasoning"):
            thought += said
        else:
            text += said
    return thought, text


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    most = min(len(text), len(mark) - 1)
    return next((size for size in range(most, 0, -1) if mark.startswith(text[-size:])), 0)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _clean(text: str) -> str:
    joiner = foreign.TextJoiner()
    return joiner.feed(text) + joiner.end()


def replies_of(request: Request, notes: Sequence[str] = ()) -> list[ReplyReader]:
    """A reader for each reply that is wanted."""
    return [ReplyReader(request, number, tuple(notes)) for number in range(request.n)]
