"""A call in a few words, as both faces tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.terminal.output import squeezed

_TELLING = ("path", "file", "command", "url", "pattern", "query", "expression", "code", "name", "task")
"""Arguments that say most of a call, the first of all first."""
MAX_TARGET_CHARS = 200


def target_of(arguments: Mapping[str, Any]) -> str:
    """The argument that says most of a call, on one line of bounded length; "" where none says anything."""
    telling = [arguments[name] for name in _TELLING if isinstance(arguments.get(name), str)]
    others = [value for value in arguments.values() if isinstance(value, str | int | float)]
    texts = (squeezed(str(value)[:MAX_TARGET_CHARS]) for value in (*telling, *others))
    return next(filter(None, texts), "")
