"""The signs of the chrome, as Unicode and as ASCII, and which of both a terminal gets.

Every sign is of East Asian width N or Na, so it takes one cell everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, cast


class Glyphs(NamedTuple):
    """One set of signs. Each takes one cell, but `done` in ASCII, which is two letters."""

    edge: str
    """Beside your messages and the selected row; the scrollbar's thumb."""
    aside: str
    """Beside thoughts, results and quotes; between two panes."""
    waiting: str
    """Beside what waits for you."""
    rule: str
    """The seam, the rule under a table's head, a divider; the part of a meter that is left."""
    meter: str
    """The part of a meter that is done."""
    ember: tuple[str, str, str, str]
    """The steps of what is alive; the first one stands still."""
    caret: str
    """Behind the last character of a reply that is being written."""
    prompt: str
    """Where keys go."""
    cut_right: str
    """A text goes on at the right, or in the next row."""
    cut_left: str
    folded: str
    unfolded: str
    above: str
    """There is more above."""
    below: str
    done: str
    failed: str
    unread: str
    partial: str
    """It fits in part."""
    unicode: bool

    def key(self, name: str) -> str:
        """The name of a key as hints show it."""
        return name if self.unicode else f"[{name}]"

    def signs(self) -> list[str]:
        """Every sign there is."""
        parts = cast("tuple[str | bool | tuple[str, ...], ...]", self)
        return [
            sign
            for part in parts
            if not isinstance(part, bool)
            for sign in (part if isinstance(part, tuple) else (part,))
        ]


UNICODE = Glyphs(
    edge="\u2590",
    aside="\u254e",
    waiting="\u254f",
    rule="\u254c",
    meter="\u254d",
    ember=("\u2597", "\u2596", "\u2598", "\u259d"),
    caret="\u2596",
    prompt="\u203a",
    cut_right="\u203a",
    cut_left="\u2039",
    folded="\u25b8",
    unfolded="\u25be",
    above="\u25b4",
    below="\u25be",
    done="\u2713",
    failed="\u2717",
    unread="\u2219",
    partial="~",
    unicode=True,
)
ASCII = Glyphs(
    edge="|",
    aside=":",
    waiting="!",
    rule="-",
    meter="=",
    ember=("*", "*", "*", "*"),
    caret="_",
    prompt=">",
    cut_right=">",
    cut_left="<",
    folded="+",
    unfolded="-",
    above="^",
    below="v",
    done="ok",
    failed="x",
    unread=".",
    partial="~",
    unicode=False,
)


def choose(ascii: bool = False, environ: Mapping[str, str] = os.environ) -> Glyphs:
    """ASCII where it is asked for, where the locale is not UTF-8, and on a Linux console; else Unicode."""
    if ascii or environ.get("TERM") == "linux" or not _is_utf8(environ):
        return ASCII
    return UNICODE


def _is_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the locale says UTF-8; none at all says nothing against it."""
    chosen = [value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))]
    # Python itself puts LC_CTYPE=C.UTF-8 beside the C locale; what the person chose stands in LANG.
    if chosen[:1] == ["C.UTF-8"] and chosen[1:]:
        chosen = chosen[1:] if chosen[1] in ("C", "POSIX") else chosen
    return not chosen or "utf8" in chosen[0].lower().replace("-", "")
