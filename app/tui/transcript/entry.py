"""What the page is made of: entries, their sections of rows, and how a section is dressed.

An entry knows its text and its folds; where it stands, and every colour, is someone else's matter.
All its calls belong to the thread of the screen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar, Literal, NamedTuple

from app.markdown.rows import Body, Mode, Row, Run
from app.terminal.glyphs import Glyphs

Kind = Literal[
    "user", "name", "answer", "thought", "tool", "diff", "error", "note", "queued", "picture", "progress"
]

LIVE_EDGE = "ember"
"""Edge of what is alive: the painter draws the ember's present step."""

_NO_ROW = Row()
_row_offset = attrgetter("offset")


class Sheet(NamedTuple):
    """What a layout depends on; rows made for one sheet are good for every equal one."""

    measure: int
    """Cells a line of text may take."""
    narrow: bool
    """True where right-hand statistics go."""
    mode: Mode
    glyphs: Glyphs


class Dress(NamedTuple):
    """What surrounds the rows of a section and how their plain text looks."""

    edge: str = ""
    """One cell in the edge column of each row, or `LIVE_EDGE`."""
    edge_role: str = "text"
    ground: str = "page"
    """Of rows that lie on the page by themselves."""
    hang: str = ""
    """Stands between the text column and the row, one cell and a blank."""
    hang_role: str = "faint"
    tone: str = "text"
    """The role that plain text takes."""
    attributes: str = ""
    """Added to every run, out of `bisu`."""
    right: tuple[Run, ...] = ()
    """Ends at the measure, in the first row."""


PLAIN = Dress()


@dataclass(slots=True, eq=False)
class Section:
    """Rows of one dress. Those of a body are laid out anew as it grows, others stand as they are."""

    dress: Dress = PLAIN
    rows: list[Row] = field(default_factory=list[Row])
    body: Body | None = None
    width: int = 0
    """Cells for the body."""
    limit: int = 0
    """The most rows of the body that are shown; 0 means all. One more row then tells what is left."""
    tail: bool = False
    """Whether the limit keeps the last rows rather than the first."""
    shut: bool = False
    """Folded away: no row shows, and the body is not laid out."""
    more: Row = _NO_ROW
    hidden: int = 0
    count: int = 0
    """Rows shown, the one that tells what is left included."""

    def lay(self, sheet: Sheet) -> int:
        """Bring `rows` and `count` up to date; the first shown row that may differ."""
        if self.shut:
            return 0
        if self.body is None:
            before, self.count = self.count, len(self.rows)
            return 0 if before != self.count else self.count
        shown = self.count
        changed = self.body.layout(self.width, sheet.mode)
        self.rows = self.body.rows
        hidden = max(0, len(self.rows) - self.limit) if self.limit else 0
        self.count = len(self.rows) - hidden + (1 if hidden else 0)
        if hidden == self.hidden:
            return min(changed, self.count) if not hidden else (0 if changed < len(self.rows) else self.count)
        self.hidden = hidden
        mark = sheet.glyphs.above if self.tail else ""
        label = f"{mark} {hidden:,} more".lstrip()
        self.more = Row((Run(label, "faint"),), self.rows[0 if self.tail else self.limit].offset)
        return 0 if self.tail else min(changed, shown, self.limit)

    def row(self, index: int) -> Row:
        """The shown row at `index`; the same object as long as nothing about it changed."""
        if not self.hidden:
            return self.rows[index]
        if self.tail:
            return self.rows[self.hidden + index - 1] if index else self.more
        return self.rows[index] if index < self.limit else self.more

    def index_of(self, offset: int, past: int) -> int:
        """The shown row that holds `offset`, or stands `past` rows after the first that begins there."""
        rows = self.rows
        first = bisect_left(rows, offset, key=_row_offset)
        after = bisect_right(rows, offset, lo=first, key=_row_offset)
        index = min(first + past, after - 1) if after > first else max(0, first - 1)
        if self.tail and self.hidden:
            index = index - self.hidden + 1
        return max(0, min(index, self.count - 1))


class RowPlace(NamedTuple):
    """A row of an entry, in terms that outlive its layout."""

    section: int
    """Index of the section; -1 for the blank row above the entry."""
    offset: int = 0
    """In the section's source, where the row begins."""
    past: int = 0
    """Rows since the first one that begins there."""


class Entry:
    """One thing on the page. Change its attributes, then tell the transcript with `changed(entry)`."""

    kind: ClassVar[Kind]
    foldable: ClassVar[bool] = False
    inset: ClassVar[int] = 0
    """Cells of the measure that the body leaves free."""
    stop: ClassVar[bool] = True
    """Whether the block cursor stops here."""

    def __init__(self, *, id: str = "", live: bool = False) -> None:
        self.id = id
        """Of the session's item, for `Transcript.entry_of`."""
        self.live = live
        """True while it grows."""
        self.folded = False
        self.height = 0
        """Rows of the last layout, without the blank one above."""
        self._grown: Body | None = None
        self.weight: tuple[int, int] | None = None
        self.sections: list[Section] = []
        self.stale = False
        """Whether an attribute changed since the last layout."""
        self.sheet: Sheet | None = None
        """What the rows were laid out for; None when there are none."""

    # What a kind of entry says of itself.

    @property
    def source(self) -> str:
        """The text that a copy of the whole entry yields."""
        return ""

    def in_full(self, piece: str) -> str:
        """A piece of the source as it is copied: whole, where words in it stand for more."""
        return piece

    @property
    def parts(self) -> Sequence[str]:
        """The text of each section: what offsets count in, selections are slices of, a search looks at."""
        return (self.source,)

    @property
    def body(self) -> Body | None:
        """The text that grows, where there is one."""
        return None

    @property
    def hidden(self) -> bool:
        """True while there is nothing to show: no row, and no blank row above."""
        return False

    def arrange(self, sheet: Sheet) -> list[Section]:
        """The sections for `sheet`; bodies are laid out later."""
        raise NotImplementedError

    @property
    def beside(self) -> int:
        """Rows that are not the body's, for a guess of the height."""
        return 1

    def toggle(self) -> None:
        """Fold or open; the next layout shows it."""
        if self.foldable:
            self.folded = not self.folded
            self.touch()

    def reveal(self, section: int) -> None:
        """Open what hides `section`."""
        if section and self.folded:
            self.folded = False
            self.touch()

    def grow(self, text: str) -> None:
        """More of the text that streams."""
        body = self.body
        if body is None or not text:
            return
        if body is not self._grown:
            self._grown = body
            self.touch()  # sections without text are not there
        self.weight = None
        body.append(text)

    def finish(self) -> None:
        """Nothing more streams."""
        self.live = False
        if self.body is not None:
            self.body.finish()
        self.touch()

    def settle(self, budget: float) -> bool:
        """Give code its exact colours for about `budget` seconds; True while more is to be done."""
        return self.body is not None and self.body.settle(budget)

    # What the page asks.

    def touch(self) -> None:
        """An attribute changed: the next layout arranges the sections anew; until then the old rows stand."""
        self.stale = True
        self.weight = None

    def layout(self, sheet: Sheet) -> int:
        """Bring the rows up to date; index of the first one that may differ, `height` when none does."""
        before = self.height
        anew = self.stale or sheet != self.sheet
        if anew:
            self.stale = False
            self.sections = [] if self.hidden else self.arrange(sheet)
            # what is hidden shows itself as soon as it has something to show
            self.sheet = sheet if self.sections else None
        first = height = 0
        same = True
        for section in self.sections:
            changed = section.lay(sheet)
            if same:
                first = height + changed
                same = changed >= section.count
            height += section.count
        self.height = height
        if anew:
            return 0
        if same and height == before:
            return height
        # the caret leaves the row that was the last one
        last = min(before, height) - 1 if self.live else height
        return max(0, min(first, before, height, last))

    def release(self) -> None:
        """Forget the rows, not the height."""
        self.sections = []
        self.sheet = None
        if self.body is not None:
            self.body.release()

    def estimate(self, sheet: Sheet) -> int:
        """Rows: the true number where it is known, else a guess. 0 for what is hidden."""
        if self.sheet == sheet and not self.stale:
            return self.height
        rows, characters = self.weight or self.weigh()
        return rows + characters // max(1, sheet.measure - self.inset)

    def weigh(self) -> tuple[int, int]:
        """Rows whatever the width, and characters: what a guess needs, found once."""
        source = "" if self.folded or self.body is None else self.body.source
        rows = 0 if self.hidden else self.beside + source.count("\n") + bool(source)
        self.weight = rows, len(source) if rows else 0
        return self.weight

    def at(self, row: int) -> tuple[int, int]:
        """(section, row inside it) of a laid-out row."""
        for index, section in enumerate(self.sections):
            if row < section.count:
                return index, row
            row -= section.count
        raise IndexError(row)

    def place(self, row: int) -> RowPlace:
        """The laid-out row in terms that outlive the layout."""
        index, inside = self.at(row)
        section = self.sections[index]
        offset = section.row(inside).offset
        past = 0
        while past < inside and section.row(inside - past - 1).offset == offset:
            past += 1
        return RowPlace(index, offset, past)

    def row_of(self, place: RowPlace) -> int:
        """The laid-out row at `place`; the nearest one before it when that is folded away."""
        above = sum([section.count for section in self.sections[: place.section]])
        if place.section >= len(self.sections) or not self.sections[place.section].count:
            return max(0, above - 1)
        return above + self.sections[place.section].index_of(place.offset, place.past)


def with_body(
    body: Body, dress: Dress, width: int, *, limit: int = 0, tail: bool = False, shut: bool = False
) -> Section:
    """A section that shows `body`."""
    return Section(dress, body.rows, body, max(1, width), limit, tail, shut)
