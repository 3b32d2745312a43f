"""Full-text search: what is indexed, and a person's words as a query that no typing can break."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
# Written without spaces: each character is a word of its own, and a run of them a phrase.
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
MAX_INDEXED_CHARS = 1_000_000
MAX_WORDS = 16
PREVIEW_CHARS = 150


def indexed(text: str) -> str:
    """`text` as the index takes it."""
    text = text[:MAX_INDEXED_CHARS].encode("utf-8", "replace").decode().replace("\0", " ")
    return _UNSPACED.sub(r" \1 ", text)


def match_expression(query: str) -> str | None:
    """The FTS5 expression for a person's words, all of which must occur; the last may go on.

    None where there is no word in it.
    """
    words: list[str] = []
    for word in _WORD.findall(query)[:MAX_WORDS]:
        phrase = " ".join(indexed(word).split())
        words.append(f'"{phrase}"')
    if not words:
        return None
    return " ".join(words) + ("*" if query[-1:].isalnum() else "")


def preview(text: str, query: str, width: int = PREVIEW_CHARS) -> str:
    """The part of `text` around the first of the query's words, on one line."""
    line = " ".join(text[:MAX_INDEXED_CHARS].split())
    lowered = line.lower()
    places = [lowered.find(word.lower()) for word in _WORD.findall(query)[:MAX_WORDS]]
    first = min((place for place in places if place >= 0), default=0)
    start = max(0, first - width // 3)
    cut = line[start : start + width]
    return f"{'…' if start else ''}{cut}{'…' if start + width < len(line) else ''}"
