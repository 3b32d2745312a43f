"""The leaves of a message and the containers around them: values that parsing makes and layout reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["paragraph", "heading", "fence", "indented", "table", "rule", "html", "definition"]
References = dict[str, dict[str, str]]

QUOTE_EDGE = "\u254e "
TRIMMED = "\t\n\x0b\x0c\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What markdown-it strips from the ends of a block's text."""


@dataclass(slots=True, eq=False)
class Container:
    """A quote, or an item of a list, that leaves stand in."""

    is_item: bool
    line: int
    """Line of the message that opens it."""
    marker: str = ""
    label: str = ""
    ordered: bool = False
    number: int = 0
    index: int = 0
    """Place of the item in its list, from 0."""
    indent: int = 0
    """Column of the marker, counted from the content of the container around it."""
    content: int = 0
    """Column of the content, counted in the same way."""
    labelled: bool = False
    """True when a leaf already shows the label."""
    unclear: bool = False
    """True where the columns cannot be told, so that no line can stand for it."""
    owner: Leaf | None = None
    """The first leaf inside."""

    def sibling(self) -> Container:
        """The item before this one, as a line that keeps the list open."""
        return Container(
            True,
            self.line,
            self.marker,
            ordered=self.ordered,
            number=self.number - 1,
            index=self.index - 1,
            indent=self.indent,
            content=self.indent + len(self.marker) + 1,
            labelled=True,
        )


class SourceLine(NamedTuple):
    """A line of the cleaned text and where it starts."""

    text: str
    offset: int


@dataclass(slots=True, eq=False)
class Leaf:
    """A run of rows without structure of its own above the line: paragraph, fence, table..."""

    kind: Kind
    start_line: int
    """First line in the message; -1 for a part of a leaf that is parsed in pieces."""
    end_line: int
    """The line after the last."""
    offset: int = 0
    """Where the first line starts in the cleaned text."""
    path: tuple[Container, ...] = ()
    first: str = ""
    cont: str = ""
    """Prefixes of the first row and of the others."""
    gap: int = 0
    """Empty rows above."""
    top: int = 0
    """Number of the top-level block the leaf belongs to."""
    level: int = 0
    info: str = ""
    text: str = ""
    origin: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """For each line of `text`: its position there, and its offset in the cleaned text."""
    skipped: int = 0
    """Lines at the front of nothing but rare blanks, which no text has."""
    task: str = ""
    lines: list[str] = field(default_factory=list[str])
    line_offsets: list[int] = field(default_factory=list[int])
    cells: list[list[str]] = field(default_factory=list[list[str]])
    cell_lines: list[SourceLine] = field(default_factory=list[SourceLine])
    aligns: list[str] = field(default_factory=list[str])
    target: dict[str, str] = field(default_factory=dict[str, str])
    closed: bool = True
    """False while a fence has no end; False for a table whose last row is not a whole line."""
    done: int = 0
    """Lines or rows that cannot change, of a leaf that is parsed in pieces."""
    head: str = ""
    """Those lines of a paragraph or of HTML."""
    laid: object = None
    """What layout keeps with the leaf; it carries its own validity."""

    def key(self) -> tuple[object, ...]:
        """Equal for equal blocks: what tells one parse from another."""
        cells = tuple(tuple(row) for row in self.cells)
        shape = (self.kind, self.first, self.cont, self.gap, self.level, self.info, self.start_line)
        return (*shape, self.task, self.text, tuple(self.lines), cells, tuple(self.aligns), self.offset)
