"""Rows of a block of code: complete lines are laid out once, only the last one is done again."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.tui.transcript.blocks import Leaf
from app.tui.transcript.highlight import Highlighter, Line, language_of
from app.tui.transcript.layout import Layout, Page
from app.tui.transcript.rows import Ground, Row, Run
from app.tui.transcript.wrap import breaks, cells, clip_prefix, prefix_runs, run_starts, slice_runs

_TAB = 4
_DIFFS = ("diff", "patch", "udiff")


@dataclass(slots=True)
class CodeLayout(Layout):
    highlighter: Highlighter = field(default_factory=lambda: Highlighter(""))
    language: str = ""
    version: int = 0
    """Of the highlighter, that the rows show."""
    done: int = 0
    """Lines that are laid out for good."""
    styled: int = 0
    """How many of them had their styles by then."""
    ends: list[int] = field(default_factory=list[int])
    """Number of rows before each line, and after the last done one."""


def lay_code(leaf: Leaf, page: Page) -> int:
    """Bring the rows of a fence or of indented code up to date; the first changed row."""
    layout, fresh = _layout(leaf, page)
    highlighter = layout.highlighter
    complete = len(leaf.lines) if leaf.closed and leaf.kind == "fence" else max(0, len(leaf.lines) - 1)
    if not page.mode.plain:
        if leaf.closed:
            highlighter.close(leaf.lines)
        else:
            highlighter.follow(leaf.lines, complete)
    done = min(layout.done, complete)
    if layout.version != highlighter.version:
        done = min(done, highlighter.changed_from)
        layout.version = highlighter.version
    if layout.styled < len(highlighter.styled):
        done = min(done, layout.styled)
    keep = layout.ends[done]
    before = layout.rows[keep:]
    del layout.rows[keep:], layout.ends[done + 1 :]
    _add_lines(leaf, page, layout, done, complete)
    layout.done = complete
    layout.styled = min(len(highlighter.styled), complete)
    if fresh:
        return 0
    new = layout.rows[keep:]
    same = 0
    while same < min(len(before), len(new)) and before[same] == new[same]:
        same += 1
    return keep + same


def advance_code(leaf: Leaf, deadline: float) -> tuple[bool, bool]:
    """Colour more of a block until `deadline`: (rows are out of date, more is to be done)."""
    layout = leaf.laid
    if not isinstance(layout, CodeLayout) or layout.mode.plain:
        return False, False
    complete = len(leaf.lines) if leaf.closed else max(0, len(leaf.lines) - 1)
    more = layout.highlighter.advance(leaf.lines, complete, leaf.closed, deadline)
    return layout.version != layout.highlighter.version, more


def _layout(leaf: Leaf, page: Page) -> tuple[CodeLayout, bool]:
    key = (leaf.kind, leaf.first, leaf.cont, leaf.info, leaf.offset)
    before = leaf.laid if isinstance(leaf.laid, CodeLayout) else None
    if before is not None and before.fits(page, key) and leaf.kind == "fence":
        return before, False
    language = language_of(leaf.info)
    layout = CodeLayout(page.width, page.mode, key, language=language)
    if before is not None and before.key == key and leaf.kind == "fence":
        layout.highlighter = before.highlighter
    else:
        layout.highlighter = Highlighter(language)
    layout.version = layout.highlighter.version
    _add_heading(leaf, page, layout)
    layout.ends = [len(layout.rows)]
    leaf.laid = layout
    return layout, True


def _add_heading(leaf: Leaf, page: Page, layout: CodeLayout) -> None:
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


def _add_lines(leaf: Leaf, page: Page, layout: CodeLayout, start: int, complete: int) -> None:
    cont = clip_prefix(leaf.cont, page.width)
    inset = "  " if page.mode.plain and page.width - len(cont) > 12 else ""
    head = prefix_runs(cont + inset, page.mode)
    width = max(1, page.width - len(cont) - len(inset))
    styled = layout.highlighter.styled
    for number in range(start, len(leaf.lines)):
        text = leaf.lines[number]
        if number < len(styled) and (number < complete or leaf.closed):
            line = styled[number]
        else:
            line = [(text, "code")] if text else []
        if not layout.rows:
            front = prefix_runs(clip_prefix(leaf.first, page.width) + inset, page.mode)
        else:
            front = head
        offset = leaf.line_offsets[number]
        layout.rows += _line_rows(line, text, offset, (front, head), page, width, layout.language, len(cont))
        if number < complete:
            layout.ends.append(len(layout.rows))
    if not leaf.lines and not layout.rows:
        offset = page.cleaner.source_offset(leaf.offset)
        front = prefix_runs(clip_prefix(leaf.first, page.width), page.mode)
        layout.rows.append(Row(front, offset, "code", len(cont)))
    if page.mode.plain:
        last = layout.rows[-1].offset
        rule = Run(page.rule(min(3, width)), "faint")
        layout.rows.append(Row((*prefix_runs(cont, page.mode), rule), last, "page", len(cont)))


def _line_rows(
    line: Line,
    text: str,
    offset: int,
    heads: tuple[tuple[Run, ...], tuple[Run, ...]],
    page: Page,
    width: int,
    language: str,
    indent: int,
) -> list[Row]:
    """Rows of one line; `heads` are the prefixes of the first row and of the others."""
    ground: Ground = "page" if page.mode.plain else "code"
    if language in _DIFFS:
        ground, line = _diff_line(text, ground)
    runs = _runs(line, offset, page)
    start_offset = page.cleaner.source_offset(offset)
    joined = "".join([run.text for run in runs])
    found = breaks(joined, width, at_blanks=False)
    if len(found) == 1:
        return [Row((*heads[0], *runs), start_offset, ground, indent)]
    starts = run_starts(runs)
    rows: list[Row] = []
    for number, (start, end) in enumerate(found):
        part = slice_runs(runs, starts, start, end)
        start_offset = max(start_offset, part[0].offset)
        wraps = number < len(found) - 1
        rows.append(Row((*heads[number > 0], *part), start_offset, ground, indent, wraps))
    return rows


def _runs(line: Line, offset: int, page: Page) -> list[Run]:
    """Pieces of a line as runs, tabs expanded by their columns."""
    runs: list[Run] = []
    column = 0
    for text, style in line:
        for index, part in enumerate(text.split("\t")):
            if index:
                blanks = _TAB - column % _TAB
                runs.append(Run(" " * blanks, style, page.cleaner.source_offset(offset)))
                column += blanks
                offset += 1
            if part:
                runs += [Run(piece, style, at) for piece, at in page.cleaner.pieces(part, offset)]
                column += cells(part)
                offset += len(part)
    return runs


def _diff_line(text: str, ground: Ground) -> tuple[Ground, Line]:
    """Sign bold, the rest as text, on the tint of its kind."""
    if text.startswith(("+++", "---", "@@", "diff ", "index ")):
        return ground, [(text, "muted")]
    sign = text[:1]
    if sign not in ("+", "-"):
        return ground, [(text, "code")] if text else []
    style = "added:b" if sign == "+" else "removed:b"
    tint: Ground = "added" if sign == "+" else "removed"
    return tint if ground == "code" else ground, [(sign, style), (text[1:], "code")] if text[1:] else [
        (sign, style)
    ]
