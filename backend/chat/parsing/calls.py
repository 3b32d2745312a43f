"""The calls of one reply while they are being read: what is told of them, and what they became."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backend.chat.adapt import mapping
from backend.chat.parsing.literals import Cut, Malformed, read_literal
from backend.types import ToolCall, ToolCallPiece

_EXCERPT_CHARS = 200


class NotACall(Exception):
    """What looked like a call is text; the stream stands where it stood."""


class CallSink:
    """Collects the calls of one reply and the pieces of them, in order."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self.schemas: dict[str, Any] = {
            tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools
        }
        self.calls: list[ToolCall] = []
        self.pieces: list[ToolCallPiece] = []
        self.incomplete = False


class OpenCall:
    """One call while it is being read: its pieces are told as soon as its name is certain."""

    def __init__(self, sink: CallSink, name: str = "", call_id: str = "") -> None:
        self.sink = sink
        self.name = name
        self.id = call_id
        self.raw = ""
        self.told = False
        self.fault: str | None = None
        self._parts: list[str] = []

    @property
    def known(self) -> bool:
        return self.name in self.sink.schemas

    @property
    def text(self) -> str:
        """The arguments' text so far."""
        return "".join(self._parts)

    def tell(self) -> None:
        """Announce the call, with the arguments read so far."""
        if not self.told and self.known:
            self.told = True
            self._piece("".join(self._parts))

    def write(self, text: str) -> None:
        self._parts.append(text)
        if self.told and text:
            self._piece(text)

    def _piece(self, text: str) -> None:
        self.sink.pieces.append(ToolCallPiece(len(self.sink.calls), self.name, text))

    def close(self, arguments: object = None) -> None:
        """The call is over: check it and hand it in. `arguments`: already read, else read from the text."""
        from backend.grammar.validate import violations  # the first call loads it, not the room

        raw = "".join(self._parts)
        if arguments is None and self.fault is None:
            arguments = self._read(raw)
        values = mapping(arguments)
        if self.fault is None and arguments is not None and not isinstance(arguments, dict):
            self.fault = f"the arguments must be an object, not {json.dumps(arguments)[:60]}"
        if not self.known:
            offered = ", ".join(self.sink.schemas) or "none"
            self.fault = f"there is no tool named {self.name!r}; offered: {offered}"
        elif self.fault is None and (broken := violations(values, self.sink.schemas[self.name])):
            self.fault = "; ".join(broken)
        self.sink.calls.append(ToolCall(self.id, self.name, values, raw, self.fault))

    def _read(self, raw: str) -> object:
        if not raw.strip():
            return {}
        try:
            value = json.loads(raw, strict=False)
        except (ValueError, RecursionError):
            try:
                value = read_literal(raw)
            except Malformed as err:
                self.fault = f"the arguments are not valid JSON: {err}"
                return {}
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:  # NaN and 1e999 are read, and could never be written back as JSON.
            self.fault = "the arguments contain a number that is not finite"
            return {}
        return value

    def blame(self, err: Malformed) -> None:
        """Mark the call as broken off by the reply's end, or as malformed."""
        self.tell()
        if isinstance(err, Cut):
            self.sink.incomplete = True
            self.fault = self.fault or "the reply ended before the call was complete"
        else:
            self.fault = self.fault or f"the call is malformed: {err}"


def excerpt(text: str) -> str:
    """The beginning of what a model wrote in place of a part of a call, as one line."""
    words = " ".join(text.split())
    return words if len(words) <= _EXCERPT_CHARS else f"{words[:_EXCERPT_CHARS]}..."


def is_json(text: str) -> bool:
    """Whether `text` is one whole JSON value."""
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True
