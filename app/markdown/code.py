"""Rows of a block of code: complete lines are laid out once, only the last one is done again."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.markdown.highlight import Highlighter, Line, language_of
from app.markdown.layout import Layout, LayoutContext
from app.markdown.leaves import Leaf
from app.markdown.rows import Background, Row, Run
from app.markdown.wrap import breaks, cells, clip_prefix, prefix_runs, run_starts, slice_runs

_TAB = 4
_DIFFS = ("diff", "patch", "udiff")


@dataclass(slots=True)
class CodeLayout(Layout):
    highlighter: Highlighter = field(default_factory=lambda: Highlighter(""))
    language: str = ""
    done: int = 0
    """Lines that are laid out for good, but for their colours."""
    ends: list[int] = field(default_factory=list[int])
    """Number of rows before each line, and after the last done one."""


def lay_code(leaf: Leaf, page: LayoutContext) -> int:
    """Bring the rows of a fence or of indented code up to date; the first changed row."""
    layout, fresh = _layout(leaf, page)
    complete = _complete(leaf)
    if not page.mode.plain:
        layout.highlighter.follow(leaf.lines, complete)
    done = min(layout.done, complete)
    keep = layout.ends[done]
    before = layout.rows[keep:]
    del layout.rows[keep:], layout.ends[done + 1 :]
    recoloured = _recolour(leaf, page, layout, done)
    _add_lines(leaf, page, layout, done, complete)
    layout.done = complete
    new = layout.rows[keep:]
    same = 0
    while same < min(len(before), len(new)) and before[same] == new[same]:
        same += 1
    return 0 if fresh else min(recoloured, keep + same)


def advance_code(leaf: Leaf, deadline: float) -> tuple[bool, bool]:
    """Colour more of a block until `deadline`: (rows are out of date, more is to be done)."""
    layout = leaf.laid
    if not isinstance(layout, CodeLayout) or layout.mode.plain:
        return False, False
    more = layout.highlighter.advance(leaf.lines, _complete(leaf), deadline)
    return layout.highlighter.is_stale, more


def _complete(leaf: Leaf) -> int:
    """How many lines of a block cannot grow any more."""
    return len(leaf.lines) if leaf.closed and leaf.kind == "fence" else max(0, len(leaf.lines) - 1)


def _recolour(leaf: Leaf, page: LayoutContext, layout: CodeLayout, done: int) -> int:
    """Make the rows anew of lines before `done` whose styles changed; the first such row."""
    first, last = layout.highlighter.take_changes()
    last = min(last, done)
    if first >= last:
        return len(layout.rows) + len(leaf.lines)
    rows: list[Row] = []
    painter = _LinePainter(leaf, page, layout)
    for number in range(first, last):
        rows += painter.rows(number, coloured=True, opens=number == 0 and not layout.ends[0])
    layout.rows[layout.ends[first] : layout.ends[last]] = rows
    return layout.ends[first]


def _layout(leaf: Leaf, page: LayoutContext) -> tuple[CodeLayout, bool]:
    key = (leaf.kind, leaf.first, leaf.cont, leaf.info, leaf.offset)
    before = leaf.laid if isinstance(leaf.laid, CodeLayout) else None
    if before is not None and before.fits(page, key):
        return before, False
    language = language_of(leaf.info)
    layout = CodeLayout(page.width, page.mode, key, language=language)
    if before is not None and before.key == key:
        layout.highlighter = before.highlighter
    else:
        layout.highlighter = Highlighter(language)
    _add_heading(leaf, page, layout)
    layout.ends = [len(layout.rows)]
    leaf.laid = layout
    return layout, True


def _add_heading(leaf: Leaf, page: LayoutContext, layout: CodeLayout) -> None:
    """The first row: the language; without colours a rule that says it."""
    first = clip_prefix(leaf.first, page.width)
    room = page.width - len(first)
    name = leaf.info.split()[0] if leaf.info else ""
    if page.mode.plain:
        dash = page.rule(1)
        words = f"{dash * 2} {name} {dash * 3}" if name else dash * 3
    elif name:
        words = name
    else:
        return
    start, end = breaks(words, max(1, room), at_blanks=False)[0]
    style = "faint" if page.mode.plain else "muted"
    offset = page.cleaner.source_offset(leaf.offset)
    runs = (*prefix_runs(first, page.mode), Run(words[start:end], style))
    layout.rows.append(Row(runs, offset, "page" if page.mode.plain else "code", len(first)))


def _add_lines(leaf: Leaf, page: LayoutContext, layout: CodeLayout, start: int, complete: int) -> None:
    painter = _LinePainter(leaf, page, layout)
    for number in range(start, len(leaf.lines)):
        coloured = number < complete or leaf.closed
        layout.rows += painter.rows(number, coloured=coloured, opens=not layout.rows)
        page.meter.characters += len(leaf.lines[number]) // 2
        if number < complete:
            layout.ends.append(len(layout.rows))
    cont = clip_prefix(leaf.cont, page.width)
    if not leaf.lines and not layout.rows:
        front = prefix_runs(clip_prefix(leaf.first, page.width), page.mode)
        layout.rows.append(Row(front, page.cleaner.source_offset(leaf.offset), "code", len(cont)))
    if page.mode.plain:
        rule = Run(page.rule(min(3, page.width - len(cont))), "faint")
        layout.rows.append(
            Row((*prefix_runs(cont, page.mode), rule), layout.rows[-1].offset, "page", len(cont))
        )


class _LinePainter:
    """Makes the rows of one line."""

    def __init__(self, leaf: Leaf, page: LayoutContext, layout: CodeLayout) -> None:
        cont = clip_prefix(leaf.cont, page.width)
        inset = "  " if page.mode.plain and page.width - len(cont) > 12 else ""
        self._leaf = leaf
        self._page = page
        self._styled = layout.highlighter.styled
        self._is_diff = layout.language in _DIFFS
        self._indent = len(cont)
        self._width = max(1, page.width - len(cont) - len(inset))
        self._first = prefix_runs(clip_prefix(leaf.first, page.width) + inset, page.mode)
        self._cont = prefix_runs(cont + inset, page.mode)

    def rows(self, number: int, *, coloured: bool, opens: bool) -> list[Row]:
        """Rows of line `number`; `opens` where they are the first of the leaf."""
        text = self._leaf.lines[number]
        source_offset = self._page.cleaner.source_offset
        offset = self._leaf.line_offsets[number]
        ground: Background = "page" if self._page.mode.plain else "code"
        if self._is_diff:
            ground, line = _diff_line(text, ground)
        else:
            line = self._styled[number] if coloured and number < len(self._styled) else []
            if "".join([part for part, _ in line]) != text:
                line = [(text, "code")]
        runs = _runs(line, offset, self._page)
        head = self._first if opens else self._cont
        at = source_offset(offset + len(text) - len(text.lstrip(" \t")))
        joined = "".join([run.text for run in runs])
        found = breaks(joined, self._width, at_blanks=False)
        if len(found) == 1:
            return [Row((*head, *runs), at, ground, self._indent)]
        starts = run_starts(runs)
        rows: list[Row] = []
        for start, end in found:
            part = slice_runs(runs, starts, start, end)
            at = max(at, part[0].offset)
            rows.append(Row((*head, *part), at, ground, self._indent, end < len(joined)))
            head = self._cont
        return rows


def _runs(line: Line, offset: int, page: LayoutContext) -> list[Run]:
    """Pieces of a line as runs, tabs expanded by their columns."""
    runs: list[Run] = []
    column = 0
    for text, style in line:
        for index, part in enumerate(text.split("\t")):
            if index:
                blanks = _TAB - column % _TAB
                runs.append(Run(" " * blanks, style, page.cleaner.source_offset(offset), None, 1))
                column += blanks
                offset += 1
            if part:
                runs += [Run(piece, style, at) for piece, at in page.cleaner.pieces(part, offset)]
                column += cells(part)
                offset += len(part)
    return runs


def _diff_line(text: str, ground: Background) -> tuple[Background, Line]:
    """Sign bold, the rest as text, on the tint of its kind."""
    if text.startswith(("+++", "---", "@@", "diff ", "index ")):
        return ground, [(text, "muted")]
    sign = text[:1]
    if sign not in ("+", "-"):
        return ground, [(text, "code")] if text else []
    style = "added:b" if sign == "+" else "removed:b"
    tint: Background = "added" if sign == "+" else "removed"
    return tint if ground == "code" else ground, [(sign, style), (text[1:], "code")] if text[1:] else [
        (sign, style)
    ]
