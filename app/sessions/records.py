"""Frozen dataclasses as flat JSON objects and back, with every value's type checked on the way in."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar, cast

from app import clock
from app.sessions.errors import InvalidInputError

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")


ASKED_ONCE: Mapping[str, str] = {"asked": "once"}
"""Labels of a session that answers one question of `fireside -p`, until somebody continues it."""


def is_asked_once(labels: Mapping[str, Any]) -> bool:
    """Whether a session with these labels is one question and its answer."""
    return all(labels.get(name) == value for name, value in ASKED_ONCE.items())


def new_id(kind: str) -> str:
    """A new id such as `msg_1f...`: sorted by nothing, guessed by nobody."""
    return f"{kind}_{secrets.token_hex(12)}"


def now() -> int:
    """Unix time in whole seconds."""
    return int(clock.now())


def to_json(record: Any) -> Json:
    """The fields of a dataclass that are set, and those it must have; all as plain JSON values."""
    fields = ((item, getattr(record, item.name)) for item in dataclasses.fields(record))
    return {
        item.name: plain(value)
        for item, value in fields
        if value is not None or item.default is item.default_factory is dataclasses.MISSING
    }


def shallow(record: Any) -> Json:
    """As `to_json`, with the values as they are, but lists for tuples; without `id`."""
    fields = ((item, getattr(record, item.name)) for item in dataclasses.fields(record))
    return {
        item.name: list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
        for item, value in fields
        if item.name != "id"
        and (value is not None or item.default is item.default_factory is dataclasses.MISSING)
    }


def plain(value: Any) -> Any:
    """`value` with tuples as lists, mappings as dicts, and records as their own JSON."""
    if hasattr(value, "to_wire"):
        return value.to_wire()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


def from_json(kind: type[T], data: Mapping[str, Any], what: str) -> T:
    """A `kind` from a JSON object. Unknown keys are left out; InvalidInputError names a bad field."""
    values: Json = {}
    for field in dataclasses.fields(cast(Any, kind)):
        if field.name not in data:
            continue
        values[field.name] = _checked(str(field.type), data[field.name], f"{what}.{field.name}")
    try:
        return kind(**values)
    except TypeError as err:
        missing = str(err).partition(": ")[2] or str(err)
        raise InvalidInputError(f"A {what} lacks {missing}.") from err


def _checked(annotation: str, value: Any, where: str) -> Any:
    if value is None and annotation.endswith(" | None"):
        return None
    wanted = annotation.removesuffix(" | None")
    several = {"tuple": tuple, "list": list}.get(wanted.partition("[")[0])
    if several is not None and isinstance(value, list):
        inner = wanted.partition("[")[2].removesuffix("]").removesuffix(", ...")
        return several(_checked(inner, item, where) for item in cast("list[Any]", value))
    kind, name = _KINDS.get(wanted, (list, "a list"))
    # In Python true is a number; in JSON it is none.
    if not isinstance(value, kind) or (wanted != "bool" and isinstance(value, bool)):
        raise InvalidInputError(f"{where} should be {name}, not {type(value).__name__}.")
    return cast(Any, value)


_KINDS: dict[str, tuple[Any, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "bool": (bool, "true or false"),
    "Json": (dict, "an object"),
}
