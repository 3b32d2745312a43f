"""Where vi's motions lead in a text. Pure: a text and a place in, a place out; places are code points."""

from __future__ import annotations

from collections.abc import Callable

Motion = Callable[[str, int], int]


def line_start(text: str, at: int) -> int:
    """The first character of the line."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Behind the last character of the line."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def last_of_line(text: str, at: int) -> int:
    """The last character of the line; its beginning where it is empty."""
    return max(line_start(text, at), line_end(text, at) - 1)


def first_word_of_line(text: str, at: int) -> int:
    """The first character of the line that is no blank."""
    start, end = line_start(text, at), line_end(text, at)
    while start < end and text[start] in " \t":
        start += 1
    return start


def left(text: str, at: int) -> int:
    return max(line_start(text, at), at - 1)


def right(text: str, at: int) -> int:
    return min(line_end(text, at), at + 1)


def up(text: str, at: int) -> int:
    """The same column a line above; the place itself on the first line."""
    start = line_start(text, at)
    if not start:
        return at
    above = line_start(text, start - 1)
    return min(above + at - start, start - 1)


def down(text: str, at: int) -> int:
    """The same column a line below; the place itself on the last line."""
    end = line_end(text, at)
    if end == len(text):
        return at
    return min(end + 1 + at - line_start(text, at), line_end(text, end + 1))


def _kind(char: str, wide: bool) -> int:
    if char.isspace():
        return 0
    return 1 if wide or char.isalnum() or char == "_" else 2


def word_start(text: str, at: int, *, wide: bool = False) -> int:
    """The beginning of the next word; an empty line is one. `wide`: words end at blanks only."""
    place, length = at, len(text)
    if place < length:
        kind = _kind(text[place], wide)
        while kind and place < length and _kind(text[place], wide) == kind:
            place += 1
    while place < length and text[place].isspace():
        if text[place] == "\n" and place > at and text[place - 1] == "\n":
            return place
        place += 1
    return place


def word_back(text: str, at: int, *, wide: bool = False) -> int:
    """The beginning of this word, else of the one before."""
    place = at - 1
    while place > 0 and text[place].isspace():
        if text[place] == "\n" and text[place - 1] == "\n":
            return place
        place -= 1
    if place <= 0:
        return 0
    kind = _kind(text[place], wide)
    while place > 0 and _kind(text[place - 1], wide) == kind:
        place -= 1
    return place


def word_end(text: str, at: int, *, wide: bool = False) -> int:
    """The last character of this word, else of the next."""
    place, length = at + 1, len(text)
    while place < length and text[place].isspace():
        place += 1
    if place >= length:
        return max(0, length - 1)
    kind = _kind(text[place], wide)
    while place + 1 < length and _kind(text[place + 1], wide) == kind:
        place += 1
    return place


def inner_word(text: str, at: int, *, around: bool = False) -> tuple[int, int]:
    """The run of one kind that stands there; `around` with the blanks behind it, else before it."""
    if at >= len(text) or text[at] == "\n":
        return at, at
    first, last, kind = at, at + 1, _kind(text[at], False)
    start, end = line_start(text, at), line_end(text, at)
    while first > start and _kind(text[first - 1], False) == kind:
        first -= 1
    while last < end and _kind(text[last], False) == kind:
        last += 1
    if around and kind:
        blanks = last
        while blanks < end and text[blanks] in " \t":
            blanks += 1
        if blanks > last:
            return first, blanks
        while first > start and text[first - 1] in " \t":
            first -= 1
    return first, last


def find_char(text: str, at: int, key: str, char: str, count: int) -> int | None:
    """Where `f`, `F`, `t` or `T` leads for the `count`-th `char` of the line; None where there is none."""
    start, end, place = line_start(text, at), line_end(text, at), at
    for _ in range(count):
        place = text.find(char, place + 1, end) if key in "ft" else text.rfind(char, start, place)
        if place < 0:
            return None
    return place + {"f": 0, "F": 0, "t": -1, "T": 1}[key]
