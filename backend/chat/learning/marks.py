"""Comparing texts by whole marks: what two renderings share is never half a tag."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from backend.chat.format import INDEX, atoms

_DECODER = json.JSONDecoder()
_MIRRORED_WORDS = (("START", "END"), ("begin", "end"), ("open", "close"), ("BEGIN", "END"), ("start", "end"))
_FARTHEST_BRACE = 4000


def common_prefix(first: str, second: str) -> str:
    """The atoms both texts begin with."""
    count = 0
    left, right = atoms(first), atoms(second)
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return "".join(left[:count])


def common_suffix(first: str, second: str) -> str:
    """The atoms both texts end with."""
    count = 0
    left, right = atoms(first), atoms(second)
    while count < min(len(left), len(right)) and left[-1 - count] == right[-1 - count]:
        count += 1
    return "".join(left[len(left) - count :])


def split_between(before: str, between: str, after: str) -> tuple[str, str, str]:
    """Start marker, end marker and separator of a repeated thing, from the text before the first,
    between the first two and after the last.

    Text that both markers claim belongs to the start when it also begins the end marker (a prefix
    shared by every tag), else to the end; whitespace belongs to neither.
    """
    start, end = common_suffix(before, between), common_prefix(after, between)
    overlap = len(start) + len(end) - len(between)
    if overlap > 0:
        given = _shared_tag_prefix(start[:overlap], end)
        start = given + start[overlap:]
        end = end[: len(end) - len(given)]
    start, end = start.lstrip(), end.rstrip()
    return start, end, between[len(end) : len(between) - len(start)]


def _shared_tag_prefix(shared: str, end: str) -> str:
    parts = atoms(shared)
    for first in range(len(parts)):
        tail = "".join(parts[first:])
        if tail.strip() and end.startswith(tail.lstrip()) and end.strip() != tail.strip():
            return tail.lstrip()
    return ""


def mirror(tag: str) -> str | None:
    """The tag that by its looks closes `tag`, or None."""
    text = tag.strip()
    if re.fullmatch(r"<\|[^|<>]+>", text):
        return "<" + text[2:-1] + "|>"
    if re.fullmatch("<[^|<>\uff5c/][^|<>\uff5c]*>", text):
        return "</" + text[1:]
    for opening, closing in _MIRRORED_WORDS:
        if opening in text:
            return text.replace(opening, closing)
    if text.startswith("<"):
        return "</" + text[1:]
    return "[/" + text[1:] if text.startswith("[") else None


def enclosing_object(
    text: str, position: int, wanted: Callable[[Any], bool]
) -> tuple[int, int, dict[str, Any]] | None:
    """The innermost JSON object that holds `position` and that `wanted` accepts: start, end, value."""
    start = position
    while (start := text.rfind("{", 0, start)) >= 0 and position - start <= _FARTHEST_BRACE:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if end > position and wanted(value):
            return start, end, cast("dict[str, Any]", value)
    return None


def path_to(value: object, target: object) -> tuple[str, ...]:
    """The keys that lead from a JSON value to `target` inside it; () when it is not there."""
    if not isinstance(value, dict):
        return ()
    for key, item in cast("dict[str, object]", value).items():
        if item == target:
            return (key,)
        if deeper := path_to(item, target):
            return (key, *deeper)
    return ()


def with_index(first: str, second: str) -> str:
    """`first` with INDEX where it differs from `second` in a number only; else `first`."""
    left, right = re.split(r"(\d+)", first), re.split(r"(\d+)", second)
    if first == second or len(left) != len(right):
        return first
    return "".join(a if a == b else INDEX for a, b in zip(left, right, strict=True))


def strip_leading(text: str, marks: list[str]) -> str:
    """`text` without the marks, in any order, that stand at its beginning."""
    found = True
    while found:
        found = False
        body = text.lstrip()
        for mark in marks:
            if mark.strip() and body.startswith(mark.strip()):
                text, found = body[len(mark.strip()) :], True
                break
    return text


def without_tail_of(end: str, starts: list[str]) -> str:
    """`end` without its longest tail that begins one of `starts`, leaving something visible."""
    parts = atoms(end)
    for count in range(1, len(parts)):
        kept, tail = "".join(parts[:count]), "".join(parts[count:]).strip()
        if tail and kept.strip() and any(start.strip().startswith(tail) for start in starts if start):
            return kept
    return end


def last_mark(text: str) -> tuple[str, str, str]:
    """The last visible atom, the text before it, and the atom with the blanks behind it."""
    parts = atoms(text)
    count = len(parts)
    while count and not parts[count - 1].strip():
        count -= 1
    if not count:
        return "", "", ""
    return parts[count - 1], "".join(parts[: count - 1]), "".join(parts[count - 1 :])
