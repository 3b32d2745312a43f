"""The kinds of values a setting may have: how their text is read, and which values fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Literal, cast

from app.characters import QUOTED_CHARS, quote

Kind = Literal[
    "text",
    "name",
    "texts",
    "int",
    "count",
    "index",
    "seed",
    "float",
    "seconds",
    "floats",
    "bool",
    "json",
    "schema",
    "layers",
    "switch",
    "adapters",
    "tool",
    "effort",
    "cache_mode",
    "cache_type",
    "dtype",
    "approval",
    "color",
    "pictures",
    "bell",
    "reasoning",
    "overflow",
    "call_format",
    "template",
]

BOM = "\ufeff"
"""The byte order mark that some programs write at the start of a text; it is no part of it."""
MOST_SECONDS = 1e8
"""Some three years; the system's timers take no infinite time."""
MOST_SEED = 2**32 - 2
"""The next one means a random seed to llama.cpp."""
CHOICES: dict[Kind, tuple[str, ...]] = {
    "effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "cache_mode": ("paged", "continuous"),
    "cache_type": ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"),
    "dtype": ("undefined", "f32"),
    "approval": ("ask", "read", "all", "none", "plan"),
    "color": ("auto", "always", "never", "16", "256", "truecolor"),
    "pictures": ("auto", "kitty", "blocks", "off"),
    "bell": ("unfocused", "always", "off"),
    "reasoning": ("auto", "on", "none"),
    "overflow": ("error", "truncate_oldest"),
    "call_format": ("generic",),
}
"""The kinds of few values. The backend has the same ones, and would take too long to import for them."""
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class SettingError(ValueError):
    """A setting that cannot be used; the text names it, its origin, and what would do."""


def read(key: str, kind: Kind, text: str) -> Any:
    """The value of that kind that `text` stands for; SettingError says what `key` expects."""
    return _READERS[kind](key, text)


def wanted(kind: Kind) -> str:
    """What a value of that kind is, in words."""
    return _TYPES[kind][1]


def require_fit(key: str, kind: Kind, value: Any) -> None:
    """SettingError unless `value` is of that kind."""
    types, words = _TYPES[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise SettingError(f"{key} must be {words}, not {quote(value)}.")
    if dict in types and not _is_json(value, allow_nan=kind != "schema"):
        raise SettingError(f"{key} must be {words}; a part of it is nothing that JSON has, such as a date.")
    if not _is_in_range(kind, value):
        raise SettingError(f"{key} must be {words}, not {quote(value)}.")


def _is_json(value: Any, *, allow_nan: bool) -> bool:
    try:
        json.dumps(value, allow_nan=allow_nan)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _one_of(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"


_TYPES: dict[Kind, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "text"),
    "template": ((str,), "a chat template, or a file that contains one"),
    "name": ((str,), "a name or a file path"),
    "texts": ((tuple,), "text, or a list of texts"),
    "int": ((int,), "a whole number"),
    "count": ((int,), "a whole number of at least 1"),
    "index": ((int,), "a whole number of at least 0"),
    "seed": ((int,), f"a whole number from 0 to {MOST_SEED}"),
    "float": ((int, float), "a number"),
    "seconds": ((int, float), f"a number of seconds above 0 and up to {MOST_SECONDS:.0f}"),
    "floats": ((tuple,), "a list of numbers"),
    "bool": ((bool,), "true or false"),
    "json": ((dict,), "a JSON object"),
    "schema": ((dict,), "a JSON schema: an object"),
    "layers": ((int, str), "a whole number, all or auto"),
    "switch": ((bool, str), "on, off or auto"),
    "adapters": ((tuple,), "FILE[:SCALE] or a list of them"),
    "tool": ((str, dict), "auto, none, required, a tool's name or a JSON object"),
    **{kind: ((str,), _one_of(choices)) for kind, choices in CHOICES.items()},
}


def _is_in_range(kind: Kind, value: Any) -> bool:
    match kind:
        case "name":
            return bool(value.strip())
        case "count":
            return value >= 1
        case "index":
            return value >= 0
        case "seed":
            return 0 <= value <= MOST_SEED
        case "seconds":
            return 0 < value <= MOST_SECONDS
        case "layers":
            return value == "auto" or (isinstance(value, int) and value >= -1)
        case "switch":
            return value == "auto" or isinstance(value, bool)
        case _:
            return kind not in CHOICES or value in CHOICES[kind]


def _fail(key: str, kind: Kind, text: str) -> SettingError:
    return SettingError(f"{key} must be {_TYPES[kind][1]}, not {quote(text)}.")


def _text(key: str, text: str) -> str:
    return text.removeprefix(BOM)  # as in --system "$(cat FILE)"


def _texts(key: str, text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return (text,)
    values = _json(key, text)
    if not isinstance(values, list) or not all(isinstance(item, str) for item in cast("list[Any]", values)):
        raise _fail(key, "texts", text)
    return tuple(cast("list[str]", values))


def _number(of: type[int | float], kind: Kind) -> Callable[[str, str], Any]:
    def number(key: str, text: str) -> Any:
        try:
            return of(text)
        except ValueError:
            raise _fail(key, kind, text) from None

    return number


def _floats(key: str, text: str) -> tuple[float, ...]:
    return tuple(read(key, "float", part) for part in text.strip("[] ").split(","))


def _bool(key: str, text: str) -> bool:
    return _truth(key, "bool", text)


def _truth(key: str, kind: Kind, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise _fail(key, kind, text)
    return word in _TRUE


def _switch(key: str, text: str) -> bool | str:
    return "auto" if text.strip().lower() == "auto" else _truth(key, "switch", text)


def _layers(key: str, text: str) -> int | str:
    word = text.strip().lower()
    if word == "all":
        return -1
    if word == "auto":
        return word
    try:
        return int(word)
    except ValueError:
        raise _fail(key, "layers", text) from None


def _json(key: str, text: str, number: Callable[[str], float] = float) -> Any:
    try:
        value = json.loads(text.removeprefix(BOM), parse_float=number, parse_constant=number)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as err:
        reason = f"{err.msg} at line {err.lineno}, column {err.colno}"
    except UnicodeEncodeError:
        reason = "it has half of a surrogate pair, which is not a character"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as err:
        reason = str(err)
    else:
        return value
    raise SettingError(f"{key} is not valid JSON: {reason}. It says {quote(text)}.")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:QUOTED_CHARS]} is not a finite number")
    return value


def _object(key: str, text: str) -> Any:
    value = _json(key, text)
    require_fit(key, "json", value)
    return value


def _schema(key: str, text: str) -> Any:
    value = _json(key, text, _finite)
    require_fit(key, "schema", value)
    return value


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
    "template": _text,
    "name": _text,
    "texts": _texts,
    "int": _number(int, "int"),
    "count": _number(int, "count"),
    "index": _number(int, "index"),
    "seed": _number(int, "seed"),
    "float": _number(float, "float"),
    "seconds": _number(float, "seconds"),
    "floats": _floats,
    "bool": _bool,
    "json": _object,
    "schema": _schema,
    "layers": _layers,
    "switch": _switch,
    "adapters": _adapters,
    "tool": _tool,
    **dict.fromkeys(CHOICES, _text),
}
