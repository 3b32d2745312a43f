"""Which targets of links may be opened. What a model writes is never followed by itself."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

LONGEST = 2000
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
