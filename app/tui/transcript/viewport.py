"""Which rows of a page are in view, and why they stay there.

Either the end is followed, or one row of text is held at the top: streaming, folds, late heights and
other widths move neither. Only the person does.
"""

from __future__ import annotations

from app.tui.transcript.entry import Entry, Place
from app.tui.transcript.page import Anchor, Page


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
        self.unseen = 0
        """Rows that came below since the person left the end."""

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

    def move_to(self, y: int) -> None:
        """The person moved: show row `y` at the top; at the end follow it."""
        page = self.page
        y = page.settle(max(0, y), upwards=y < self.y)
        page.lay_down(y, self.rows)
        self.follow = y >= self.end
        if self.follow:
            self.to_end()
            return
        self.y = y
        self.anchor = page.anchor(y)
        self.unseen = max(0, min(self.unseen, page.total - y - self.rows))

    def to_end(self) -> None:
        """Follow the end from now on."""
        self.follow, self.anchor, self.unseen = True, None, 0
        self.place()

    def place(self) -> None:
        """After anything changed: lay out what is in view, and find `y` anew."""
        page = self.page
        y = None if self.follow or self.anchor is None else page.row_of(self.anchor)
        if y is None:
            self.follow, self.anchor, self.unseen = True, None, 0
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

    def grew(self, rows: int) -> None:
        """The page grew by `rows` rows at its end."""
        if not self.follow and rows > 0:
            self.unseen = max(0, min(self.unseen + rows, self.page.total - self.y - self.rows))

    def toggle(self, entry: Entry) -> None:
        """Fold or open an entry. Its first row stays in place, or comes to the top from above the screen."""
        index = self.page.index(entry)
        top = self.page.top(index)
        followed = self.follow
        if top < self.y and self.anchor is not None and self.anchor.entry is entry:
            self.anchor = Anchor(entry, Place(0))
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
        if self.anchor is None or self.anchor.entry is not entry:
            return
        page = self.page
        index = page.index(entry)
        near = index + 1 if index + 1 < len(page.entries) else index - 1
        self.anchor = Anchor(page.entries[near], Place(-1)) if near >= 0 else None
