"""Which targets of links may be opened, and what is told of them. What a model writes is never followed
by itself, and never says of a link that it leads elsewhere than it does."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from app.terminal.output import sanitize

LONGEST = 2000
SHOWN_CHARS = 100
"""Of a target; the rest of a longer one is left out, never of its host."""
_SCHEME = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_KEPT = "%:/?#[]@!$&'()*+,;=-._~"


def web_address(target: str) -> str | None:
    """`target` as an address in printable ASCII if it is one of the web (http, https), else None."""
    if not 0 < len(target) <= LONGEST:
        return None
    try:
        parts = urlsplit(target)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        return None
    try:
        return quote(target, safe=_KEPT)
    except UnicodeEncodeError:
        return None


def target_note(text: str, target: str, *, whole: bool = True) -> str:
    """What follows a link that reads `text`: where it leads, in brackets, unless the text says just that.

    A host in other letters than ASCII is told as the network spells it: a letter may look like another.
    Without `whole` a long target is cut.
    """
    notes: list[str] = []
    if not _says(text, target):
        shown = _printable(target)
        notes.append(shown if whole or len(shown) <= SHOWN_CHARS else _shortened(shown))
    if look_alike := _in_other_letters(target):
        notes.append(f"not plain letters: {look_alike}")
    return f" ({'; '.join(notes)})" if notes else ""


def _says(text: str, target: str) -> bool:
    """Whether a link's text is its target; the scheme and a slash at the end may be left out."""
    if text == target:
        return True
    return _SCHEME.sub("", text, count=1).rstrip("/") == _SCHEME.sub("", target, count=1).rstrip("/")


def _in_other_letters(target: str) -> str:
    """The host of a target as ASCII where it is, or stands for, anything else; else nothing."""
    host = _host(target)
    if host.isascii() and not any(label.startswith("xn--") for label in host.split(".")):
        return ""
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host.encode("ascii", "backslashreplace").decode("ascii")


def _host(target: str) -> str:
    try:
        found = urlsplit(target)
        return found.path.rpartition("@")[2] if found.scheme == "mailto" else found.hostname or ""
    except ValueError:
        return ""


def _shortened(target: str) -> str:
    host = _host(target)
    kept = max(SHOWN_CHARS, target.lower().find(host) + len(host)) if host else SHOWN_CHARS
    return target if kept >= len(target) else f"{target[:kept]}\u2026"


def _printable(text: str) -> str:
    return "".join([char if char.isprintable() else "\ufffd" for char in sanitize(text)])
