"""Text and numbers from another machine: nothing of it is trusted, all of it is bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

MOST_MESSAGE_CHARS = 300
MOST_NAME_CHARS = 256
MOST_NUMBER = 2**53


def one_line(text: str, most: int = MOST_MESSAGE_CHARS) -> str:
    """`text` on one line, without what a terminal would obey, cut where it is long."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    shown = re.sub(r"\s+", " ", shown).strip()
    return shown if len(shown) <= most else f"{shown[:most]}…"


def name(value: object) -> str:
    """A name that can be shown and sent back as it is; "" for anything else."""
    if not isinstance(value, str) or not 0 < len(value) <= MOST_NAME_CHARS:
        return ""
    return value if value.isprintable() and value == value.strip() else ""


def fields(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """A JSON array; an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text(value: object) -> str:
    """A JSON string; "" for anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """A whole number that counts something; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_NUMBER:
        return 0
    return int(value)


class TextJoiner:
    """Text that comes in pieces, as every encoding takes it: halves of a character that come in two
    pieces become one, a lone half becomes U+FFFD."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """`piece`, without a half at its end that may yet find its other one."""
        if piece.isascii() and not self._half:
            return piece
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return _whole(piece)

    def end(self) -> str:
        """What is left of it."""
        rest, self._half = self._half, ""
        return _whole(rest)


def _whole(piece: str) -> str:
    try:
        piece.encode()
    except UnicodeEncodeError:
        return piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return piece
