"""What a laid-out text is made of: runs, rows, and the modes they are drawn in.

Nothing here knows a colour or a widget: a style is a key, a ground is a name, and a theme decides
what they look like, so a change of theme lays nothing out again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

Background = Literal["page", "code", "added", "removed"]
"""What a row lies on: the page, the code ground, the tint of an added or of a removed line."""

Role = Literal[
    "text",
    "muted",
    "faint",
    "link",
    "chip",
    "code",
    "keyword",
    "string",
    "number",
    "comment",
    "function",
    "builtin",
    "decorator",
    "operator",
    "added",
    "removed",
]
"""The first word of a style key. `chip` is inline code, `code` is code without a colour of its own."""


class Run(NamedTuple):
    """A piece of one row in one style; its text holds no control character and no newline."""

    text: str
    style: str = "text"
    """A role, or a role, a colon and attributes out of `bisu` (bold, italic, strike, underline),
    for example `text:bi`; see `split_style`."""
    offset: int = -1
    """Where the text starts in the message's source, in code points; -1 for what we added ourselves
    (marks, padding). Unless `stands_for` is set the run is parallel to the source: `text[i]` shows
    `source[offset + i]`."""
    href: str | None = None
    """Target of a link as the source says it; untrusted."""
    stands_for: int = 0
    """Code points of the source that the run shows in other words (a formula, an entity), else 0."""


class Row(NamedTuple):
    """One screen row. It starts at the text column and is never wider than the width asked for."""

    runs: tuple[Run, ...] = ()
    offset: int = 0
    """Where the row starts in the source; never smaller than that of the row above."""
    ground: Background = "page"
    """Any ground but `page` fills the row from one cell before `indent` to the column's right end."""
    indent: int = 0
    """Cells at the left that belong to lists and quotes around the row."""
    wraps: bool = False
    """True where a line of code goes on in the next row: a faint U+203A belongs in the padding cell."""

    @property
    def text(self) -> str:
        """What the row says, without styles."""
        return "".join([run.text for run in self.runs])


class Mode(NamedTuple):
    """How a text is drawn where the terminal can do less."""

    plain: bool = False
    """No colours: backticks and `#` stay, fences get rules, strike-through is written `~so~`."""
    ascii: bool = False
    """Our own marks come from 0x20-0x7E, and maths stays source."""
    link_targets: bool = False
    """No clickable links: a target that differs from its text follows whole, however long it is."""


COLOUR = Mode()


class CodeBlock(NamedTuple):
    """A fenced or indented block as the source has it."""

    language: str
    """First word of the info string, as written; empty when there is none."""
    code: str
    """The lines of the block, each ended by a newline, controls and all."""
    start: int
    """Source offset of the line that opens the block."""
    end: int
    """Source offset after the block's last line."""
    fenced: bool = True
    """False for indented code."""


class Body(Protocol):
    """A growing text that can be laid out: Markdown, or literal text."""

    @property
    def source(self) -> str:
        """Everything appended so far, as it was."""
        ...

    @property
    def finished(self) -> bool:
        """True after `finish`."""
        ...

    @property
    def rows(self) -> list[Row]:
        """Rows of the last `layout`; the same list each time, to read only."""
        ...

    def append(self, text: str) -> None:
        """More source. Cheap pieces are fine: nothing is laid out before `layout`."""

    def finish(self) -> None:
        """No more source comes; idempotent."""

    def layout(self, width: int, mode: Mode = COLOUR) -> int:
        """Bring `rows` up to date for `width` cells; index of the first row that may differ from before.

        It is `len(rows)` when nothing changed, 0 after another width or mode or after `release`.
        """
        ...

    def estimate(self, width: int) -> int:
        """A guess of the number of rows, without layout."""
        ...

    def release(self) -> None:
        """Forget rows and caches; the next `layout` makes them again."""

    def settle(self, budget: float) -> bool:
        """Improve closed code blocks for at most about `budget` seconds; True while more is to be done.

        Call `layout` afterwards: it tells the first changed row.
        """
        ...

    def block_at(self, offset: int) -> tuple[int, int]:
        """Source range (start, end) of the block that holds `offset`."""
        ...

    def code_blocks(self) -> list[CodeBlock]:
        """All code blocks, first to last."""
        ...


def split_style(style: str) -> tuple[str, str]:
    """A style key as (role, attributes): `"text:bi"` is `("text", "bi")`."""
    role, _, attributes = style.partition(":")
    return role, attributes


def add_attributes(style: str, attributes: str) -> str:
    """`style` with more attributes; keys stay canonical, so equal looks are equal keys."""
    role, _, have = style.partition(":")
    return f"{role}:{''.join(sorted({*have, *attributes}))}" if have or attributes else role
