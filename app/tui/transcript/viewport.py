"""Which rows of a page are in view, and why they stay there.

Either the end is followed, or one row of text is held at the top: streaming, folds, late heights and
other widths move neither. Only the person does.
"""

from __future__ import annotations

from app.tui.transcript.entry import Entry, RowPlace
from app.tui.transcript.page import Anchor, Page

NEAR_ROWS = 2
"""Going down to so few rows above the end means the end: what a turn of the wheel leaves is no place."""


class Viewport:
    """The window on one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.rows = 0
        """Rows of the screen."""
        self.y: int = 0
        """The page's row at the top of the screen."""
        self.follow = True
        """Whether the end is followed."""
        self.anchor: Anchor | None = None
        """What stands at the top; None while the end is followed."""
        self._seen: tuple[Entry, RowPlace | None] | None = None
        """The last row that the person has seen; without a place the last one of its entry."""

    @property
    def unseen(self) -> int:
        """Rows that came below since the person left the end."""
        if self.follow or self._seen is None or self._seen[0] not in self.page:
            return 0
        page, (entry, place) = self.page, self._seen
        index = page.index(entry)
        if place is not None:
            page.lay(index)
        inside = entry.row_of(place) + 1 if place is not None else page.heights[index] - page.gap(index)
        below = page.total - page.top(index) - inside
        return max(0, min(below, page.total - self.y - self.rows))

    @property
    def height(self) -> int:
        """Rows to scroll over. Blank ones below the end show only while the person stands there."""
        total = self.page.total
        return total if self.follow else max(total, self.y + self.rows)

    @property
    def end(self) -> int:
        """The top row that shows the page's last row at the bottom."""
        return max(0, self.page.total - self.rows)

    @property
    def shows_end(self) -> bool:
        """True while the last row is in view."""
        return self.y + self.rows >= self.page.total

    @property
    def is_near_end(self) -> bool:
        """True while the last row is in view, or nearly."""
        return self.y + NEAR_ROWS >= self.end

    def move_to(self, y: int) -> None:
        """The person moved: show row `y` at the top; at the end, or going down to it, follow it."""
        page, is_down = self.page, y > self.y
        y = page.settle(max(0, y), upwards=y < self.y)
        page.lay_down(y, self.rows)
        if y + (NEAR_ROWS if is_down else 0) >= self.end:
            self.to_end()
            return
        if self.follow:
            self._mark_end()
        self.follow = False
        below = page.total - y - self.rows
        if below < self.unseen:
            self._mark(page.total - 1 - below)
        self.y = y
        self.anchor = page.anchor(y)

    def stand(self, anchor: Anchor | None) -> None:
        """Show this place of a page that came new, and call all of the page seen; None follows the end."""
        self.follow, self.anchor = anchor is None, anchor
        if anchor is not None:
            self._mark_end()

    def to_end(self) -> None:
        """Follow the end from now on."""
        self.follow, self.anchor = True, None
        self.place()

    def _mark_end(self) -> None:
        """Everything there is counts as seen."""
        self._mark(self.page.total - 1)

    def _mark(self, row: int) -> None:
        last = self.page.anchor(max(0, row))
        if last is None:
            self._seen = None
            return
        entry = last.entry
        ends = row == self.page.top(self.page.index(entry)) + entry.height - 1
        # what grows later in an entry that is finished, as a picture that is drawn, is nothing new
        self._seen = entry, None if ends and not entry.live else last.place

    def place(self) -> None:
        """After anything changed: lay out what is in view, and find `y` anew."""
        page = self.page
        y = None if self.follow or self.anchor is None else page.row_of(self.anchor)
        if y is None:
            self.follow, self.anchor = True, None
            page.lay_end(self.rows)
            y = self.end
        else:
            page.lay_down(y, self.rows)
        self.y = y

    def hold(self) -> None:
        """Stay at the row that is at the top now, even at the end."""
        if self.follow:
            self.anchor = self.page.anchor(self.y)
            self.follow = self.anchor is None
            self._mark_end()

    def toggle(self, entry: Entry) -> None:
        """Fold or open an entry. Its first row stays in place, or comes to the top from above the screen."""
        index = self.page.index(entry)
        top = self.page.top(index)
        followed = self.follow
        if top < self.y and self.anchor is not None and self.anchor.entry is entry:
            self.anchor = Anchor(entry, RowPlace(0))
        elif followed and top >= self.y:
            self.hold()
        entry.toggle()
        self.page.lay(index)
        self.place()
        if self.y == self.end or (followed and self.shows_end):
            self.to_end()

    def reads(self, entry: Entry) -> bool:
        """True if rows of `entry` are in view and the end is not followed."""
        if self.follow or entry not in self.page:
            return False
        top = self.page.top(self.page.index(entry))
        return top < self.y + self.rows and top + entry.height > self.y

    def leave(self, entry: Entry) -> None:
        """`entry` goes away: hold a neighbour where it was held."""
        page = self.page
        index = page.index(entry)
        if self._seen is not None and self._seen[0] is entry:
            self._seen = (page.entries[index - 1], None) if index else None
        if self.anchor is None or self.anchor.entry is not entry:
            return
        near = index + 1 if index + 1 < len(page.entries) else index - 1
        self.anchor = Anchor(page.entries[near], RowPlace(-1)) if near >= 0 else None
