"""The one door for text from anywhere: what has passed it can be stored, sent and shown.

A str of Python may hold halves of surrogate pairs, which no encoding takes. Two halves that belong
together become their character, a lone one becomes U+FFFD, and nothing else changes. `tools` and
`backend` have the same door for what reaches them without the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")
QUOTED_CHARS, CLIPPED_CHARS = 80, 300


def quote(value: object) -> str:
    """`value` as an error shows it: its representation, cut where it is long."""
    text = repr(value[: QUOTED_CHARS + 1] if isinstance(value, str) else value)
    return text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}…"


def clip(text: str) -> str:
    """`text` cut where it is too long for an error."""
    return text if len(text) <= CLIPPED_CHARS else f"{text[:CLIPPED_CHARS]}…"


def clean_text(text: str) -> str:
    """`text` as every encoding takes it; itself where it is so already."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean(value: T) -> T:
    """A JSON value with every text in it cleaned, keys too; itself where nothing was to be done."""
    return cast(T, _clean(value))


def clean_fields(record: Any, *names: str) -> None:
    """Clean the named fields of a dataclass, or all, in place, frozen or not: from its `__post_init__`."""
    fields = cast("dict[str, Any]", vars(record))
    for name in names or tuple(fields):
        value = fields[name]
        cleaned = _clean(value)
        if cleaned is not value:
            object.__setattr__(record, name, cleaned)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return clean_text(value)
        case Mapping():
            known = cast("Mapping[Any, Any]", value)
            pairs = [(_clean(key), _clean(item)) for key, item in known.items()]
            same = all(
                key is old and item is known[old] for (key, item), old in zip(pairs, known, strict=True)
            )
            return known if same else dict(pairs)
        case list():
            parts = list(map(_clean, cast("list[Any]", value)))
            return value if all(map(_is, parts, cast("list[Any]", value))) else parts  # pyright: ignore[reportUnknownVariableType]
        case tuple():
            several = tuple(map(_clean, cast("tuple[Any, ...]", value)))
            return value if all(map(_is, several, cast("tuple[Any, ...]", value))) else several  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _is(one: object, other: object) -> bool:
    return one is other


class Joiner:
    """The door for text that comes in pieces: a pair whose halves come in two of them stays one character."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The next piece, cleaned; the half of a pair at its end is kept for the one behind it."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean_text(text)

    def end(self) -> str:
        """What was kept of the last piece."""
        text, self._half = self._half, ""
        return clean_text(text)
