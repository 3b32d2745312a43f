"""What a terminal may be sent, and what it can show.

`sanitize` is the one door for every text that Fireside did not write itself: model, tool, file,
metadata, error, title. It works on characters, so pieces of a text may pass it one by one.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping
from typing import IO, Literal

ColorSystem = Literal["standard", "256", "truecolor"]

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks and overrides of writing direction
)
_SURROGATES = re.compile("[\ud800-\udfff]")


def sanitize(text: str) -> str:
    """`text` without control characters but newline and tab; lone surrogates become U+FFFD."""
    return replace_surrogates(_CONTROLS.sub("", text))


def replace_surrogates(text: str) -> str:
    """`text` as it can be encoded: each lone surrogate becomes U+FFFD, nothing else changes."""
    return _SURROGATES.sub("\ufffd", text)


def is_terminal(stream: IO[str] | None) -> bool:
    """True for an open stream that leads to a terminal; closed and missing ones do not."""
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def takes_styles(stream: IO[str] | None, environ: Mapping[str, str] = os.environ) -> bool:
    """True where control codes are welcome: a terminal that is not dumb, without `NO_COLOR`."""
    if not is_terminal(stream) or environ.get("NO_COLOR"):
        return False
    return environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def color_system(environ: Mapping[str, str] = os.environ) -> ColorSystem:
    """How many colours the terminal says it shows, by `COLORTERM` and `TERM`."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    term = environ.get("TERM", "")
    if term.endswith(("-direct", "-truecolor")):
        return "truecolor"
    return "256" if "256color" in term else "standard"


def prepare(stream: IO[str] | None) -> IO[str]:
    """`stream` made unable to fail on a character; a closed one becomes a hole."""
    if stream is None:
        return io.StringIO()
    encoding = None if is_terminal(stream) else "utf-8"
    wrapper: object = stream
    if isinstance(wrapper, io.TextIOWrapper):
        wrapper.reconfigure(encoding=encoding, errors="replace", newline="\n")
    return stream


def notify(text: str) -> None:
    """One line for the person, on standard error."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        print(f"fireside: {sanitize(text)}", file=sys.stderr, flush=True)
