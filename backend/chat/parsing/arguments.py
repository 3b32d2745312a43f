"""Reads arguments that are written one by one, key and value apart."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any

from backend.chat.adapt import mapping
from backend.chat.format import KEY, TYPE, CallSyntax
from backend.chat.format import visible as visible_atoms
from backend.chat.parsing.calls import NotACall, OpenCall, excerpt
from backend.chat.parsing.literals import Cut, literal_text, read_literal
from backend.chat.parsing.looking import coming, passed, taken_to
from backend.chat.parsing.stream import Mark, Match, Stream, skip_space, wait_for
from backend.chat.parsing.values import Tree, decode, type_names

_SOME_SPACE = re.compile(r"\s{0,1000}")


class ArgumentReader:
    """Reads the arguments of one call up to and with the call's end."""

    def __init__(self, syntax: CallSyntax) -> None:
        self.syntax = syntax
        self.opening = Mark(syntax.argument_start + KEY + syntax.value_start.rstrip())
        self.start = Mark(syntax.argument_start)
        self.separator = Mark(syntax.argument_separator)
        self.closing = Mark(syntax.argument_end)
        self.call_end = Mark(syntax.call_end)
        self.short_end = Mark(next(iter(visible_atoms(syntax.call_end)), ""))
        texts = (syntax.argument_start, syntax.call_end, syntax.argument_separator)
        firsts = [next(iter(visible_atoms(text)), "") for text in texts]
        self.followers = [Mark(text) for text in firsts if text]
        """What may stand behind a value's closing tag."""

    def read(
        self, stream: Stream, call: OpenCall, schema: object, values: dict[str, Any]
    ) -> Generator[None, None, None]:
        """Fill `values`, and tell their JSON text as it becomes certain. Raises Malformed and Cut."""
        properties = mapping(mapping(schema).get("properties"))
        call.write("{")
        while (argument := (yield from self._next(stream, call, next(reversed(values), "")))) is not None:
            key = argument.values[KEY]
            lead = (", " if values else "") + json.dumps(key, ensure_ascii=False) + ": "
            values[key] = yield from self._value(stream, call, argument, lead, (properties.get(key), schema))

    def _next(self, stream: Stream, call: OpenCall, behind: str) -> Generator[None, None, Match | None]:
        """The next argument's opening, consumed; None behind the call's end. `behind`: the last key."""
        while True:
            if match := (yield from coming(stream, self.opening)):
                stream.pos = match.end
                return match
            if (yield from passed(stream, self.separator)):
                continue
            if (yield from passed(stream, self.call_end)) or (yield from passed(stream, self.short_end)):
                return None
            yield from skip_space(stream)
            if stream.ended:
                raise Cut("the reply ended inside it")
            if not call.known:
                raise NotACall
            yield from self._skip_junk(stream, call, behind)

    def _skip_junk(self, stream: Stream, call: OpenCall, behind: str) -> Generator[None, None, None]:
        where = f"after its argument {behind!r}" if behind else "before its arguments"
        first = stream.take(stream.pos + 1)
        wanted = [mark for mark in (self.start, self.short_end) if mark.first]
        rest, found = yield from taken_to(stream, wanted)
        call.fault = call.fault or f"the call is malformed {where}: {excerpt(first + rest)}"
        if found is None:
            raise Cut("the reply ended inside it")
        stream.pos = found[1].start

    def _value(
        self, stream: Stream, call: OpenCall, argument: Match, lead: str, schemas: tuple[object, object]
    ) -> Generator[None, None, Any]:
        """One value; `lead` is the JSON text in front of it, `schemas` its schema and the whole one."""
        schema, root = schemas
        if self.syntax.literal:
            text = yield from literal_text(stream, self.syntax.quote)
            value = read_literal(text, self.syntax)
            call.write(lead + json.dumps(value, ensure_ascii=False))
            return value
        reader = RawValue(self, argument, schema, root)
        if reader.is_text and self.syntax.nested != "tree":
            call.write(lead + '"')
            raw = yield from reader.read(stream, call)
            call.write('"')
            return raw
        raw = yield from reader.read(stream, None)
        if self.syntax.nested == "tree":
            value = Tree(self.syntax, root).value(raw, schema)
        elif reader.wrapped:
            value = raw
        else:
            value = decode(raw, schema, root, argument.values.get(TYPE), self.syntax)
        call.write(lead + json.dumps(value, ensure_ascii=False))
        return value


class RawValue:
    """One value between tags, up to the closing tag that is followed by another part of a call."""

    def __init__(self, reader: ArgumentReader, argument: Match, schema: object, root: object) -> None:
        syntax = reader.syntax
        self.reader = reader
        self.key = argument.values[KEY]
        framed_start = syntax.value_start[len(syntax.value_start.rstrip()) :]
        framed_end = syntax.argument_end[: len(syntax.argument_end) - len(syntax.argument_end.lstrip())]
        self.framed = "\n" in framed_start, "\n" in framed_end
        word = argument.values.get(TYPE)
        if word is not None and syntax.types:
            self.is_text = word == dict(syntax.types).get("string")
        else:
            self.is_text = type_names(schema, root) == {"string"}
        self.wrapped = False
        self.nested = 0
        self.nested_start = Mark(syntax.argument_start + KEY + syntax.value_start.rstrip())

    def read(self, stream: Stream, call: OpenCall | None) -> Generator[None, None, str]:
        """The raw value, consumed with its closing tag. With `call`, a text is told as it arrives."""
        if self.framed[0]:
            while stream.ended and not stream.final:
                yield
            if stream.text.startswith("\n", stream.pos):
                stream.pos += 1
        parts: list[str] = []
        if self.reader.syntax.wrap[0]:
            yield from self._unwrap(stream, parts, call)
        held = ""
        while True:
            at, closed = self._closing(stream)
            text = held + stream.take(at)
            held = ""
            if closed is None and text.endswith("\n") and self.framed[1]:
                text, held = text[:-1], "\n"
            elif closed is not None and text.endswith("\n") and self.framed[1]:
                text = text[:-1]
            if not self.wrapped:
                parts.append(text)
                self._tell(call, text)
            if closed is not None:
                stream.pos = closed.end
                return "".join(parts)
            if stream.final and stream.ended:
                raise Cut("the reply ended inside it")
            yield

    def _tell(self, call: OpenCall | None, text: str) -> None:
        if call is not None and text:
            call.write(json.dumps(text, ensure_ascii=False)[1:-1])

    def _unwrap(self, stream: Stream, parts: list[str], call: OpenCall | None) -> Generator[None, None, None]:
        """A text in its wrapper (CDATA), which may hold closing tags."""
        opening, closing = self.reader.syntax.wrap
        match = yield from wait_for(stream, Mark(opening))
        if match is None:
            return
        self.wrapped = True
        stream.pos = match.end
        while True:
            end = stream.text.find(closing, stream.pos)
            safe = end if end >= 0 else max(stream.pos, len(stream.text) - len(closing) + 1)
            text = stream.take(safe)
            parts.append(text)
            self._tell(call, text)
            if end >= 0:
                stream.pos = end + len(closing)
                return
            if stream.final:
                raise Cut("the reply ended inside it")
            yield

    def _closing(self, stream: Stream) -> tuple[int, Match | None]:
        """How far the value surely reaches, and its closing tag once it is there."""
        mark, at = self.reader.closing, stream.pos
        while True:
            at = stream.text.find(mark.first, at) if mark.first else len(stream.text)
            if at < 0:
                return len(stream.text), None
            if self.reader.syntax.nested == "tree" and self._opens(stream, at):
                self.nested += 1
                at += 1
                continue
            match = mark.match(stream.text, at, stream.final, self.key)
            if match == "partial":
                return at, None
            if match is None:
                at += 1
                continue
            follows = self._is_end(stream, match)
            if follows is None:
                return at, None
            if follows:
                return at, match
            at += 1

    def _opens(self, stream: Stream, at: int) -> bool:
        match = self.nested_start.match(stream.text, at, stream.final, self.key)
        return match is not None and match != "partial"

    def _is_end(self, stream: Stream, match: Match) -> bool | None:
        """Whether the closing tag is the value's own; None while that cannot be told."""
        if self.reader.syntax.nested == "tree":
            self.nested -= 1
            return self.nested < 0
        blanks = _SOME_SPACE.match(stream.text, match.end)
        at = blanks.end() if blanks else match.end
        if at >= len(stream.text):
            return True if stream.final else None
        answers = [mark.match(stream.text, at, stream.final) for mark in self.reader.followers]
        if any(answer is not None and answer != "partial" for answer in answers):
            return True
        return None if "partial" in answers else False
