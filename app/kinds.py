"""The kinds of values a setting may have: how their text is read, and which values fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, cast

Kind = Literal[
    "text", "texts", "int", "float", "floats", "bool", "json", "layers", "switch", "adapters", "tool"
]

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class SettingError(ValueError):
    """A setting that cannot be used; the text names it, its origin, and what would do."""


def read(key: str, kind: Kind, text: str) -> Any:
    """The value of that kind that `text` stands for; SettingError says what `key` expects."""
    return _READERS[kind](key, text)


def require_fit(key: str, kind: Kind, value: Any) -> None:
    """SettingError unless `value` is of that kind."""
    types, wanted = _TYPES[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise SettingError(f"{key} must be {wanted}, not {value!r}.")


_TYPES: dict[Kind, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "a text"),
    "texts": ((tuple,), "a text or a list of texts"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "floats": ((tuple,), "a list of numbers"),
    "bool": ((bool,), "true or false"),
    "json": ((dict,), "a JSON object"),
    "layers": ((int, str), 'a whole number or "auto"'),
    "switch": ((bool, str), 'true, false or "auto"'),
    "adapters": ((tuple,), "FILE[:SCALE] or a list of them"),
    "tool": ((str, dict), "a text or a JSON object"),
}


def _fail(key: str, kind: Kind, text: str) -> SettingError:
    return SettingError(f"{key} must be {_TYPES[kind][1]}, not {text!r}.")


def _text(key: str, text: str) -> str:
    return text


def _texts(key: str, text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return (text,)
    values = _json(key, text)
    if not isinstance(values, list) or not all(isinstance(item, str) for item in cast("list[Any]", values)):
        raise _fail(key, "texts", text)
    return tuple(cast("list[str]", values))


def _int(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _fail(key, "int", text) from None


def _float(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _fail(key, "float", text) from None


def _floats(key: str, text: str) -> tuple[float, ...]:
    return tuple(_float(key, part) for part in text.strip("[] ").split(","))


def _bool(key: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise _fail(key, "bool", text)
    return word in _TRUE


def _switch(key: str, text: str) -> bool | str:
    return "auto" if text.strip().lower() == "auto" else _bool(key, text)


def _layers(key: str, text: str) -> int | str:
    word = text.strip().lower()
    if word == "all":
        return -1
    return "auto" if word == "auto" else _int(key, text)


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _fail(key, "json", text) from None


def _tool(key: str, text: str) -> Any:
    return _json(key, text) if text.lstrip().startswith("{") else text


def _adapters(key: str, text: str) -> tuple[tuple[str, float], ...]:
    adapters: list[tuple[str, float]] = []
    for part in _texts(key, text):
        file, colon, scale = part.rpartition(":")
        try:
            adapters.append((file, float(scale)) if colon and file else (part, 1.0))
        except ValueError:
            adapters.append((part, 1.0))  # the colon belongs to the file's name
    return tuple(adapters)


_READERS: dict[Kind, Callable[[str, str], Any]] = {
    "text": _text,
    "texts": _texts,
    "int": _int,
    "float": _float,
    "floats": _floats,
    "bool": _bool,
    "json": _json,
    "layers": _layers,
    "switch": _switch,
    "adapters": _adapters,
    "tool": _tool,
}
