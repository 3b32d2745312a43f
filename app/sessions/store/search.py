"""Full-text search: what is indexed, and a person's words as a query that no typing can break."""

from __future__ import annotations

import re
import unicodedata

from app.characters import clean_text

_WORD = re.compile(r"[^\W_]+")
# Written without spaces: each character is a word of its own, and a run of them a phrase.
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
MAX_INDEXED_CHARS = 1_000_000
MAX_WORDS = 16
MAX_JOINED = 4
"""Of no more words is it looked for whether they stand there as one."""
MAX_HUMPED_CHARS = 64
PREVIEW_CHARS = 150
ELLIPSIS = "\u2026"
"""Marks what a preview leaves out."""
_AROUND = 8
"""How many times its width is read for a preview: most of it may be blanks."""


def indexed(text: str) -> str:
    """`text` as the index takes it: the parts of a name such as IndexError are words beside it."""
    text = _spaced(clean_text(text[:MAX_INDEXED_CHARS]).replace("\0", " "))
    if _HUMP.search(text) is None:
        return text
    humped = {word for word in _WORD.findall(text) if len(word) <= MAX_HUMPED_CHARS and _HUMP.search(word)}
    return " ".join([text, *(_HUMP.sub(" ", word) for word in sorted(humped))])


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \1 ", text)


def match_expression(query: str) -> str | None:
    """The FTS5 expression for a person's words, all of which must occur; the last may go on.

    Words side by side may also stand there as one: `index error` finds IndexError. None where there
    is no word in the query.
    """
    words = _WORD.findall(query)[:MAX_WORDS]
    if not words:
        return None
    ends = "*" if query[-1:].isalnum() else ""
    ways: list[str] = []
    for joined in _joinings(words) if len(words) <= MAX_JOINED else [words]:
        phrases = [" ".join(_spaced(word).split()) for word in joined]
        ways.append(" ".join(f'"{phrase}"' for phrase in phrases) + ends)
    return " OR ".join(f"({way})" for way in ways) if len(ways) > 1 else ways[0]


def _joinings(words: list[str]) -> list[list[str]]:
    """The words with each gap between them kept or closed."""
    ways = [words[:1]]
    for word in words[1:]:
        ways = [more for way in ways for more in ([*way, word], [*way[:-1], way[-1] + word])]
    return ways


def in_title(title: str, query: str) -> bool:
    """Whether all words of a query stand in a chat's title, whole or as parts of words."""
    words = _WORD.findall(_plain_letters(query))[:MAX_WORDS]
    letters = _plain_letters(title)
    return bool(words) and all(word in letters for word in words)


def _plain_letters(text: str) -> str:
    """Without capitals and accents, as the index compares."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.casefold())
    return "".join([char for char in apart if not unicodedata.combining(char)])


def preview(text: str, query: str, width: int = PREVIEW_CHARS) -> str:
    """The part of `text` around the first of the query's words, on one line."""
    words = _WORD.findall(query)[:MAX_WORDS]
    place = _place_of(text[:MAX_INDEXED_CHARS], words)
    first = max(0, place - _AROUND * width)
    before = text[first:place].split()
    line = " ".join(text[first : place + _AROUND * width].split())
    start = max(0, len(" ".join(before)) - width // 3)
    if start:
        # From the beginning of a word, where one is near.
        blank = line.find(" ", start, start + width // 3)
        start = blank + 1 if blank >= 0 else start
    cut = line[start : start + width]
    more = start + width < len(line) or place + _AROUND * width < len(text)
    return f"{ELLIPSIS if start or first else ''}{cut}{ELLIPSIS if more else ''}"


def _place_of(text: str, words: list[str]) -> int:
    """Where all words stand side by side, else the first of the longest; 0 where none is found."""
    if not words:
        return 0
    together = re.search(r"[\W_]{0,8}".join(map(re.escape, words)), text, re.IGNORECASE)
    if together is not None:
        return together.start()
    longest = re.search(re.escape(max(words, key=len)), text, re.IGNORECASE)
    return longest.start() if longest else 0
