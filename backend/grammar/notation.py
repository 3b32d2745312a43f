"""How values are written down: JSON, Python literals, a family's own literals, or tags."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from backend.grammar.strings import Encoding, json_text


@dataclass(frozen=True, slots=True)
class Quotes:
    """What stands around a text, and how the text is written in between."""

    start: str
    end: str
    encoding: Encoding
    without: frozenset[str] = frozenset()
    """Texts that a raw text does not contain, since they would end it."""

    def write(self, text: str) -> str | None:
        """`text` between these quotes, or None where it cannot stand there."""
        written = json_text(text)
        if written is None or any(part in text for part in self.without):
            return None
        if self.encoding == "raw":
            return f"{self.start}{text}{self.end}"
        inside = written[1:-1]
        if self.encoding == "single":
            inside = inside.replace('\\"', '"').replace("'", "\\'")
        return f"{self.start}{inside}{self.end}"


@dataclass(frozen=True, slots=True)
class Tags:
    """Members of an object as tags: `start` KEY `middle` VALUE `end`."""

    start: str
    middle: str
    end: str
    item: str = "item"
    """The key of a list's element."""


@dataclass(frozen=True, slots=True)
class Notation:
    """One way to write any value."""

    quotes: tuple[Quotes, ...] = (Quotes('"', '"', "json"),)
    """The ways to write a text; any of them."""
    loose: bool = False
    """Whether `True`, `False` and `None` stand beside `true`, `false` and `null`."""
    object: tuple[str, str, str, str] = ("{", ":", ",", "}")
    array: tuple[str, str, str] = ("[", ",", "]")
    bare_keys: bool = False
    tags: Tags | None = None
    """Objects and lists are tags instead of brackets."""
    nested: Notation | None = None
    """How a value inside this one is written, where that is another way."""

    @property
    def inner(self) -> Notation:
        return self.nested or self

    @property
    def raw(self) -> bool:
        """Whether a text may stand there without quotes."""
        return any(not quotes.start for quotes in self.quotes)

    def scalars(self, value: Any) -> list[str]:
        """The ways to write a text, a number, a truth value or nothing; none where there is no way."""
        if isinstance(value, str):
            return [text for quotes in self.quotes if (text := quotes.write(value)) is not None]
        if isinstance(value, float) and not math.isfinite(value):
            return []
        text = json.dumps(value)
        return [text, str(value)] if self.loose and (value is None or isinstance(value, bool)) else [text]

    def keys(self, name: str) -> list[str]:
        """The ways to write a member's name."""
        return [name] if self.bare_keys and json_text(name) else self.scalars(name)


JSON = Notation()
PYTHON = Notation(quotes=(Quotes("'", "'", "single"), Quotes('"', '"', "json")), loose=True)


def raw_text(without: frozenset[str], nested: Notation, wrap: tuple[str, str] = ("", "")) -> Notation:
    """Texts stand without quotes (or in `wrap`) up to one of `without`; the rest is `nested`."""
    quotes = [Quotes("", "", "raw", without)]
    if wrap[0]:
        quotes.append(Quotes(*wrap, "raw", frozenset((wrap[1],))))
    return replace(nested, quotes=tuple(quotes), loose=True, nested=nested)
