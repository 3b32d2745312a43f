"""A unified diff as rows: numbers, signs, tints, and which words of a line changed.

It reads what the tools make of a change; text that is no diff is shown as it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Literal, NamedTuple

from app.markdown.highlight import Highlighter, Line
from app.markdown.rows import COLOUR, Background, CodeBlock, Mode, Row, Run
from app.markdown.wrap import breaks, run_starts, slice_runs
from app.terminal.output import sanitize

CONTEXT = 2
"""Unchanged lines shown around a change."""
_LONGEST_COMPARED = 400
"""Characters of a line that are compared word by word."""

_FILE = re.compile(r"^(?:\+\+\+|---) [^\n]*\.(\w{1,12})[ \t]*$", re.MULTILINE)
"""A file's name in the head of a diff; its ending names the language."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORDS = re.compile(r"\w+|\s+|.")
_PIECES = re.compile(r"\t|[^\t]+")

Sign = Literal[" ", "+", "-", "~"]
"""Unchanged, added, removed; `~` stands between hunks or is no line of a file."""
_GROUNDS: dict[str, Background] = {"+": "added", "-": "removed"}
_ROLES = {"+": "added", "-": "removed"}


class DiffLine(NamedTuple):
    """One line of a diff."""

    sign: Sign
    number: int
    """In the old file for removed lines, else in the new one; 0 for none."""
    text: str
    offset: int
    """Where `text` begins in the source."""


class DiffBody:
    """A `Body` (see rows.py) over one unified diff; it does not grow."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: list[DiffLine] | None = None
        self._rows: list[Row] = []
        self._laid: tuple[int, Mode] | None = None
        self._highlighter: Highlighter | None = None
        self._colours: dict[int, Line] = {}
        """Pieces of unchanged lines with their styles, by index."""
        self._settled = False

    @property
    def source(self) -> str:
        return self._source

    @property
    def finished(self) -> bool:
        return True

    @property
    def rows(self) -> list[Row]:
        return self._rows

    @property
    def counts(self) -> tuple[int, int]:
        """Lines added and removed."""
        signs = [line.sign for line in self.lines]
        return signs.count("+"), signs.count("-")

    @property
    def lines(self) -> list[DiffLine]:
        if self._lines is None:
            self._lines = list(_near_changes(list(_parse(self._source))))
        return self._lines

    def append(self, text: str) -> None:
        """A diff is whole from the start; ValueError."""
        raise ValueError("a diff does not grow")

    def finish(self) -> None:
        """Nothing to do."""

    def layout(self, width: int, mode: Mode = COLOUR) -> int:
        if self._laid == (width, mode):
            return len(self._rows)
        self._laid = (width, mode)
        changed = _changed_words(self.lines)
        digits = max([3, *map(len, map(str, [line.number for line in self.lines]))])
        rule = "-" if mode.ascii else "╌"
        self._rows[:] = [
            row
            for at, line in enumerate(self.lines)
            for row in _rows(line, self._pieces(at, changed, mode), digits, max(digits + 4, width), rule)
        ]
        return 0

    def _pieces(self, at: int, changed: Mapping[int, Sequence[tuple[int, int]]], mode: Mode) -> Line:
        """The text of a line with its styles: code in its colours, or changed words in theirs."""
        line = self.lines[at]
        if (pieces := self._colours.get(at)) is not None and not mode.plain:
            return pieces
        style = f"{_ROLES[line.sign]}:{'bu' if mode.plain else 'b'}" if line.sign in _ROLES else "text"
        edges = [0, *[edge for span in changed.get(at, ()) for edge in span], len(line.text)]
        return [
            (line.text[start:end], style if index % 2 else "text")
            for index, (start, end) in enumerate(pairwise(edges))
        ]

    def estimate(self, width: int) -> int:
        return 1 + self._source.count("\n")

    def release(self) -> None:
        self._rows.clear()
        self._laid = None

    def settle(self, budget: float) -> bool:
        if self._settled or (self._laid and self._laid[1].plain):
            return False
        # lines of the new file, as far as they are here; what changed keeps to two colours
        places = [at for at, line in enumerate(self.lines) if line.sign in " +"]
        texts = [self.lines[at].text for at in places]
        if self._highlighter is None:
            found = _FILE.search(self._source)
            self._highlighter = Highlighter(found[1].lower() if found else "")
        if self._highlighter.advance(texts, len(texts), perf_counter() + budget):
            return True
        self._settled = True
        styled = zip(places, self._highlighter.styled, strict=False)
        self._colours = {at: pieces for at, pieces in styled if self.lines[at].sign == " "}
        if self._colours:
            self._laid = None
        return False

    def block_at(self, offset: int) -> tuple[int, int]:
        start = self._source.rfind("\n", 0, offset) + 1
        end = self._source.find("\n", offset)
        return start, len(self._source) if end < 0 else end

    def code_blocks(self) -> list[CodeBlock]:
        return []


def _parse(source: str) -> Iterator[DiffLine]:
    """Lines with their numbers. Before the first hunk only what is no file name is kept."""
    offset = old = new = 0
    inside = False
    for line in source.split("\n"):
        start, offset = offset, offset + len(line) + 1
        if found := _HUNK.match(line):
            if inside:
                yield DiffLine("~", 0, "", start)
            inside = True
            old, new = int(found[1]), int(found[2])
        elif inside and line[:1] == "-":
            yield DiffLine("-", old, line[1:], start + 1)
            old += 1
        elif inside and line[:1] == "+":
            yield DiffLine("+", new, line[1:], start + 1)
            new += 1
        elif inside and line[:1] == " ":
            yield DiffLine(" ", new, line[1:], start + 1)
            old, new = old + 1, new + 1
        elif line and not line.startswith(("--- ", "+++ ", "\\ ")):
            yield DiffLine("~", 0, line, start)


def _near_changes(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Lines within `CONTEXT` of a change; where some go in the middle of a hunk a rule stays."""
    keep = [line.sign != " " for line in lines]
    for at, line in enumerate(lines):
        if line.sign in "+-":
            for near in range(max(0, at - CONTEXT), min(len(lines), at + CONTEXT + 1)):
                keep[near] = True
    gone = False
    shown = False
    for line, kept in zip(lines, keep, strict=True):
        if not kept:
            gone = True
            continue
        if gone and shown and line.sign != "~":
            yield DiffLine("~", 0, "", line.offset)
        gone, shown = False, line.sign != "~" or bool(line.text)
        yield line


def _changed_words(lines: Sequence[DiffLine]) -> dict[int, tuple[tuple[int, int], ...]]:
    """For each line that has a counterpart, the ranges of its text that differ."""
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    at = 0
    while at < len(lines):
        removed = _run_of("-", lines, at)
        added = _run_of("+", lines, at + removed)
        if removed and removed == added:
            for old in range(at, at + removed):
                found[old], found[old + removed] = _compare(lines[old].text, lines[old + removed].text)
        at += max(1, removed + added)
    return found


def _run_of(sign: str, lines: Sequence[DiffLine], start: int) -> int:
    end = start
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return end - start


def _compare(old: str, new: str) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    if max(len(old), len(new)) > _LONGEST_COMPARED:
        return (), ()
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < 0.3:
        return (), ()
    left, right = _starts(before), _starts(after)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        tuple([(left[i], left[j]) for _, i, j, _, _ in changes if i < j]),
        tuple([(right[i], right[j]) for _, _, _, i, j in changes if i < j]),
    )


def _starts(words: Sequence[str]) -> list[int]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return starts


def _rows(line: DiffLine, pieces: Line, digits: int, width: int, rule: str) -> Iterator[Row]:
    if line.sign == "~" and not line.text:
        yield Row((Run(rule * width, "faint"),), line.offset)
        return
    number = str(line.number) if line.number else ""
    sign = line.sign if line.sign in "+-" else " "
    look = f"{_ROLES[sign]}:b" if sign != " " else "text"
    head = [Run(f"{number:>{digits}} ", "muted"), Run(f"{sign} ", look)]
    ground = _GROUNDS.get(sign, "page")
    runs = list(_runs(line.offset, pieces))
    starts = run_starts(runs)
    places = breaks("".join([run.text for run in runs]), width - digits - 3, at_blanks=False)
    offset = line.offset
    for place, (start, end) in enumerate(places):
        row = slice_runs(runs, starts, start, end)
        offset = max(offset, next((run.offset for run in row if run.offset >= 0), offset))
        before = [Run(" " * (digits + 3))] if place else head
        yield Row((*before, *row), offset, ground, wraps=place + 1 < len(places))


def _runs(offset: int, pieces: Line) -> Iterator[Run]:
    """Pieces as runs: tabs become blanks, controls go."""
    for piece, style in pieces:
        for found in _PIECES.finditer(piece):
            text = found[0]
            if text == "\t":
                yield Run("    ", style)
            elif (clean := sanitize(text)) == text:
                yield Run(text, style, offset + found.start())
            else:
                yield Run(clean, style)
        offset += len(piece)
