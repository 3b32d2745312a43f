"""A unified diff as rows: line numbers, signs, changed words. Pure text; its lines are visible already."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from app.tui.widgets.text_rows import RowSpans, Span, padded, wrapped_spans

NUMBER_CELLS = 4
CONTEXT_ROWS = 2
GUTTER = NUMBER_CELLS + 3
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    body = _body(diff)
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


def diff_rows(diff: str, cells: int, rule: str) -> list[RowSpans]:
    """The rows of a diff, `cells` wide; `rule` is the dash that joins hunks."""
    rows: list[RowSpans] = []
    old = new = 0
    started = False
    lines = _body(diff)
    place = 0
    while place < len(lines):
        line = lines[place]
        if found := _HUNK.match(line):
            if started:
                rows.append([(rule * (cells // 3), "$faint")])
            started = True
            old, new = int(found[1]), int(found[2])
            place += 1
            continue
        if not started:
            rows += wrapped_spans([(line, "$muted")], cells)
            place += 1
            continue
        removed = _run(lines, place, "-")
        added = _run(lines, place + len(removed), "+")
        if not removed and not added:
            if not _is_near(lines, place):
                old, new, place = old + 1, new + 1, place + 1
                continue
            rows += _rows(new, " ", [(line[1:], "")], cells)
            old, new, place = old + 1, new + 1, place + 1
            continue
        marks = _marked(removed, added)
        for number, spans in enumerate(marks[0], old):
            rows += _rows(number, "-", spans, cells)
        for number, spans in enumerate(marks[1], new):
            rows += _rows(number, "+", spans, cells)
        old, new = old + len(removed), new + len(added)
        place += len(removed) + len(added)
    return rows


def _body(diff: str) -> list[str]:
    lines = diff.split("\n")
    start = next((place for place, line in enumerate(lines) if _HUNK.match(line)), 0)
    return [line for line in lines[start:] if line]


def _is_near(lines: Sequence[str], place: int) -> bool:
    """Whether a line stands beside a change, so that it helps to see where that is."""
    around = lines[max(0, place - CONTEXT_ROWS) : place + CONTEXT_ROWS + 1]
    return any(line.startswith(("+", "-")) for line in around)


def _run(lines: Sequence[str], start: int, sign: str) -> list[str]:
    end = start
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return [line[1:] for line in lines[start:end]]


def _marked(removed: Sequence[str], added: Sequence[str]) -> tuple[list[RowSpans], list[RowSpans]]:
    """Changed lines with their changed words marked; whole lines where they are not alike."""
    left: list[RowSpans] = [[(line, "")] for line in removed]
    right: list[RowSpans] = [[(line, "")] for line in added]
    if len(removed) != len(added):
        return left, right
    for place, (before, after) in enumerate(zip(removed, added, strict=True)):
        old, new = _WORDS.findall(before[:1000]), _WORDS.findall(after[:1000])
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        if matcher.ratio() < 0.4 or len(before) > 1000 or len(after) > 1000:
            continue
        left[place] = _spans(old, [(i1, i2, tag) for tag, i1, i2, _, _ in matcher.get_opcodes()], "remove")
        right[place] = _spans(new, [(j1, j2, tag) for tag, _, _, j1, j2 in matcher.get_opcodes()], "add")
    return left, right


def _spans(words: Sequence[str], parts: Sequence[tuple[int, int, str]], kind: str) -> RowSpans:
    changed = f"bold $diff-{kind}"
    return [
        ("".join(words[start:end]), "" if tag == "equal" else changed)
        for start, end, tag in parts
        if end > start
    ]


def _rows(number: int, sign: str, spans: Sequence[Span], cells: int) -> list[RowSpans]:
    kind = {"+": "add", "-": "remove"}.get(sign, "")
    ground = f" on $diff-{kind}-background" if kind else ""
    rows: list[RowSpans] = []
    for place, row in enumerate(wrapped_spans(spans, max(1, cells - GUTTER))):
        label = f"{number:>{NUMBER_CELLS}}" if place == 0 else " " * NUMBER_CELLS
        mark = sign if place == 0 else " "
        head: RowSpans = [
            (label, f"$muted{ground}"),
            (f" {mark} ", f"bold $diff-{kind}{ground}" if kind else ""),
        ]
        body: RowSpans = [(text, f"{style}{ground}".strip()) for text, style in row]
        rows.append(padded([*head, *body], cells, ground.strip()))
    return rows
