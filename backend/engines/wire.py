"""Pieces, requests, cards and errors as JSON lines, for an engine in another process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from backend.chat_engine import Count, EngineStats, LoadSpec, Rendered, Request
from backend.grammar.check import GrammarError
from backend.types import (
    BackendError,
    ChatCard,
    ChatOutcome,
    ContextOverflowError,
    EngineError,
    GenerationConfig,
    HeldPiece,
    ModelLoadError,
    Piece,
    PrefillProgress,
    QueueFullError,
    ReasoningPiece,
    TemplateError,
    TextPiece,
    TokenLogprob,
    ToolCall,
    ToolCallPiece,
)

VERSION = 2
"""Of the protocol. Both ends refuse to talk to another one."""

_VALUES = (
    TextPiece, ReasoningPiece, HeldPiece, ToolCallPiece, ToolCall, PrefillProgress, ChatOutcome, ChatCard,
    Count, Rendered, EngineStats, GenerationConfig, LoadSpec, Request, TokenLogprob,
)  # fmt: skip
_BY_NAME: dict[str, type[Any]] = {kind.__name__: kind for kind in _VALUES}
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        BackendError,
        EngineError,
        QueueFullError,
        TemplateError,
        GrammarError,
        ValueError,
        TypeError,
    )
}
_KIND = "_"


def dumps(value: Any) -> bytes:
    """One line, newline included. Half a surrogate pair becomes U+FFFD: it is no text anywhere."""
    text = json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() + b"\n"


def loads(line: bytes) -> Any:
    """The value of one line. ValueError for anything this protocol does not know."""
    return decode(json.loads(line))


def encode(value: Any) -> Any:
    """JSON-ready form of a value of the seam; fields at their default are left out."""
    match value:
        case Exception():
            return _encode_error(value)
        case None | bool() | int() | float() | str():
            return value
        case Mapping() if _KIND in value:  # Somebody's own key, not one of ours.
            return {_KIND: "mapping", "items": [[str(key), encode(item)] for key, item in value.items()]}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case Sequence():
            return [encode(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _ if type(value) in _VALUES:
            fields: dict[str, Any] = {_KIND: type(value).__name__}
            for item in dataclasses.fields(value):
                content = getattr(value, item.name)
                if content != item.default:
                    fields[item.name] = encode(content)
            return fields
        case _:
            raise TypeError(f"{type(value).__name__} cannot be sent to an engine")


def decode(value: Any) -> Any:
    """The value that `encode` made this of."""
    if isinstance(value, list):
        return [decode(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    fields: dict[str, Any] = {key: decode(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    kind = fields.pop(_KIND, None)
    if kind is None:
        return fields
    if kind == "error":
        return _decode_error(fields)
    if kind == "mapping":
        return dict(fields["items"])
    if kind not in _BY_NAME:
        raise ValueError(f"unknown kind of value: {kind!r}")
    frozen = {name: _frozen(item) for name, item in fields.items() if name in _TUPLES}
    return _BY_NAME[kind](**fields | frozen)


_TUPLES = {
    "tool_calls",
    "logprobs",
    "tokens",
    "top",
    "devices",
    "stop",
    "lora",
    "prior",
    "schema_errors",
    "notes",
}
"""Fields of our own values that hold tuples. What a person or a model wrote keeps its lists: templates
and schemas tell the two apart."""


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def _encode_error(error: Exception) -> dict[str, Any]:
    fields: dict[str, Any] = {_KIND: "error", "kind": type(error).__name__, "text": str(error)}
    match error:
        case ModelLoadError():
            fields |= {"cause": error.cause, "remedy": error.remedy}
        case ContextOverflowError():
            fields |= {"needed": error.needed, "max_seq": error.max_seq, "reserve": error.reserve}
        case EngineError():
            fields |= {"remedy": error.remedy}
        case _:
            known = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS), None)
            fields["kind"] = known or "EngineError"
    return fields


def _decode_error(fields: dict[str, Any]) -> Exception:
    kind, text = fields["kind"], fields["text"]
    if kind == "ModelLoadError":
        return ModelLoadError(text, cause=fields["cause"], remedy=fields["remedy"])
    if kind == "ContextOverflowError":
        return ContextOverflowError(fields["needed"], fields["max_seq"], fields["reserve"])
    if kind == "EngineError":
        return EngineError(text, remedy=fields.get("remedy", ""))
    return _ERRORS.get(kind, BackendError)(text)


def pieces_of(value: Any) -> list[Piece]:
    """A decoded list of pieces, checked."""
    pieces = list(value)
    for piece in pieces:
        if type(piece).__name__ not in _BY_NAME:
            raise ValueError("a list of pieces contains something else")
    return pieces
