"""One thing a form asks for, and what a person wrote for it as the value it wants.

A form comes from a tool or from a server: its bounds are obeyed where they are understood, and what is
given back is always JSON that means what was written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tools.permission.preview import one_row, value_text

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}\Z")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?\Z")
_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")
_MOST_TOLD = 9


@dataclass(frozen=True)
class Field:
    """One thing a form asks for."""

    name: str
    title: str
    kind: str
    default: str = ""
    required: bool = False
    choices: tuple[Any, ...] = ()
    """The values it takes; empty where it takes any."""
    least: float | None = None
    most: float | None = None
    """Bounds of a number, or of how many characters a text has."""

    @classmethod
    def of(cls, name: str, schema: Mapping[str, Any], default: str, *, required: bool) -> Field:
        """The field that a property of a JSON Schema describes."""
        title = one_row(str(schema.get("title") or schema.get("description") or name))
        kind = str(schema.get("type", "string"))
        found = schema.get("enum")
        choices = tuple(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else ()
        if choices:
            title = f"{title} ({_one_of(choices)})"
        is_text = kind not in ("number", "integer")
        bounds = ("minLength", "maxLength") if is_text else ("minimum", "maximum")
        least, most = (_finite(schema.get(bound)) for bound in bounds)
        return cls(name, title, kind, default, required, choices, least, most)


def read_field(asked: Field, text: str) -> Any:
    """What a person wrote, as the field wants it. ValueError says what is wrong."""
    if asked.choices:
        return _chosen(asked, text)
    match asked.kind:
        case "integer":
            return _bounded(asked, int(text) if _WHOLE.match(text.strip()) else None, "a whole number")
        case "number":
            return _bounded(asked, float(text) if _NUMBER.match(text.strip()) else None, "a number")
        case "boolean":
            said = text.strip().lower()
            if said not in (*_YES, *_NO):
                raise ValueError(f"{asked.title}: yes or no, please.")
            return said in _YES
        case "array" | "object":
            return _structure(asked, text)
        case _:
            if asked.required and not text:
                raise ValueError(f"{asked.title} is needed.")
            return _fitting(asked, text)


def _chosen(asked: Field, text: str) -> Any:
    """The choice that is shown so."""
    for label, choice in zip(_labels(asked.choices), asked.choices, strict=True):
        if text.strip() == label:
            return choice
    raise ValueError(f"{asked.title}: one of these, please.")


def _one_of(choices: Sequence[Any]) -> str:
    labels = _labels(choices)
    if len(labels) > _MOST_TOLD:
        return f"{', '.join(labels[:_MOST_TOLD])} and {len(labels) - _MOST_TOLD:,} more"
    return " or ".join(labels)


def _labels(choices: Sequence[Any]) -> list[str]:
    """Each choice as it is shown and typed: no two alike, none empty."""
    plain = [one_row(choice).strip() if isinstance(choice, str) else value_text(choice) for choice in choices]
    return [
        one_row(value_text(choice)) if not label or plain.count(label) > 1 else label
        for label, choice in zip(plain, choices, strict=True)
    ]


def _bounded(asked: Field, value: float | None, kind: str) -> float:
    if value is None or not math.isfinite(value):
        raise ValueError(f"{asked.title}: {kind}, please.")
    _check(asked, value, "")
    return value


def _fitting(asked: Field, text: str) -> str:
    _check(asked, len(text), " characters")
    return text


def _check(asked: Field, count: float, unit: str) -> None:
    if asked.least is not None and count < asked.least:
        raise ValueError(f"{asked.title}: at least {asked.least:,g}{unit}, please.")
    if asked.most is not None and count > asked.most:
        raise ValueError(f"{asked.title}: at most {asked.most:,g}{unit}, please.")


def _structure(asked: Field, text: str) -> Any:
    name, kind = ("a list", list) if asked.kind == "array" else ("an object", dict)
    try:
        value: Any = json.loads(
            text, parse_constant=_refuse, parse_float=_finite_float, object_pairs_hook=_each_once
        )
    except (ValueError, RecursionError):
        raise ValueError(f"{asked.title}: JSON, please.") from None
    if not isinstance(value, kind):
        raise ValueError(f"{asked.title}: {name} in JSON, please.")
    return cast("Any", value)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite_float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("a name twice")


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number and math.isfinite(value) else None
    except OverflowError:
        return None
