"""Text as terminal cells: spans with a role, cut, padded and joined to rows of an exact width.

Pure: it knows no colour, no theme and no widget. What it is given may be hostile; `plain` makes it
one line that a terminal may be sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.cells import cell_len, split_graphemes

from app.terminal.output import squeezed

MAX_LINE_CHARS = 2000
"""Of one line of foreign text, what is looked at: no title makes a list slow."""
CUT, CUT_LEFT = "\u203a", "\u2039"


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text in one role of the palette."""

    text: str
    role: str = "text"
    bold: bool = False
    italic: bool = False
    underline: bool = False


Line = Sequence[Span]


def plain(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Foreign text as one printable line: controls removed, every run of blanks one space."""
    return squeezed(text[: 2 * limit])[:limit]


def from_home(path: Path) -> str:
    """A path as people write it: `~/...` below the home folder. Foreign: `plain` it before it is shown."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def width_of(line: Line) -> int:
    """Cells that a line takes."""
    return sum(cell_len(span.text) for span in line)


def cut(text: str, width: int, mark: str = CUT) -> str:
    """`text` in at most `width` cells; where some is lost, `mark` is the last cell."""
    if cell_len(text) <= width:
        return text
    return text[: _end_of(text, width - 1)].rstrip() + mark if width > 0 else ""


def cut_left(text: str, width: int, mark: str = CUT_LEFT) -> str:
    """As `cut`, keeping the end: for paths."""
    size = cell_len(text)
    if size <= width:
        return text
    if width <= 0:
        return ""
    start = _end_of(text, size - width + 1)
    while start < len(text) and cell_len(text[start:]) >= width:
        start += 1
    return mark + text[start:]


def _end_of(text: str, width: int) -> int:
    """How many characters fit into `width` cells; what a person sees as one character stays whole."""
    used = end = 0
    for _, stop, size in split_graphemes(text)[0]:
        used += size
        if used > width:
            break
        end = stop
    return end


def fitted(line: Line, width: int, mark: str = CUT) -> list[Span]:
    """A line in exactly `width` cells: cut with `mark`, or padded with blanks."""
    spans: list[Span] = []
    left = width
    for index, span in enumerate(line):
        size = cell_len(span.text)
        follows = any(later.text for later in line[index + 1 :])
        if size > left or (size == left and follows):
            text = cut(span.text if size > left else f"{span.text} ", left, mark)
            spans.append(replace(span, text=text))
            left -= cell_len(text)
            break
        spans.append(span)
        left -= size
    return [*spans, Span(" " * left)] if left > 0 else spans


def joined(left: Line, right: Line, width: int, *, gap: int = 2, mark: str = CUT) -> list[Span]:
    """`left` and, at the right end, `right`: the right stays whole while `left` keeps a third."""
    size = width_of(right)
    if not size:
        return fitted(left, width, mark)
    if size + gap > width * 2 // 3 and width_of(left) + size + gap > width:
        right = fitted(right, max(0, min(size, width * 2 // 3 - gap)), mark)
        size = width_of(right)
    gap = min(gap, width - size)
    return [*fitted(left, width - size - gap, mark), Span(" " * gap), *right]


def columns(cells: Iterable[tuple[Line, int]], *, gap: int = 2, mark: str = CUT) -> list[Span]:
    """Cells side by side, each `(line, width)`; a negative width sets its text at the right."""
    row: list[Span] = []
    for line, width in cells:
        if row:
            row.append(Span(" " * gap))
        size = min(width_of(line), abs(width))
        row += [Span(" " * (-width - size))] if width < 0 else []
        row += fitted(line, size if width < 0 else width, mark)
    return row


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at spaces where there are some."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            if line and cell_len(line) + 1 + cell_len(word) <= width:
                line = f"{line} {word}"
                continue
            if line:
                lines.append(line)
            while cell_len(word) > width and (end := _end_of(word, width)):
                lines.append(word[:end])
                word = word[end:]
            line = word
        lines.append(line)
    return lines


def marked(text: str, places: Iterable[tuple[int, int]], normal: Span, hit: Span) -> list[Span]:
    """`text` with the characters in `places` (start, end; sorted, apart) as `hit`, the rest as `normal`."""
    spans: list[Span] = []
    end = 0
    for start, stop in places:
        spans += [replace(normal, text=text[end:start]), replace(hit, text=text[start:stop])]
        end = stop
    return [span for span in [*spans, replace(normal, text=text[end:])] if span.text]
