"""What a question is about as rows, whole: those that are looked at are made then, however many there are.

Nothing is left out and nothing summed up; long lines go on in the next row.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from app.markdown.diff import DiffBody
from app.markdown.rows import Mode, Row, split_style
from app.terminal.glyphs import Glyphs
from app.terminal.text_rows import RowSpans, padded, pieces
from tools.permission.preview import clean, value_label, value_text

SHORT_DIFF_CHARS = 20_000
"""A diff up to here has its words compared and its code coloured."""
SETTLE_S = 0.05
"""Time for the colours of a diff's code; a long one keeps some of it plain."""
MOST_LABEL = 16
_DIGITS = 4
_ATTRIBUTES = {"b": "bold", "i": "italic", "s": "strike", "u": "underline"}
_COLOURS = {
    "muted": "$muted",
    "faint": "$faint",
    "keyword": "$primary",
    "string": "$success",
    "number": "$accent",
    "comment": "$muted",
    "function": "$assistant",
    "builtin": "$tool",
    "decorator": "$reasoning",
    "operator": "$muted",
    "added": "$diff-add",
    "removed": "$diff-remove",
}
_GROUNDS = {"+": " on $diff-add-background", "-": " on $diff-remove-background"}
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class Part(Protocol):
    """Some rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> RowSpans: ...


class Body:
    """Parts, one below the other."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def rows(self, first: int, count: int) -> list[RowSpans]:
        """`count` rows from `first` on, as far as there are so many."""
        found: list[RowSpans] = []
        for part in self._parts:
            found += [part[at] for at in range(max(0, first), min(len(part), first + count))]
            count -= max(0, min(len(part), first + count) - max(0, first))
            first = max(0, first - len(part))
        return found


class LongPart:
    """Lines broken into rows of at most `room` cells. `dress` makes a row of the number of its line, its
    text, and whether it is the first one of that line."""

    def __init__(self, lines: Sequence[str], room: int, dress: Callable[[int, str, bool], RowSpans]) -> None:
        self._lines, self._room, self._dress = lines, max(2, room), dress
        self._ends = array("Q")
        total = 0
        for line in lines:
            total += self._rows_of(line)
            self._ends.append(total)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, at: int, /) -> RowSpans:
        line = bisect_right(self._ends, at)
        place = at - (self._ends[line - 1] if line else 0)
        return self._dress(line, self._piece(self._lines[line], place), place == 0)

    def _rows_of(self, line: str) -> int:
        if line.isascii():
            return max(1, -(-len(line) // self._room))
        return sum(1 for _ in pieces(line, self._room))

    def _piece(self, line: str, place: int) -> str:
        if line.isascii():
            return line[place * self._room : (place + 1) * self._room]
        return next(islice(pieces(line, self._room), place, None))


def arguments_part(arguments: Mapping[str, Any], cells: int, glyphs: Glyphs) -> Part:
    """Every argument, every character of it; a rule before each line, so that no value can pose as a name."""
    if not arguments:
        return [[("no arguments", "$muted")]]
    labels = {name: value_label(name) for name in arguments}
    width = min(MOST_LABEL, max(map(len, labels.values())))
    lines: list[str] = []
    heads: dict[int, str] = {}
    names: set[int] = set()
    for name, value in arguments.items():
        label = labels[name]
        if len(label) > width:
            # A name is shown whole, in rows of its own.
            names.add(len(lines))
            lines.append(label)
            label = ""
        heads[len(lines)] = label
        lines += value_text(value).split("\n")

    def dress(line: int, text: str, is_first: bool) -> RowSpans:
        if line in names:
            return [(text, "$muted")]
        label = heads.get(line, "") if is_first else ""
        return [(f"{label:<{width}} ", "$muted"), (glyphs.aside, "$faint"), (f" {text}", "")]

    return LongPart(lines, cells - width - 3, dress)


def diff_part(diff: str, cells: int, glyphs: Glyphs) -> Part:
    """A unified diff, all of it."""
    return (
        diff_rows(diff, cells, glyphs) if len(diff) <= SHORT_DIFF_CHARS else _long_diff(diff, cells, glyphs)
    )


def diff_rows(diff: str, cells: int, glyphs: Glyphs) -> list[RowSpans]:
    """A diff as the transcript draws it: numbers, signs, changed words, unchanged code in its colours."""
    body = DiffBody(clean(diff))
    body.settle(SETTLE_S)
    body.layout(cells, Mode(ascii=not glyphs.unicode))
    return [_spans(row, cells) for row in body.rows]


def _spans(row: Row, cells: int) -> RowSpans:
    ground = {"added": _GROUNDS["+"], "removed": _GROUNDS["-"]}.get(row.ground, "")
    spans: RowSpans = []
    for run in row.runs:
        role, attributes = split_style(run.style)
        words = [_ATTRIBUTES[letter] for letter in attributes if letter in _ATTRIBUTES]
        spans.append((run.text, f"{' '.join(words)} {_COLOURS.get(role, '')}{ground}".strip()))
    return padded(spans, cells, ground.strip())


def _long_diff(diff: str, cells: int, glyphs: Glyphs) -> Part:
    texts: list[str] = []
    signs: list[str] = []
    numbers = array("Q")
    old = new = 0
    inside = False
    for line in clean(diff).split("\n"):
        if found := _HUNK.match(line):
            if not inside:
                inside, old, new = True, int(found[1]), int(found[2])
                continue
            old, new = int(found[1]), int(found[2])
            sign, text, number = "~", glyphs.rule * max(1, cells - _DIGITS - 3), 0
        elif not inside:
            continue
        else:
            sign, text, number = line[:1], line[1:], old if line[:1] == "-" else new
            old, new = old + (sign != "+"), new + (sign != "-")
        texts.append(text)
        signs.append(sign)
        numbers.append(number)
    digits = max(_DIGITS, len(str(max(numbers, default=0))))

    def dress(line: int, text: str, is_first: bool) -> RowSpans:
        sign = signs[line]
        if sign == "~":
            return [(text, "$faint")]
        ground = _GROUNDS.get(sign, "")
        number = str(numbers[line]) if is_first else ""
        tone = {"+": "bold $diff-add", "-": "bold $diff-remove"}.get(sign, "")
        shown = sign if sign in "+-" and is_first else " "
        row: RowSpans = [
            (f"{number:>{digits}} ", f"$muted{ground}"),
            (f"{shown} ", f"{tone}{ground}".strip()),
            (text, ground.strip()),
        ]
        return padded(row, cells, ground.strip())

    return LongPart(texts, cells - digits - 3, dress)
