"""Calls of tools on the wire: whole ones, and their pieces while they are written."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Sequence
from typing import Any

from backend.types import ToolCall, ToolCallPiece

_CHARACTERS = string.ascii_letters + string.digits


def arguments_of(call: ToolCall) -> str:
    """The arguments as the text that a client parses: the model's own where it is an object of JSON."""
    if call.raw_arguments and (call.error is not None or _is_object(call.raw_arguments)):
        return call.raw_arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def new_call_id() -> str:
    """An id for a call: nine letters and digits, which is what the strictest templates take back."""
    return "".join(secrets.choice(_CHARACTERS) for _ in range(9))


class CallWriter:
    """The calls of one reply as deltas: the first of each has its id and name, later ones only arguments."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        """The arguments of each call so far."""

    def sent(self, index: int) -> str:
        """The arguments of a call so far."""
        return self._sent[index]

    def take(self, piece: ToolCallPiece) -> list[dict[str, Any]]:
        """The deltas of a piece."""
        if piece.index >= len(self._sent):
            self._sent.append(piece.arguments_delta)
            return [self._first(len(self._sent) - 1, piece.name, piece.arguments_delta)]
        if not piece.arguments_delta:
            return []
        self._sent[piece.index] += piece.arguments_delta
        return [_more(piece.index, piece.arguments_delta)]

    def finish(self, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        """The deltas that are missing now that the calls are whole."""
        made: list[dict[str, Any]] = []
        for index, call in enumerate(calls):
            whole = arguments_of(call)
            if index >= len(self._sent):
                self._sent.append(whole)
                made.append(self._first(index, call.name, whole, call.id))
            elif rest := whole.removeprefix(self._sent[index]) if whole.startswith(self._sent[index]) else "":
                made.append(_more(index, rest))
        return made

    @staticmethod
    def _first(index: int, name: str, arguments: str, call_id: str = "") -> dict[str, Any]:
        return {
            "index": index,
            "id": call_id or new_call_id(),
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }


def _more(index: int, arguments: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
