"""The syntax of patterns: a bounded subset of ECMAScript's regular expressions, read into a tree.

Back references, word boundaries, lookbehind, flags and Unicode properties are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from backend.grammar.rules import Ranges

LAST_CODE_POINT = 0x10FFFF
BEGIN, END = 0x110000, 0x110001
"""Two symbols of no text stand before and behind it, so that anchors are ordinary symbols."""
_MAX_PATTERN = 1000


class UnsupportedPattern(ValueError):
    """The pattern is malformed, outside the subset, or needs more states than we spend."""


class MalformedPattern(UnsupportedPattern):
    """The pattern is no regular expression in any dialect."""


def parse(pattern: str) -> Tree:
    """The tree of a pattern. Raises UnsupportedPattern, which says what is not supported."""
    if len(pattern) > _MAX_PATTERN:
        raise UnsupportedPattern(f"it is longer than {_MAX_PATTERN} characters")
    return _Parser(pattern).parse()


# ---- sets of code points -------------------------------------------------------------------


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same code points in ascending, disjoint ranges."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def invert(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The code points outside the ranges."""
    outside: list[tuple[int, int]] = []
    start = 0
    for low, high in merge(ranges):
        if low > start:
            outside.append((start, low - 1))
        start = high + 1
    if start <= LAST_CODE_POINT:
        outside.append((start, LAST_CODE_POINT))
    return tuple(outside)


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """The code points in both."""
    pairs = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return merge((low, high) for low, high in pairs if low <= high)


# ---- the pattern's syntax ------------------------------------------------------------------

_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
_NEWLINE: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CLASSES: dict[str, Ranges] = {
    "d": _DIGIT,
    "D": invert(_DIGIT),
    "w": _WORD,
    "W": invert(_WORD),
    "s": _SPACE,
    "S": invert(_SPACE),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4}
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Tree:
    kind: Literal["chars", "cat", "alt", "repeat", "look", "look not"]
    items: Sequence[Tree] = ()
    ranges: Ranges = ()
    low: int = 0
    high: int | None = None

    def looks(self) -> bool:
        return self.kind.startswith("look") or any(item.looks() for item in self.items)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0

    def parse(self) -> Tree:
        tree = self.alternatives()
        if self.at < len(self.pattern):
            raise MalformedPattern("a closing parenthesis has no opening one")
        return tree

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, *texts: str) -> str | None:
        for text in texts:
            if self.peek(text):
                self.at += len(text)
                return text
        return None

    def next(self) -> str:
        if self.at >= len(self.pattern):
            raise MalformedPattern("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedPattern("its groups are nested too deeply")
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        self.depth -= 1
        return branches[0] if len(branches) == 1 else Tree("alt", branches)

    def sequence(self) -> Tree:
        items: list[Tree] = []
        while self.at < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            items.append(self.quantified(self.item()))
        return items[0] if len(items) == 1 else Tree("cat", items)

    def quantified(self, item: Tree) -> Tree:
        bounds = self.bounds()
        if bounds is None:
            return item
        low, high = bounds
        self.take("?")
        if high is not None and low > high:
            raise MalformedPattern(f"the repetition {{{low},{high}}} is impossible")
        if self.peek("+") or self.peek("*") or self.peek("?"):
            raise UnsupportedPattern("a quantifier follows a quantifier")
        return Tree("repeat", (item,), low=low, high=high)

    def bounds(self) -> tuple[int, int | None] | None:
        match self.take("*", "+", "?"):
            case "*":
                return 0, None
            case "+":
                return 1, None
            case "?":
                return 0, 1
            case _:
                pass
        end = self.pattern.find("}", self.at)
        if not self.peek("{") or end < 0:
            return None
        low, comma, high = self.pattern[self.at + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit() and (not high or (high.isascii() and high.isdigit()))):
            return None
        if len(low) > 6 or len(high) > 6:
            raise UnsupportedPattern("it repeats a million times or more")
        self.at = end + 1
        return int(low), int(high) if high else None if comma else int(low)

    def item(self) -> Tree:
        match char := self.next():
            case "(":
                return self.group()
            case "[":
                return Tree("chars", ranges=self.char_class())
            case ".":
                return Tree("chars", ranges=invert(_NEWLINE))
            case "^":
                return Tree("chars", ranges=((BEGIN, BEGIN),))
            case "$":
                return Tree("chars", ranges=((END, END),))
            case "\\":
                return Tree("chars", ranges=self.escape(in_class=False))
            case "*" | "+" | "?":
                raise MalformedPattern(f"'{char}' has nothing to repeat")
            case _:
                return Tree("chars", ranges=((ord(char), ord(char)),))

    def group(self) -> Tree:
        kind: Literal["look", "look not"] | None = None
        if self.take("?:"):
            pass
        elif self.take("?="):
            kind = "look"
        elif self.take("?!"):
            kind = "look not"
        elif self.peek("?<=") or self.peek("?<!"):
            raise UnsupportedPattern("it looks behind")
        elif self.take("?P<", "?<"):
            while self.next() != ">":
                pass
        elif self.peek("?"):
            raise UnsupportedPattern("it has a group of an unknown kind")
        tree = self.alternatives()
        if not self.take(")"):
            raise MalformedPattern("a parenthesis is not closed")
        return tree if kind is None else Tree(kind, (tree,))

    def char_class(self) -> Ranges:
        negated = self.take("^") is not None
        if self.peek("]"):
            raise UnsupportedPattern("a character class starts with ']', which dialects read differently")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            low = self.class_item()
            if self.peek("-") and not self.peek("-]"):
                self.at += 1
                high = self.class_item()
                if len(low) != 1 or len(high) != 1 or low[0][0] > high[0][1]:
                    raise MalformedPattern("a character class has a range out of order")
                low = ((low[0][0], high[0][1]),)
            ranges.extend(low)
        return invert(ranges) if negated else merge(ranges)

    def class_item(self) -> Ranges:
        char = self.next()
        return self.escape(in_class=True) if char == "\\" else ((ord(char), ord(char)),)

    def escape(self, *, in_class: bool) -> Ranges:
        char = self.next()
        if char in _CLASSES:
            return _CLASSES[char]
        if char == "b" and in_class:
            return ((8, 8),)
        if char in _HEX_DIGITS:
            code = self.hex(_HEX_DIGITS[char])
            return ((code, code),)
        char = _CONTROLS.get(char, char)
        if char.isalnum():
            raise UnsupportedPattern(f"it uses '\\{char}'")
        return ((ord(char), ord(char)),)

    def hex(self, digits: int) -> int:
        if digits == 4 and self.take("{"):
            end = self.pattern.find("}", self.at)
            text, self.at = self.pattern[self.at : end], end + 1
        else:
            text, self.at = self.pattern[self.at : self.at + digits], self.at + digits
        try:
            code = int(text, 16)
        except ValueError:
            raise UnsupportedPattern("it has a malformed escape") from None
        if code > LAST_CODE_POINT:
            raise UnsupportedPattern("it names a character that does not exist")
        return code
