"""TOML from a file that anybody may have written: read within bounds, as plain values."""

from __future__ import annotations

import re
from typing import Any, cast

MOST_DEPTH = 64
_LONG_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_DEPTH}}}"""
)
"""A key of so many parts; the parser takes time by the square of their number."""


def parsed_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. ValueError says what is wrong with it."""
    import tomllib  # Most people have no such file, and a short run pays for each import.

    if _LONG_KEY.search(text):
        raise ValueError("it is nested too deeply")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level: list[Any] = [found]
    for _ in range(MOST_DEPTH):
        below: list[Any] = []
        for one in level:
            match one:
                case dict():
                    below += cast("dict[str, Any]", one).values()
                case list():
                    below += cast("list[Any]", one)
                case int() if not -(2**63) <= one < 2**63:
                    raise ValueError("it contains a number that is too large")
                case _:
                    pass
        if not below:
            return found
        level = below
    raise ValueError("it is nested too deeply")
