"""Where a one-shot's answer goes: as text, as rendered Markdown, as one JSON object, as JSON lines.

A sink gets every piece and event as it arrives, then either `end` or `fail`, once. Standard output carries
the answer and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias, Union

from app.characters import clean_text
from app.exits import Failure
from app.frontend.markdown_style import own_style
from app.markdown.stream import MarkdownStream
from app.terminal.output import (
    errors,
    escape_json,
    is_terminal,
    notify,
    prepare,
    sanitize,
    takes_styles,
)
from backend.types import (
    ChatOutcome,
    Piece,
    PrefillProgress,
    ReasoningPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
)

if TYPE_CHECKING:
    from app.sessions.events import SessionEvent

Heard: TypeAlias = Union[Piece, "SessionEvent"]
"""A piece of a reply, or an event of the session that gives it."""
SEPARATOR = "---"


@dataclass
class ReplySoFar:
    """What has arrived of one reply."""

    text: str = ""
    reasoning: str = ""
    outcome: ChatOutcome | None = None

    def take(self, piece: TextPiece | ReasoningPiece | ChatOutcome) -> None:
        match piece:
            case TextPiece():
                self.text += piece.text
            case ReasoningPiece():
                self.reasoning += piece.text
            case ChatOutcome():
                self.outcome = piece


@dataclass
class Answer:
    """What has arrived of everything that one call is to give."""

    replies: list[ReplySoFar]
    model: str
    session_id: str | None = None
    """The chat it is kept in; None where it is not kept."""
    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    denied: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The calls that were refused, each with its reason."""
    failure: Failure | None = None
    """Why the answer, whole as it looks, does not do."""

    @property
    def begun(self) -> bool:
        """Whether there is anything to show."""
        return any(reply.text or reply.outcome for reply in self.replies)

    def as_dict(self) -> dict[str, Any]:
        """The answer as the JSON formats show it: the first reply's fields, and a list of several."""
        fields = [_reply_fields(reply) for reply in self.replies]
        whole: dict[str, Any] = {
            **fields[0],
            "files": self.files,
            "denied": self.denied,
            "session_id": self.session_id,
            "model": self.model,
        }
        if len(fields) > 1:
            whole["replies"] = fields
        return {**whole, **self.failure.as_dict()} if self.failure else whole


class Sink(Protocol):
    """What a one-shot writes its answer to."""

    def take(self, heard: Heard) -> None: ...

    def end(self, answer: Answer) -> None: ...

    def fail(self, failure: Failure, answer: Answer) -> None: ...


class TextSink:
    """Standard output as text: rendered where it is a terminal that takes styles, else unchanged."""

    def __init__(self, out: IO[str], *, show_thinking: bool, extract: bool) -> None:
        self._out = prepare(out)
        self._show_thinking = show_thinking
        self._extract = extract
        self._is_terminal = is_terminal(out)
        self._markdown = MarkdownStream(self._out, own_style) if takes_styles(out) else None
        self._waiting: dict[int, list[TextPiece | ReasoningPiece | ChatOutcome]] = {}
        self._current = 0
        self._begun = False
        self._held: list[str] = []
        self._last = "\n"
        self._thinking = False

    def take(self, heard: Heard) -> None:
        """Show a piece, or keep it until the replies before its own are finished."""
        if not isinstance(heard, TextPiece | ReasoningPiece | ChatOutcome):
            return
        self._waiting.setdefault(heard.reply, []).append(heard)
        while waiting := self._waiting.pop(self._current, None):
            for item in waiting:
                self._show(item)

    def end(self, answer: Answer) -> None:
        """Everything is shown already."""

    def fail(self, failure: Failure, answer: Answer) -> None:
        """Keep what was shown, and say on standard error what went wrong."""
        self._write("".join(self._held))
        if self._markdown is not None:
            self._markdown.finish(draw=False)
        elif self._last != "\n":
            self._write("\n")
        notify(str(failure))

    def _show(self, piece: TextPiece | ReasoningPiece | ChatOutcome) -> None:
        if not self._begun and self._current:
            self._write(f"{SEPARATOR}\n")
        self._begun = True
        match piece:
            case ReasoningPiece():
                self._think(piece.text)
            case TextPiece():
                self._answer(piece.text)
            case ChatOutcome():
                self._finish_reply()

    def _answer(self, text: str) -> None:
        if self._thinking:
            self._think("\n")
            self._thinking = False
        if self._extract:
            self._held.append(text)
        elif self._markdown is not None:
            self._markdown.write(text)
        else:
            self._write(text)

    def _think(self, text: str) -> None:
        if self._show_thinking and (err := errors()) is not None:
            self._thinking = True
            err.write(sanitize(text))
            err.flush()

    def _finish_reply(self) -> None:
        if self._extract:
            held = "".join(self._held)
            self._held.clear()
            block = first_fenced_block(held)
            if block is None:
                notify("the reply contains no fenced block; this is the whole reply")
            self._write(held if block is None else block)
        elif self._markdown is not None:
            self._markdown.finish()
        if self._last != "\n":
            self._write("\n")
        self._current, self._begun = self._current + 1, False

    def _write(self, text: str) -> None:
        if text:
            self._last = text[-1]  # first: a signal may end this method right after the write
            self._out.write(sanitize(text) if self._is_terminal else clean_text(text))
            self._out.flush()


class JsonSink:
    """Standard output as exactly one JSON object, whatever happens."""

    def __init__(self, out: IO[str]) -> None:
        self._out = prepare(out)

    def take(self, heard: Heard) -> None:
        """Nothing is shown before the end."""

    def end(self, answer: Answer) -> None:
        """Print the answer: the reply's fields, and all `replies` where several were asked for."""
        write_json(self._out, answer.as_dict())

    def fail(self, failure: Failure, answer: Answer) -> None:
        """Print the failure, with what had arrived of the answer."""
        partial = answer.as_dict() if answer.begun else {}
        write_json(self._out, {**partial, **failure.as_dict()})


class JsonLinesSink:
    """Standard output as one JSON object per event, as it happens; the last one is `done` or `error`."""

    def __init__(self, out: IO[str]) -> None:
        self._out = prepare(out)

    def take(self, heard: Heard) -> None:
        if (fields := _fields(heard)) is not None:
            write_json(self._out, fields)

    def end(self, answer: Answer) -> None:
        """Print the whole answer once more, as the last event."""
        write_json(self._out, {"type": "done", **answer.as_dict()})

    def fail(self, failure: Failure, answer: Answer) -> None:
        """Print the failure as the last event."""
        write_json(self._out, {"type": "error", **failure.as_dict()})


class EventsSink(JsonLinesSink):
    """As `JsonLinesSink`, for a turn of a session: its typed events in the shapes of the wire."""

    def take(self, heard: Heard) -> None:
        """Print what is an event; the pieces of a session are parts of what it tells by events."""
        from app.sessions.events import SessionEvent  # where there is a session, it is loaded

        if isinstance(heard, SessionEvent):
            write_json(self._out, heard.to_wire())


def first_fenced_block(text: str) -> str | None:
    """The code of the first fence of a Markdown text, as the screen would show it; None without a fence."""
    from app.markdown.markdown import MarkdownText  # 60 ms that only this needs

    blocks = MarkdownText(text, finished=True).code_blocks()
    return next((block.code for block in blocks if block.fenced), None)


def write_json(out: IO[str], value: Mapping[str, Any]) -> None:
    """`value` as one line of JSON; a terminal gets it without a character that it would obey or hide."""
    text = clean_text(json.dumps(value, ensure_ascii=False))
    out.write((escape_json(text) if is_terminal(out) else text) + "\n")
    out.flush()


def _reply_fields(reply: ReplySoFar) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "tool_calls": [call.to_message() for call in reply.outcome.tool_calls] if reply.outcome else [],
    }
    if (report := reply.outcome) is None:
        return fields
    return fields | {
        "finish": report.finish,
        "stop_match": report.stop_match,
        "seed": report.seed,
        "truncated": report.truncated,
        "schema_errors": list(report.schema_errors),
        "usage": {
            "prompt_tokens": report.prompt_tokens,
            "reused_tokens": report.reused_tokens,
            "new_tokens": report.new_tokens,
            "reasoning_tokens": report.reasoning_tokens,
        },
        "timings": {
            "queue_s": report.queue_s,
            "prefill_s": report.prefill_s,
            "decode_s": report.decode_s,
            "time_to_first_token_s": report.time_to_first_token_s,
            "tokens_per_second": report.tokens_per_second,
        },
    }


def _fields(heard: Heard) -> dict[str, Any] | None:
    match heard:
        case TextPiece(text=text, reply=reply):
            return {"type": "text", "reply": reply, "text": text}
        case ReasoningPiece(text=text, reply=reply):
            return {"type": "reasoning", "reply": reply, "text": text}
        case ToolCallPiece():
            delta = {"index": heard.index, "name": heard.name, "arguments_delta": heard.arguments_delta}
            return {"type": "tool_call_delta", "reply": heard.reply, **delta}
        case ToolCall():
            return {**heard.to_message(), "type": "tool_call"}
        case PrefillProgress(done=done, total=total, reused=reused):
            return {"type": "prefill", "done": done, "total": total, "reused": reused}
        case _:
            return None
