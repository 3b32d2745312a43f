"""The page: entries under each other, their heights, and where a row of text is after anything changed.

It lays out only what is asked for: an entry that was never shown has a guessed height.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.tui.transcript.entry import Entry, Kind, RowPlace, Sheet
from app.tui.transcript.heights import Heights

_KEPT_LAID_OUT = 400
"""Entries whose rows are kept; beyond it those shown longest ago lay out anew when they are shown."""

_UNDER_A_NAME: frozenset[Kind] = frozenset({"thought", "tool", "diff", "progress"})


class Anchor(NamedTuple):
    """The row of text at the top of the screen, in terms that outlive any layout."""

    entry: Entry
    place: RowPlace


class Change(NamedTuple):
    """Rows of the page that may look different."""

    top: int
    bottom: int
    """The first row that is the same again; rows below moved if `moved`."""
    moved: bool


_JOINED: frozenset[tuple[str | None, str]] = frozenset(
    {(above, below) for above in ("name", *_UNDER_A_NAME) for below in _UNDER_A_NAME}
    | {("name", "answer"), ("user", "picture"), ("picture", "picture")}
)
"""Pairs of kinds with no blank row between them."""


class Page:
    """The entries of one chat, laid out for one sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.entries: list[Entry] = []
        self.heights = Heights()
        """Rows of each entry with the blank row above it."""
        self._gaps: list[int] = []
        self._index: dict[Entry, int] = {}
        self._laid: dict[Entry, None] = {}
        self._changes: list[Change] = []

    def __contains__(self, entry: object) -> bool:
        return entry in self._index

    @property
    def total(self) -> int:
        """Rows of the page; guessed where nobody looked yet."""
        return self.heights.total

    def index(self, entry: Entry) -> int:
        """Where `entry` is; KeyError where it is not on this page."""
        return self._index[entry]

    def gap(self, index: int) -> int:
        """Blank rows above the entry at `index`."""
        return self._gaps[index]

    # ---- what is on the page ---------------------------------------------------------------------

    def replace(self, entries: Iterable[Entry]) -> None:
        """Other entries altogether. Nothing is laid out."""
        self.entries = list(entries)
        self._laid.clear()
        self._index_again()
        self._measure()

    def append(self, entry: Entry) -> None:
        """One more entry at the end."""
        self._index[entry] = len(self.entries)
        self.entries.append(entry)
        gap = self._gap_above(len(self.entries) - 1)
        self._gaps.append(gap)
        self.heights.append(gap + entry.estimate(self.sheet))

    def insert(self, index: int, entry: Entry) -> None:
        """One more entry before the one at `index`. O(n)."""
        self.entries.insert(index, entry)
        self._change_list()

    def remove(self, entry: Entry) -> None:
        """Take `entry` off the page. O(n) unless it is the last one."""
        index = self._index[entry]
        self._laid.pop(entry, None)
        del self.entries[index]
        if index < len(self.entries):
            self._change_list()
            return
        del self._index[entry], self._gaps[index]
        self.heights.pop()

    def resize(self, sheet: Sheet) -> None:
        """Lay out for another sheet from now on."""
        self.sheet = sheet
        self._measure()

    def _change_list(self) -> None:
        self._index_again()
        self._measure()

    def _index_again(self) -> None:
        self._index = {entry: index for index, entry in enumerate(self.entries)}

    def _measure(self) -> None:
        sheet = self.sheet
        gaps: list[int] = []
        heights: list[int] = []
        above: Kind | None = None
        for entry in self.entries:
            height = entry.estimate(sheet)
            gap = 0
            if height:
                kind = entry.kind
                gap = 0 if above is None or (above, kind) in _JOINED else 1
                above = kind
            gaps.append(gap)
            heights.append(gap + height)
        self._gaps = gaps
        self.heights = Heights(heights)

    def _gap_above(self, index: int) -> int:
        entry = self.entries[index]
        if self._is_empty(entry):
            return 0
        for above in range(index - 1, -1, -1):
            if not self._is_empty(self.entries[above]):
                return 0 if (self.entries[above].kind, entry.kind) in _JOINED else 1
        return 0

    def _is_empty(self, entry: Entry) -> bool:
        """True without any row: nothing to show, or text such as a link's definition, which shows nothing."""
        return entry.hidden or (not entry.height and entry.sheet == self.sheet)

    # ---- layout ----------------------------------------------------------------------------------

    def take_changes(self) -> list[Change]:
        """What layouts changed since the last call, whoever asked for them."""
        changes, self._changes = self._changes, []
        return changes

    def lay(self, index: int) -> bool:
        """Lay out one entry; True if rows of it may differ from before."""
        entry = self.entries[index]
        known = entry.sheet == self.sheet
        first = entry.layout(self.sheet)
        if not known and entry.sheet is not None:
            self._keep(entry)
        gap = self._gaps[index]
        if (entry.height > 0) != (gap > 0) and (gap := self._gap_above(index)) != self._gaps[index]:
            self._gaps[index] = gap
            first = 0
            self._gap_below(index)
        height = gap + entry.height
        before = self.heights[index]
        if first >= entry.height and height == before:
            return False
        self.heights[index] = height
        top = self.heights.before(index)
        self._changes.append(Change(top + (gap + first if first else 0), top + height, height != before))
        return True

    def _gap_below(self, index: int) -> None:
        below = index + 1
        while below < len(self.entries) and self._is_empty(self.entries[below]):
            below += 1
        if below < len(self.entries) and (gap := self._gap_above(below)) != self._gaps[below]:
            self.heights[below] += gap - self._gaps[below]
            self._gaps[below] = gap

    def _keep(self, entry: Entry) -> None:
        laid = self._laid
        laid.pop(entry, None)
        laid[entry] = None
        while len(laid) > _KEPT_LAID_OUT:
            oldest = next(iter(laid))
            del laid[oldest]
            if not oldest.live:
                oldest.release()

    def lay_down(self, row: int, rows: int) -> None:
        """Lay out what shows in `rows` rows from `row` on; entries below get their true heights."""
        index, inside = self.find(row)
        got = -inside
        while index < len(self.entries) and got < rows:
            self.lay(index)
            got += self.heights[index]
            index += 1

    def lay_end(self, rows: int) -> None:
        """Lay out what shows in the last `rows` rows."""
        index, got = len(self.entries) - 1, 0
        while index >= 0 and got < rows:
            self.lay(index)
            got += self.heights[index]
            index -= 1

    # ---- rows and places -------------------------------------------------------------------------

    def find(self, row: int) -> tuple[int, int]:
        """The entry that holds `row` and the row inside it, the blank row above counted."""
        return self.heights.find(max(0, row))

    def top(self, index: int) -> int:
        """The first row of the entry at `index`, without the blank row above it."""
        return self.heights.before(index) + self._gaps[index]

    def settle(self, row: int, *, upwards: bool) -> int:
        """Lay out the entry that holds `row`; the row that shows what was meant.

        Going up into an entry of guessed height, the distance from its end is kept, else from its top.
        """
        index, inside = self.find(row)
        if index >= len(self.entries):
            return row
        guessed = self.heights[index]
        if not self.lay(index):
            return row
        height = self.heights[index]
        if upwards and guessed != height:
            inside = max(0, height - (guessed - inside))
        return self.heights.before(index) + min(inside, max(0, height - 1))

    def anchor(self, row: int) -> Anchor | None:
        """What stands at `row`; None on an empty page. Lays out the entry there."""
        index, _ = self.find(row)
        if index >= len(self.entries):
            index = len(self.entries) - 1
            if index < 0:
                return None
        self.lay(index)
        entry = self.entries[index]
        inside = min(row - self.top(index), entry.height - 1)
        return Anchor(entry, RowPlace(-1) if inside < 0 else entry.place(inside))

    def row_of(self, anchor: Anchor) -> int | None:
        """Where `anchor` stands now; None when its entry is gone. Lays out that entry."""
        index = self._index.get(anchor.entry)
        if index is None:
            return None
        self.lay(index)
        if anchor.place.section < 0 or not anchor.entry.height:
            return self.heights.before(index)
        return self.top(index) + anchor.entry.row_of(anchor.place)
