"""Names of files as a forgiving file system compares them."""

from __future__ import annotations

import unicodedata


def plain_name(name: str) -> str:
    """`name` without what some file system overlooks: case, invisible characters, dots at the end."""
    if name.isascii():
        return name.lower().rstrip(". ")
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(char for char in folded if unicodedata.category(char) != "Cf").rstrip(". ")
