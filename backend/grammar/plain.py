"""JSON as plain data, of which nothing is assumed: what a value is, and a short text of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

Schema: TypeAlias = Any
"""A JSON Schema as JSON reads it: an object or a boolean. Untrusted, so nothing is assumed of it."""


def short(value: object, limit: int = 60) -> str:
    """`value` as a short, printable text for a message."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value).__name__)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a JSON object. JSON has no keys but text, so keys are not looked at."""
    return isinstance(value, Mapping)


def as_object(value: object) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if is_list(value) else []


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_schema(value: object) -> TypeGuard[Mapping[str, Any] | bool]:
    return isinstance(value, Mapping | bool)
