"""Turns a model's text into thought, text and calls. One file, because it is one generator.

Increments may have any size.
The parser is one generator over a `Stream`; what it has decided it never takes back, and only text
that may still become a marker is held.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from backend.chat.format import ChatFormat, is_tag
from backend.chat.parsing.call_reader import CallReader
from backend.chat.parsing.calls import CallSink, NotACall
from backend.chat.parsing.looking import coming_of
from backend.chat.parsing.replies import FenceFilter, ReplyText
from backend.chat.parsing.stream import Mark, Marks, Match, Stream
from backend.types import HeldPiece, ReasoningFormat, ReasoningPiece, TextPiece, ToolCall, ToolCallPiece

ReplyPiece: TypeAlias = TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece
Mode = Literal["boundary", "thought", "wrapped", "content"]
_REPLACEMENT = "\ufffd"
ENDS_UNBEGUN = "The reply ends a thought that it never began; the text before that may be thinking."
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_LOOKED_AT, _MOST_NAMES = 4000, 64
"""Characters of a reply in which names of tools are looked for, and how many."""


@dataclass(frozen=True)
class ParsedReply:
    """A reply taken apart.

    `incomplete` is True when it ended inside a thought or a call. `pieces` are those that only the
    end of the reply released. `warnings` are sentences for the reader, of a call that nobody offered or
    of a thought that was only ended.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    incomplete: bool = False
    pieces: tuple[ReplyPiece, ...] = ()
    warnings: tuple[str, ...] = ()


class ReplyParser:
    """Parses one reply. `feed` it text, then `finish` it.

    The reply continues `prime`, the part of the prompt behind the assistant's header.
    """

    def __init__(
        self,
        chat_format: ChatFormat,
        *,
        prime: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        reasoning_format: ReasoningFormat = "auto",
        fenced: bool = False,
        forced: bool = False,
        specials: bool = False,
    ) -> None:
        """`tools` in the OpenAI envelope; calls are read only when there are some. `fenced` takes
        a Markdown fence off an answer that is bound to a schema. `forced`: the reply had to be a
        call, so what its end leaves undecided was the beginning of one, and no text. With
        `specials`, what ends a turn is text of it."""
        self.format = chat_format
        self._forced = forced and bool(tools)
        self._broken = ""
        self.specials = specials
        self.sink = CallSink(tools)
        self.unoffered = ""
        """The name of a tool that the model called though none was offered."""
        self._is_bound = fenced
        self._ends_unbegun = False
        self._backticks = 0
        self.reply = ReplyText(raw=reasoning_format == "none", fence=FenceFilter() if fenced else None)
        self.stream = Stream()
        self._done = False
        self._marks(chat_format, bool(tools))
        self._run = self._read()
        self._prime(prime)

    def _marks(self, chat_format: ChatFormat, offered: bool) -> None:
        thought, calls = chat_format.thought, chat_format.calls if offered else None
        self.calls = CallReader(calls, self.sink) if calls else None
        self.triggers = list(self.calls.triggers) if self.calls else []
        self.thought_start = Mark(thought.start if thought else "")
        self.thought_end = Mark(thought.end if thought else "")
        self.content_start = Mark(chat_format.content_start)
        self.content_end = Mark(chat_format.content_end)
        ends = () if self.specials else (*chat_format.end_of_turn, *chat_format.skipped)
        self.ends = [Mark(text) for text in ends]
        self.openers = Marks([self.thought_start, self.content_start])
        self.call_openers = Marks(self.triggers)
        self.dropped = Marks([*self.ends, self.content_end])
        self.dropped_first = Marks([*self.ends, self.content_end, self.thought_end])

    # ---- outside ---------------------------------------------------------------------------

    def feed(self, text: str) -> list[ReplyPiece]:
        """What `text`, the next part of the reply, adds: pieces that are never taken back."""
        if self._forced:  # A character that was cut is told as replacement characters, at the end.
            text = self._broken + text
            whole = text.rstrip(_REPLACEMENT)
            text, self._broken = whole, text[len(whole) :]
        self.stream.append(text)
        self._advance()
        return self._released()

    def finish(self) -> ParsedReply:
        """The reply as a whole, once no more text comes."""
        self.stream.final = True
        self.reply.textless = self._forced
        self._advance()
        self.reply.close()
        pieces = self._released()
        return ParsedReply(
            content=self.reply.content,
            reasoning=self.reply.reasoning,
            tool_calls=tuple(self.sink.calls),
            incomplete=self.sink.incomplete or self.reply.in_thought,
            pieces=tuple(pieces),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Generator[str]:
        if self._ends_unbegun:
            yield ENDS_UNBEGUN
        if self.calls is None and self.format.calls is not None and not self._is_bound:
            self.unoffered = self.unoffered or called_in(self.format, self.reply.content)
        if self.unoffered:
            yield f"The model called the tool {self.unoffered}, but no tools are offered."

    @property
    def in_thought(self) -> bool:
        """Whether what comes next belongs to a thought, as far as is known."""
        return self.reply.in_thought

    def _advance(self) -> None:
        if not self._done:
            self._done = next(self._run, "done") == "done"

    def _released(self) -> list[ReplyPiece]:
        return self.reply.take()

    def _prime(self, prime: str) -> None:
        """Read what the prompt already holds of the reply; nothing of it is told again."""
        thought = self.format.thought
        primed = bool(thought and thought.keeps_start and prime.strip())
        self.mode: Mode = "thought" if primed else "boundary"
        keeps = primed and thought is not None and prime.strip() == thought.start.strip()
        self.reply.in_thought = primed
        self.reply.muted = not keeps
        if prime.strip():
            self.stream.append(prime)
            self._advance()
        self.stream.silent = len(self.stream.text)
        self.reply.end_prime()

    # ---- the generator ---------------------------------------------------------------------

    def _read(self) -> Generator[None, None, None]:
        while not (self.stream.final and self.stream.ended):
            match self.mode:
                case "boundary":
                    yield from self._boundary()
                case "thought":
                    yield from self._thought()
                case "wrapped":
                    yield from self._wrapped()
                case "content":
                    yield from self._content()

    def _boundary(self) -> Generator[None, None, None]:
        """Between parts: a thought, a text or calls may begin."""
        stream = self.stream
        at, found = yield from coming_of(stream, self.openers)
        if at >= len(stream.text):
            self.reply.blank(stream.take(at))
            return
        if found is not None:
            index, match = found
            opened = stream.text[at : match.end]
            stream.pos = match.end
            if self.openers.marks[index] is self.thought_start:
                self.reply.open_thought(opened)
                self.mode = "thought"
            else:
                self.reply.open_wrapper()
                self.mode = "wrapped"
            return
        if (yield from self._calls_next()):
            return
        dropped = self.dropped if self.reply.begun else self.dropped_first
        _, found = yield from coming_of(stream, dropped)
        if found is not None:
            stream.pos = found[1].end
            if dropped.marks[found[0]] is self.thought_end:
                self.reply.skip_blank_lines()
            return
        self.mode = "content"

    def _calls_next(self) -> Generator[None, None, bool]:
        """Read the calls that come next; False when there are none."""
        stream, calls = self.stream, self.calls
        if calls is None:
            return False
        at, found = yield from coming_of(stream, self.call_openers)
        bare = calls.syntax.section_start[:1] or "{"
        opens = found is not None or (not self.triggers and stream.text.startswith(bare, at))
        if not opens or (not self.triggers and self.reply.has_text):
            return False
        width = found[1].end - at if found is not None else 0
        blanks = stream.take(at)
        if (yield from self._read_calls()):
            return True
        self.reply.text(blanks + stream.take(stream.pos + width))
        self.mode = "content"
        return True

    def _read_calls(self) -> Generator[None, None, bool]:
        assert self.calls is not None
        told = len(self.sink.pieces)
        reader = self.calls.read(self.stream)
        while True:
            try:
                next(reader)
            except StopIteration:
                self._tell_calls(told)
                return True
            except NotACall:
                return False
            self._tell_calls(told)
            told = len(self.sink.pieces)
            yield

    def _tell_calls(self, told: int) -> None:
        for piece in self.sink.pieces[told:]:
            self.reply.call(piece)

    def _thought(self) -> Generator[None, None, None]:
        """Inside a thought, up to its end; a call in it counts only if the thought is never closed."""
        stream = self.stream
        strict = self.content_start.parts != []
        marks = Marks([self.thought_end, self.content_start, *([] if strict else self.triggers)])
        while True:
            at, found = marks.find(stream.text, stream.pos, stream.final)
            self.reply.thought(stream.take(at))
            if found is None:
                if stream.final:
                    return
                yield
                continue
            index, match = found
            mark = marks.marks[index]
            if mark is self.thought_end:
                self.reply.close_thought(stream.take(match.end))
                self.mode = "boundary"
            elif mark is self.content_start:
                self.reply.close_thought("")
                self.mode = "boundary"
            else:
                yield from self._call_in_thought()
            return

    def _call_in_thought(self) -> Generator[None, None, None]:
        """Hold what looks like a call until the thought is closed (then it was thought) or the
        reply ends (then it is a call)."""
        stream = self.stream
        trial = ThoughtTrial(self)
        while True:
            closed = trial.step()
            held = trial.new_text()
            if held:
                self.reply.hold(held)
            if closed is not None:
                self.reply.thought(stream.take(closed))
                return
            if stream.final:
                break
            yield
        if trial.is_call:
            self.reply.close_thought("")
            self.mode = "boundary"
            yield from self._read_calls()
        else:
            self.reply.thought(stream.take(len(stream.text)))

    def _wrapped(self) -> Generator[None, None, None]:
        """Inside a text with markers of its own: only its end counts."""
        stream = self.stream
        ends = [self.content_end, *self.ends, self.thought_end]
        if self.calls is not None:
            ends.append(self.calls.separator if self.calls.separator_is_tag else Mark(""))
        stops = self.triggers[:1] if not self.content_end.parts else []
        marks = Marks([*ends, *stops])
        while True:
            at, found = marks.find(stream.text, stream.pos, stream.final)
            self.reply.text(stream.take(at))
            if found is not None:
                if marks.marks[found[0]] not in stops:
                    stream.pos = found[1].end
                self.mode = "boundary"
                return
            if stream.final:
                return
            yield

    def _content(self) -> Generator[None, None, None]:
        """Inside plain text: a call may begin, or the turn end."""
        stream = self.stream
        reopens = [self.thought_start] if self.format.reopens else []
        orphans = [] if self.reply.raw or not is_tag(self.thought_end.text.strip()) else [self.thought_end]
        marks = Marks([*self.triggers, *self.ends, self.content_start, *reopens, *orphans])
        while True:
            at, found = marks.find(stream.text, stream.pos, stream.final)
            text = stream.take(at)
            self._backticks += text.count("`")
            self.reply.text(text)
            if found is None:
                if stream.final:
                    return
                yield
                continue
            mark, match = marks.marks[found[0]], found[1]
            if mark in orphans:
                self._pass_orphan(match)
                continue
            if mark in self.triggers:
                if not (yield from self._read_calls()):
                    self.reply.text(stream.take(stream.pos + match.end - match.start))
                    continue
                self.mode = "boundary"
            elif mark in reopens:
                self.mode = "boundary"
            else:
                stream.pos = match.end
                self.mode = "wrapped" if mark is self.content_start else "boundary"
            return

    def _pass_orphan(self, match: Match) -> None:
        """Drop the end of a thought that was not begun; in code it is text."""
        if self._backticks % 2:
            self.reply.text(self.stream.take(match.end))
            return
        self.stream.pos = match.end
        if self.reply.has_text:
            self._ends_unbegun = True
        else:
            self.reply.skip_blank_lines()


def called_in(chat_format: ChatFormat, content: str) -> str:
    """The tool that a text calls in the words of `chat_format`; empty where it calls none."""
    assert chat_format.calls is not None
    marks = [mark.first for mark in CallReader(chat_format.calls, CallSink(())).triggers]
    if marks and not any(mark in content for mark in marks):
        return ""
    if not marks and not content.lstrip().startswith(("{", "[")):
        return ""
    names = dict.fromkeys(_NAME.findall(content[:_LOOKED_AT]))
    tools = [{"function": {"name": name}} for name in list(names)[:_MOST_NAMES]]
    parser = ReplyParser(chat_format, tools=tools)
    parser.feed(content)
    found = parser.finish()
    is_call = found.tool_calls and (marks or not found.content.strip())
    return found.tool_calls[0].name if is_call else ""


class ThoughtTrial:
    """Reads a possible call inside a thought on a copy of the stream, and looks for the thought's
    end behind it."""

    def __init__(self, parser: ReplyParser) -> None:
        assert parser.calls is not None
        self.stream = parser.stream
        self.end = Marks([parser.thought_end])
        self.start = parser.stream.pos
        self.told = 0
        self.is_call = False
        self._copy = Stream()
        self._sink = CallSink(())
        self._sink.schemas = parser.sink.schemas
        self._run = CallReader(parser.calls.syntax, self._sink).read(self._copy)
        self._running = True
        self._copied = self._searched = 0

    def step(self) -> int | None:
        """Look at what is new; the position of the thought's end once it is there."""
        stream = self.stream
        if self._running:
            self._copy.final = stream.final
            self._copy.append(stream.text[stream.pos + self._copied :])
            self._copied = len(stream.text) - stream.pos
            self._try()
        if self._running:
            return None
        at, found = self.end.find(stream.text, stream.pos + self._searched, stream.final)
        self._searched = at - stream.pos
        return at if found else None

    def _try(self) -> None:
        try:
            next(self._run)
            return
        except StopIteration:
            complete = all(call.error is None for call in self._sink.calls)
            self.is_call = bool(self._sink.calls) and complete and not self._sink.incomplete
            if self.is_call:
                self._searched = self._copied - (len(self._copy.text) - self._copy.pos)
        except NotACall:
            pass
        self._running = False

    def new_text(self) -> str:
        """What is held and was not shown yet."""
        text = self.stream.text[self.stream.pos + self.told :]
        self.told += len(text)
        return text
