"""Reads calls that stand behind the format's own mark in another format's shape: JSON objects, lists of
them, OpenAI's envelope, a name in front of its arguments. It never reads prose, nor only unknown tools."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias, cast

from backend.chat.adapt import mapping
from backend.chat.format import CallSyntax, atoms, is_tag
from backend.chat.format import visible as visible_atoms
from backend.chat.parsing.calls import CallSink, OpenCall
from backend.chat.parsing.literals import Malformed, json_value, read_literal
from backend.chat.parsing.looking import coming_of, passed
from backend.chat.parsing.stream import Mark, Marks, Stream, skip_space

Found: TypeAlias = list[tuple[str, str]]
"""Names with the text of their arguments."""

_FENCE = Mark("```json")
_BARE_FENCE = Mark("```")
_BETWEEN = re.compile(r"(?:\s|\[ARGS\]|\[CALL_ID\]\w{0,100}){0,100}")
_BETWEEN_BEGUN = re.compile(r"(?:\s|\[ARGS\]|\[CALL_ID\]\w{0,100}){0,100}(?:\[[A-Z_]{0,20})?$")


class LooseReader:
    """Reads what follows a call's mark and is not what the format demands there."""

    def __init__(self, syntax: CallSyntax, sink: CallSink) -> None:
        self.sink = sink
        self.heads = [_tags(text) for text in syntax.triggers]
        """The whole tags that open a call, without what the format puts behind them."""
        self.marks = Marks([Mark(text) for text in self.heads])
        ends = (*visible_atoms(syntax.call_end), *visible_atoms(syntax.section_end))
        self.ends = [Mark(text) for text in dict.fromkeys(ends) if is_tag(text)]
        self.names = sorted(sink.schemas, key=len, reverse=True)
        self.passed = 0
        """Characters that the last reading passed over where it found no call."""

    def read(self, stream: Stream) -> Generator[None, None, bool]:
        """Read the calls behind the mark at the position; False, with nothing consumed, when these
        are none. The stream must keep its text from there on."""
        opened = False
        while (found := (yield from coming_of(stream, self.marks))[1]) is not None:
            stream.pos = found[1].end
            opened = True
        if not opened:
            self.passed = 0
            return False
        try:
            calls = yield from self._calls(stream)
        except Malformed:
            calls = []
        if not any(name in self.sink.schemas for name, _ in calls):
            assert stream.keep is not None
            self.passed = stream.pos - stream.keep
            stream.pos = stream.keep
            return False
        for name, arguments in calls:
            call = OpenCall(self.sink, name)
            call.write(arguments)
            call.tell()
            call.close()
        stream.keep = None
        for mark in self.ends:
            yield from passed(stream, mark)
        return True

    def _calls(self, stream: Stream) -> Generator[None, None, Found]:
        yield from skip_space(stream)
        fenced = (yield from passed(stream, _FENCE)) or (yield from passed(stream, _BARE_FENCE))
        yield from skip_space(stream)
        name = yield from self._name(stream)
        if not stream.text.startswith(("{",) if name else ("{", "["), stream.pos):
            return []
        text = yield from json_value(stream)
        if fenced:
            yield from passed(stream, _BARE_FENCE)
        return [(name, text)] if name else _calls_of(_value(text))

    def _name(self, stream: Stream) -> Generator[None, None, str]:
        """An offered tool's name in front of an object, consumed; empty when there is none."""
        while True:
            text, at = stream.text, stream.pos
            name = next((name for name in self.names if text.startswith(name, at)), "")
            longer = [each for each in self.names if len(each) > len(text) - at]
            begun = bool(longer) and any(each.startswith(text[at:]) for each in longer)
            behind = _BETWEEN.match(text, at + len(name))
            if not stream.final and (begun or (name and _BETWEEN_BEGUN.match(text, at + len(name)))):
                yield
                continue
            if not name or behind is None or not text.startswith("{", behind.end()):
                return ""
            stream.pos = behind.end()
            return name


def _tags(trigger: str) -> str:
    """The mark without the bracket, the begun tag or the namespace behind its last whole tag."""
    parts = atoms(trigger)
    last = max((index for index, atom in enumerate(parts) if is_tag(atom)), default=len(parts))
    rest = "".join(parts[last + 1 :]).strip()
    cut = not rest.strip("[{(") or rest.startswith("<") or rest == "functions."
    return "".join(parts[: last + 1]).strip() if cut else trigger


def _value(text: str) -> Any:
    """What the text writes as JSON or as a Python literal, in single or doubled brackets."""
    doubled = text.startswith("{{") and text.endswith("}}")
    for candidate in (text, text[1:-1]) if doubled else (text,):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            pass
        try:
            return read_literal(candidate)
        except (Malformed, RecursionError):
            pass
    raise Malformed("it is not a value", text)


def _calls_of(value: Any) -> Found:
    """The calls an object or a list of objects writes; none when one of them is no call."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    found: Found = []
    for item in items:
        members = mapping(item)
        inner = mapping(members.get("function")) or members
        name = inner.get("name")
        if not isinstance(name, str):
            return []
        found.append((name, _arguments(inner)))
    return found


def _arguments(members: Mapping[str, Any]) -> str:
    value = next((members[key] for key in ("arguments", "parameters") if key in members), None)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
