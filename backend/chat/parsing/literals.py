"""JSON and literals as models write them: scanned while they arrive, read when they are whole."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Generator
from typing import Any, cast

from backend.chat.format import CallSyntax
from backend.chat.parsing.stream import Mark, Stream

WORDS: dict[str, Any] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "None": None,
}  # fmt: skip
MAX_DEPTH = 200
_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')
_SCALAR_END = re.compile(r"[\s,\]}<]")
_QUOTE_ENDS = re.compile(r"\s{0,1000}(?:[,)\]}:]|$)")
_SOME_SPACE = re.compile(r"\s{0,1000}")
_BARE = re.compile(r"[^\s,\]\)}:]+")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


class Malformed(Exception):
    """The text is not what the syntax demands; `text` is what was consumed of it."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(why)
        self.text = text


class Cut(Malformed):
    """The reply ended inside of it."""


def json_value(
    stream: Stream, emit: Callable[[str], None] | None = None, stop: Mark | None = None
) -> Generator[None, None, str]:
    """The text of the JSON value at the stream's position, consumed; `emit` gets it as it arrives.

    Raises Malformed where `stop` (the call's end) stands outside of a text, Cut at the end.
    """
    parts: list[str] = []
    scan = _JsonScan(stop)

    def consume(end: int) -> None:
        if end > stream.pos:
            part = stream.take(end)
            parts.append(part)
            if emit:
                emit(part)

    while True:
        end = scan.step(stream)
        consume(end)
        if scan.stopped:
            raise Malformed("it ends before its brackets are closed", "".join(parts))
        if scan.done:
            return "".join(parts)
        if stream.final:
            if scan.scalar and parts:
                return "".join(parts)
            raise Cut("the reply ended inside it", "".join(parts))
        yield


class _JsonScan:
    """Where a JSON value ends: the state between two pieces of text."""

    def __init__(self, stop: Mark | None) -> None:
        self.stop = stop
        self.depth = 0
        self.quoted = self.escaped = self.scalar = self.started = self.done = self.stopped = False
        firsts = re.escape(stop.first) if stop and stop.first else ""
        self.outside = re.compile(rf'["{{}}\[\]{firsts}]') if firsts else _OUTSIDE

    def step(self, stream: Stream) -> int:
        """Look at what is there; the position up to which it belongs to the value."""
        text, at, size = stream.text, stream.pos, len(stream.text)
        if not self.started and at < size:
            self.started = True
            self.scalar = text[at] not in '"{['
        while at < size and not self.done:
            if self.scalar:
                found = _SCALAR_END.search(text, at)
                self.done = found is not None
                return found.start() if found else size
            if self.quoted:
                at = self._in_text(text, at, size)
                continue
            found = self.outside.search(text, at)
            if not found:
                return size
            at = found.start()
            if self._is_stop(stream, at):
                return at
            at = self._bracket(text[at], at)
        return at

    def _in_text(self, text: str, at: int, size: int) -> int:
        if self.escaped:
            self.escaped = False
            return at + 1
        found = _INSIDE.search(text, at)
        if not found:
            return size
        if found.group() == "\\":
            self.escaped = True
        else:
            self.quoted = False
            self.done = self.depth == 0
        return found.end()

    def _is_stop(self, stream: Stream, at: int) -> bool:
        if not self.stop or stream.text[at] != self.stop.first:
            return False
        match = self.stop.match(stream.text, at, stream.final)
        if stream.text[at] in '"{}[]':
            return False
        self.stopped = match is not None and match != "partial"
        return match is not None

    def _bracket(self, character: str, at: int) -> int:
        if character == '"':
            self.quoted = True
        elif character in "{[":
            self.depth += 1
        elif character in "]}":
            self.depth -= 1
            self.done = self.depth <= 0
        return at + 1


def literal_text(stream: Stream, quote: tuple[str, str]) -> Generator[None, None, str]:
    """The text of the literal at the position, up to a comma or closing bracket outside of it."""
    parts: list[str] = []
    state = _LiteralScan(quote)
    while True:
        end = state.step(stream)
        if end > stream.pos:
            parts.append(stream.take(end))
        if state.done:
            return "".join(parts)
        if stream.final:
            raise Cut("the reply ended inside it", "".join(parts))
        yield


class _LiteralScan:
    def __init__(self, quote: tuple[str, str]) -> None:
        self.quote = quote if quote[0] and quote[0] not in "'\"" else None
        self.depth = 0
        self.inside = ""
        """The quote that ends the text we are in; empty outside."""
        self.escaped = self.done = False

    def step(self, stream: Stream) -> int:
        text, at, size = stream.text, stream.pos, len(stream.text)
        while at < size and not self.done:
            following = (
                self._inside(text, at, stream.final) if self.inside else self._outside(text, at, stream.final)
            )
            if following is None:
                return at
            at = following
        return at

    def _outside(self, text: str, at: int, final: bool) -> int | None:
        if self.quote and text.startswith(self.quote[0], at):
            self.inside = self.quote[1]
            return at + len(self.quote[0])
        cut = self.quote is not None and not final and len(text) - at < len(self.quote[0])
        if self.quote and cut and self.quote[0].startswith(text[at:]):
            return None
        character = text[at]
        if character in "\"'" and not self.quote:
            self.inside = character
        elif character in "([{":
            self.depth += 1
        elif character in ")]}" and self.depth:
            self.depth -= 1
        elif character in ")]}," and not self.depth:
            self.done = True
            return at
        return at + 1

    def _inside(self, text: str, at: int, final: bool) -> int | None:
        if self.escaped:
            self.escaped = False
            return at + 1
        if len(self.inside) > 1:
            return self._to_long_quote(text, at, final)
        if text[at] == "\\":
            self.escaped = True
        elif text[at] == self.inside:
            following = _SOME_SPACE.match(text, at + 1)
            if following and following.end() >= len(text) and not final:
                return None
            if _QUOTE_ENDS.match(text, at + 1):
                self.inside = ""
        return at + 1

    def _to_long_quote(self, text: str, at: int, final: bool) -> int | None:
        end = text.find(self.inside, at)
        if end >= 0:
            width, self.inside = len(self.inside), ""
            return end + width
        safe = len(text) - len(self.inside) + 1
        return len(text) if final else (safe if safe > at else None)


# ---- reading -------------------------------------------------------------------------------


def read_literal(text: str, syntax: CallSyntax | None = None) -> Any:
    """The value of a whole literal: JSON and Python words and quotes, and the syntax's own quotes
    and bare keys. Nothing is evaluated; raises Malformed."""
    reader = _Literal(text, syntax)
    value, end = reader.value(0, 0)
    if text[end:].strip():
        raise Malformed(f"unexpected text after a value: {text[end : end + 40]!r}", text)
    return value


class _Literal:
    def __init__(self, text: str, syntax: CallSyntax | None) -> None:
        self.text = text
        quote = syntax.quote if syntax else ("", "")
        self.quote = quote if quote[0] and quote[0] not in "'\"" else None

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        at = self._space(at)
        if depth > MAX_DEPTH:
            raise Malformed("it nests too deeply", self.text)
        if at >= len(self.text):
            raise Malformed("a value is missing", self.text)
        if self.quote and self.text.startswith(self.quote[0], at):
            start = at + len(self.quote[0])
            end = self.text.find(self.quote[1], start)
            if end < 0:
                raise Malformed("a text is not closed", self.text)
            return self.text[start:end], end + len(self.quote[1])
        match self.text[at]:
            case '"' | "'":
                return self._quoted(at)
            case "[" | "(":
                return self._list(at + 1, depth)
            case "{":
                return self._object(at + 1, depth)
            case _:
                return self._word(at)

    def _quoted(self, at: int) -> tuple[str, int]:
        mark, end = self.text[at], at + 1
        while end < len(self.text):
            if self.text[end] == "\\":
                end += 2
                continue
            if self.text[end] == mark and _QUOTE_ENDS.match(self.text, end + 1):
                return _unquoted(self.text[at : end + 1]), end + 1
            end += 1
        raise Malformed("a text is not closed", self.text)

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            at = self._space(at)
            if at >= len(self.text):
                raise Malformed("a list is not closed", self.text)
            if self.text[at] in "])":
                return items, at + 1
            item, at = self.value(at, depth + 1)
            items.append(item)
            at = self._comma(at, "])")

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        while True:
            at = self._space(at)
            if at >= len(self.text):
                raise Malformed("an object is not closed", self.text)
            if self.text[at] == "}":
                return members, at + 1
            key, at = self._key(at, depth)
            at = self._space(at)
            if not self.text.startswith(":", at):
                raise Malformed(f"the key {key!r} has no value", self.text)
            members[str(key)], at = self.value(at + 1, depth + 1)
            at = self._comma(at, "}")

    def _key(self, at: int, depth: int) -> tuple[Any, int]:
        if self.text[at] in "\"'" or (self.quote and self.text.startswith(self.quote[0], at)):
            return self.value(at, depth + 1)
        end = self.text.find(":", at)
        if end < 0:
            raise Malformed("a key has no value", self.text)
        return self.text[at:end].strip(), end

    def _comma(self, at: int, closing: str) -> int:
        at = self._space(at)
        if self.text.startswith(",", at):
            return at + 1
        if at < len(self.text) and self.text[at] not in closing:
            raise Malformed(f"a comma is missing before {self.text[at : at + 20]!r}", self.text)
        return at

    def _word(self, at: int) -> tuple[Any, int]:
        match = _BARE.match(self.text, at)
        word = match.group() if match else ""
        if word in WORDS:
            return WORDS[word], at + len(word)
        if _NUMBER.fullmatch(word):
            try:
                return ast.literal_eval(word), at + len(word)
            except (ValueError, SyntaxError):
                pass
        raise Malformed(f"not a value: {self.text[at : at + 40]!r}", self.text)

    def _space(self, at: int) -> int:
        while at < len(self.text) and self.text[at].isspace():
            at += 1
        return at


def _unquoted(text: str) -> str:
    if text[0] == '"':
        try:
            return cast("str", json.loads(text, strict=False))
        except ValueError:
            pass
    try:
        value = ast.literal_eval(text.replace("\r", "\\r").replace("\n", "\\n"))
    except (ValueError, SyntaxError):
        return text[1:-1]
    return value if isinstance(value, str) else text[1:-1]
