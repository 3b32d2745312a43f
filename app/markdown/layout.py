"""Rows of one leaf at one width; paragraphs, headings, rules and HTML here, the rest next door."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.markdown.clean import Cleaner
from app.markdown.inline import Inline, Meter, Text, read_inline
from app.markdown.leaves import Leaf
from app.markdown.rows import Mode, Row, Run
from app.markdown.wrap import breaks, clip_prefix, prefix_runs, run_starts, slice_runs

RULE = "\u254c"


class LayoutContext(NamedTuple):
    """What all leaves of a message are laid out for."""

    width: int
    mode: Mode
    cleaner: Cleaner
    references: Mapping[str, dict[str, str]]
    meter: Meter

    def rule(self, cells: int) -> str:
        """A faint line of our own."""
        return ("-" if self.mode.ascii else RULE) * cells


@dataclass(slots=True)
class Layout:
    """Rows of a leaf, and what they are valid for."""

    width: int
    mode: Mode
    key: tuple[object, ...]
    rows: list[Row] = field(default_factory=list[Row])

    def fits(self, page: LayoutContext, key: tuple[object, ...]) -> bool:
        return self.width == page.width and self.mode == page.mode and self.key == key


@dataclass(slots=True)
class TextLayout(Layout):
    inline: Inline | None = None
    origin: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    breaks: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def lay_text(leaf: Leaf, page: LayoutContext) -> int:
    """Bring the rows of a paragraph, heading, rule or HTML up to date; the first changed row."""
    key = (leaf.kind, leaf.first, leaf.cont, leaf.level, leaf.task)
    before = leaf.laid if isinstance(leaf.laid, TextLayout) else None
    if before is not None and (
        (before.mode, before.key) != (page.mode, key) or leaf.origin[: len(before.origin)] != before.origin
    ):
        before = None
    # What a text says is the same at every width.
    read = before.inline if before is not None else None
    if before is not None and before.width != page.width:
        before = None
    if before is not None and before.inline is not None and before.inline.text == leaf.text:
        return len(before.rows)
    layout = TextLayout(page.width, page.mode, key, origin=leaf.origin)
    leaf.laid = layout
    if leaf.kind == "rule":
        _lay_rule(leaf, page, layout)
        return 0
    if read is not None and before is None and read.text == leaf.text:
        layout.inline = read
    elif leaf.kind == "html":
        layout.inline = _read_literally(leaf, page, before)
    else:
        style = "text:b" if leaf.kind == "heading" else "text"
        text = Text(leaf.text, leaf.origin, page.cleaner, page.references, page.mode, style, page.meter)
        layout.inline = read_inline(text, read)
    kept, start = _keep_rows(before, layout)
    _add_rows(leaf, page, layout, start)
    if before is None:
        return 0
    limit = min(len(before.rows), len(layout.rows))
    while kept < limit and before.rows[kept] == layout.rows[kept]:
        kept += 1
    return kept


def _keep_rows(before: TextLayout | None, layout: TextLayout) -> tuple[int, int]:
    """Take over the rows of an unchanged beginning, all but the last two that lie in it.

    How many they are, and where in the text the next one starts.
    """
    if before is None or layout.inline is None or not layout.inline.kept:
        return 0, 0
    inside = bisect_left(before.breaks, (layout.inline.kept, 0))
    kept = max(0, inside - 2)
    layout.rows = before.rows[:kept]
    layout.breaks = before.breaks[:kept]
    return kept, before.breaks[kept][0] if kept else 0


def _add_rows(leaf: Leaf, page: LayoutContext, layout: TextLayout, start: int) -> None:
    inline = layout.inline
    if inline is None:
        return
    first, cont, task = _prefixes(leaf, page)
    indent = len(cont)
    done = len(layout.rows)
    offset = layout.rows[-1].offset if done else page.cleaner.source_offset(leaf.offset)
    starts = run_starts(inline.runs)
    new = breaks(inline.joined, max(1, page.width - indent), start)
    for number, (begin, end) in enumerate(new, done):
        runs = slice_runs(inline.runs, starts, begin, end)
        # The last run that follows the source says it best: one of ours may stand first.
        offset = max(offset, next((run.offset for run in runs if run.offset >= 0), offset))
        head = (*prefix_runs(first, page.mode), *task) if number == 0 else prefix_runs(cont, page.mode)
        layout.rows.append(Row((*head, *runs), offset, "page", indent))
    layout.breaks += new


def _prefixes(leaf: Leaf, page: LayoutContext) -> tuple[str, str, tuple[Run, ...]]:
    """Prefix of the first row, of the others, and the runs between the first prefix and the text."""
    first, cont = clip_prefix(leaf.first, page.width), clip_prefix(leaf.cont, page.width)
    sign = "#" * leaf.level + " " if page.mode.plain and leaf.kind == "heading" else ""
    size = len(leaf.task) + len(sign)
    if not size or len(cont) + size > page.width // 2:
        return first, cont, ()
    marks = [Run(sign, "muted")] if sign else []
    if leaf.task:
        pieces = page.cleaner.pieces(leaf.task, leaf.origin[0][1] - len(leaf.task))
        marks[:0] = [Run(piece, "muted", at) for piece, at in pieces]
    return first, cont + " " * size, tuple(marks)


def _read_literally(leaf: Leaf, page: LayoutContext, before: TextLayout | None) -> Inline:
    """Runs of HTML; those of all lines but the last are taken over from `before`."""
    inline = Inline(leaf.text, [], "")
    first = 0
    if before is not None and before.inline is not None and before.inline.safe_runs:
        first = len(before.origin) - 1
        inline.runs = list(before.inline.safe_runs)
        inline.kept = before.inline.safe
    lines = leaf.text[leaf.origin[first][0] :].split("\n")
    count = 0
    for line, (position, offset) in zip(lines, leaf.origin[first:], strict=True):
        count = len(inline.runs)
        if position:
            inline.runs.append(Run("\n", "text", page.cleaner.source_offset(offset) - 1))
        pieces = page.cleaner.pieces(line.replace("\t", " "), offset) if line else []
        inline.runs += [Run(piece, "text", at) for piece, at in pieces]
    inline.safe, inline.safe_runs = max(0, leaf.origin[-1][0] - 1), inline.runs[:count]
    inline.joined = "".join([run.text for run in inline.runs])
    page.meter.characters += len(inline.joined) // 32
    return inline


def _lay_rule(leaf: Leaf, page: LayoutContext, layout: TextLayout) -> None:
    first = clip_prefix(leaf.first, page.width)
    line = page.rule(max(1, min(page.width - len(first), max(3, page.width // 3))))
    offset = page.cleaner.source_offset(leaf.offset)
    layout.inline = Inline(leaf.text, [], "")
    runs = (*prefix_runs(first, page.mode), Run(line, "faint", -1))
    layout.rows = [Row(runs, offset, "page", len(first))]
