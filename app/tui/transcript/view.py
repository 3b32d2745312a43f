"""The transcript: one widget for a whole conversation, whatever its length.

The shell drives it: it adds entries (`entries`, `tool_entry`, `diff`), appends text as it streams and
marks entries finished; everything about rows, scrolling, folding, selecting and finding is here. All
calls belong to the thread of the screen. Put no border or padding on it: the blank row above the seam
belongs to the container.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from textual import events
from textual.geometry import Offset, Region
from textual.message import Message
from textual.reactive import Reactive
from textual.widget import Widget

from app.glyphs import UNICODE, Glyphs
from app.theming import Palette
from app.tui.grid import grid_of
from app.tui.transcript.canvas import SCROLLBAR_CELLS, Canvas
from app.tui.transcript.entry import Entry, Place
from app.tui.transcript.links import web_address
from app.tui.transcript.page import Anchor, Change
from app.tui.transcript.painter import HREF
from app.tui.transcript.rows import CodeBlock
from app.tui.transcript.search import Hit, Search

FRAME_S = 1 / 30
"""Appended text is laid out and painted at most this often, in seconds."""
EMBER_S = 0.5
SETTLE_S = 0.002
"""Time that one step of exact highlighting takes."""
_SCROLL_Y = Widget.scroll_y
_SCROLL_TARGET_Y = cast("Reactive[float]", Widget.scroll_target_y)
_MANY_ENTRIES = 500
_LONG_TEXT = 20_000


class Position(NamedTuple):
    """Where a person stood in a chat; survives showing another one."""

    anchor: Anchor | None
    """None at the end of the chat."""


class Transcript(Canvas, can_focus=True):
    """The conversation on the screen."""

    class NewBelow(Message):
        """Text came below what is in view. `rows` is 0 once the person is back at the end."""

        def __init__(self, transcript: Transcript, rows: int) -> None:
            super().__init__()
            self.transcript = transcript
            self.rows = rows

        @property
        def control(self) -> Transcript:
            return self.transcript

    class LinkChosen(Message):
        """A link was clicked. `url` is a web address in printable ASCII, None for any other target."""

        def __init__(self, transcript: Transcript, target: str, url: str | None, meant: bool) -> None:
            super().__init__()
            self.transcript = transcript
            self.target = target
            """As the model wrote it; untrusted."""
            self.url = url
            self.meant = meant
            """True for ctrl+click: open it. Else only show where it leads."""

        @property
        def control(self) -> Transcript:
            return self.transcript

    class CursorMoved(Message):
        """The block cursor stands at `entry`, or nowhere (None)."""

        def __init__(self, transcript: Transcript, entry: Entry | None) -> None:
            super().__init__()
            self.transcript = transcript
            self.entry = entry

        @property
        def control(self) -> Transcript:
            return self.transcript

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        palette: Palette | None = None,
        glyphs: Glyphs = UNICODE,
        hyperlinks: bool = True,
        motion: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`hyperlinks` where the terminal knows OSC 8; without `motion` the ember stands still.

        The default palette is hearth's.
        """
        super().__init__(
            palette=palette, glyphs=glyphs, hyperlinks=hyperlinks, name=name, id=id, classes=classes
        )
        self._motion = motion
        self._follow = True
        self._anchor: Anchor | None = None
        self._moving = False
        self._pending: dict[Entry, list[str]] = {}
        self._flush_due = False
        self._settling: dict[Entry, None] = {}
        self._settle_due = False
        self._ticking = False
        self._unseen = 0
        self.page.replace(entries)

    # ---- content ---------------------------------------------------------------------------------

    @property
    def entries(self) -> Sequence[Entry]:
        """What is on the page, first to last. To read."""
        return self.page.entries

    def add(self, entry: Entry) -> None:
        """Show one more entry at the end."""
        self.page.append(entry)
        self.changed(entry)

    def insert(self, entry: Entry, before: Entry) -> None:
        """Show one more entry above `before`. A selection below is given up."""
        self._drop_selection()
        self.page.insert(self.page.index(before), entry)
        self._restore()
        self.changed(entry)

    def discard(self, entry: Entry) -> None:
        """Take an entry off the page; nothing happens where it is not there."""
        if entry not in self.page:
            return
        self._drop_selection()
        if self._anchor is not None and self._anchor.entry is entry:
            self._anchor = self._neighbour(entry)
        self.page.remove(entry)
        self._pending.pop(entry, None)
        if self._cursor is entry:
            self.cursor_clear()
        self._restore()

    def replace_all(self, entries: Iterable[Entry], at: Position | None = None) -> None:
        """Show another chat, at its end or where `position` once said. Only what shows is laid out.

        Entries keep their rows, so showing a chat again is cheap; text that came meanwhile is in.
        """
        self._take_pending()
        self._drop_selection()
        self._cursor = None
        self._search = Search("", ())
        self._strips.clear()
        self._settling.clear()
        self.page.replace(entries)
        self._anchor = None if at is None else at.anchor
        self._follow = self._anchor is None or self._anchor.entry not in self.page
        self._say_unseen(0)
        self._restore()
        self._tick()
        if len(self.entries) > _MANY_ENTRIES:
            gc.freeze()  # a full collection among so many objects is a hitch of 30 to 60 ms

    @property
    def position(self) -> Position:
        """Where the person stands, for `replace_all` later."""
        return Position(None if self._follow else self._anchor)

    def append_text(self, entry: Entry, delta: str) -> None:
        """More of the text that streams into `entry`, also one of another chat; shown within a frame."""
        if entry not in self.page:
            entry.grow(delta)
            return
        self._pending.setdefault(entry, []).append(delta)
        self._flush_soon()

    def changed(self, entry: Entry) -> None:
        """Attributes of `entry` changed; shown within a frame."""
        entry.touch()
        if entry in self.page:
            self._pending.setdefault(entry, [])
            self._flush_soon()

    def finish(self, entry: Entry) -> None:
        """Nothing more streams into `entry`: it becomes what a rendering of the whole text is."""
        self.flush()
        entry.finish()
        if entry not in self.page:
            return
        self._pending[entry] = []
        self.flush()
        self._settle_later(entry)
        body = entry.body
        if body is not None and len(body.source) > _LONG_TEXT:
            gc.freeze()

    def entry_of(self, id: str) -> Entry | None:
        """The entry of a session's item."""
        return next((entry for entry in self.entries if id and entry.id == id), None)

    # ---- folds -----------------------------------------------------------------------------------

    def toggle(self, entry: Entry) -> None:
        """Fold or open. Its first row stays in place, or comes to the top where that is above the screen."""
        index = self.page.index(entry)
        top = self.page.top(index)
        here = self.scroll_offset.y
        entry.toggle()
        if not self._follow and self._anchor is not None and self._anchor.entry is entry and top < here:
            self._anchor = Anchor(entry, Place(0))
        self._fix_anchor(top if top >= here else None)
        self.changed(entry)
        self.flush()

    def fold_all_thoughts(self, folded: bool | None = None) -> bool:
        """Fold or open every thought; None folds if one is open. Whether they are folded now."""
        thoughts = [entry for entry in self.entries if entry.kind == "thought"]
        if folded is None:
            folded = any([not thought.folded for thought in thoughts])
        for thought in thoughts:
            if thought.folded != folded:
                thought.toggle()
        self.page.resize(self.page.sheet)
        self._restore()
        return folded

    def fold_thought(self, entry: Entry) -> bool:
        """Fold a thought whose answer begins, unless the person is reading in it. Whether it is folded."""
        if not entry.folded and not (self._reads(entry) and entry in self.page):
            entry.toggle()
            self.changed(entry)
        return entry.folded

    def _reads(self, entry: Entry) -> bool:
        if self._follow or entry not in self.page:
            return False
        index, here = self.page.index(entry), self.scroll_offset.y
        top = self.page.top(index)
        return top < here + self.size.height and top + entry.height > here

    # ---- where the person stands -------------------------------------------------------------------

    @property
    def at_tail(self) -> bool:
        """True while the view follows the end."""
        return self._follow

    @property
    def new_below(self) -> int:
        """Rows that came below since the person left the end."""
        return self._unseen

    def to_end(self) -> None:
        """Go to the end and follow it from now on."""
        self._follow = True
        self._anchor = None
        self._restore()

    def jump_to(self, entry: Entry, section: int = 0, offset: int = 0) -> None:
        """Show an entry, or a place in one of its texts, a third below the top; folded text opens."""
        index = self.page.index(entry)
        entry.reveal(section)
        self.page.lay(index)
        row = self.page.top(index) + (entry.row_of(Place(section, offset)) if section or offset else 0)
        self._go(max(0, row - self.size.height // 3))

    def _go(self, y: int) -> None:
        """Show page row `y` at the top, as if the person had scrolled there."""
        self._moved_to(y, upwards=y < self.scroll_offset.y)
        self.refresh()

    def _moved_to(self, y: int, *, upwards: bool) -> None:
        page, rows = self.page, self.size.height
        y = page.settle(y, upwards=upwards)
        page.lay_down(y, rows)
        end = max(0, page.total - rows)
        self._follow = y >= end
        self._anchor = None if self._follow else page.anchor(y)
        if self._follow:
            page.lay_end(rows)
            y = max(0, page.total - rows)
        self._publish(y)
        below = page.total - y - rows
        if self._unseen > below or self._follow:
            self._say_unseen(0 if self._follow else max(0, below))
        self._settle_shown()

    def _say_unseen(self, rows: int) -> None:
        if rows != self._unseen:
            self._unseen = rows
            self.post_message(self.NewBelow(self, rows))

    def _fix_anchor(self, row: int | None) -> None:
        """While the end is followed a fold in view must not move: stand where the person looks."""
        if self._follow and row is not None and self.page.total > self.size.height:
            self._anchor = self.page.anchor(self.scroll_offset.y)
            self._follow = self._anchor is None

    def _neighbour(self, entry: Entry) -> Anchor | None:
        index = self.page.index(entry)
        for near in (index + 1, index - 1):
            if 0 <= near < len(self.entries):
                return Anchor(self.entries[near], Place(-1))
        return None

    def _restore(self) -> None:
        """Show again what the person looks at after anything changed, laying out what comes into view."""
        if not self._laid_out:
            return
        self._publish(self._place())
        self._settle_shown()
        self.refresh()

    def _place(self) -> int:
        """Lay out what shows; the page row at the top of the screen."""
        page, rows = self.page, self.size.height
        y = None if self._follow or self._anchor is None else page.row_of(self._anchor)
        if y is None:
            self._follow, self._anchor = True, None
            page.lay_end(rows)
            return max(0, page.total - rows)
        page.lay_down(y, rows)
        return y

    def _publish(self, y: int) -> None:
        """Tell Textual height and place. Rows below the end show only while the person stands there."""
        total = self.page.total
        self._set_height(total if self._follow else max(total, y + self.size.height))
        if round(self.scroll_y) != y:
            self.set_reactive(_SCROLL_Y, float(y))
            self.set_reactive(_SCROLL_TARGET_Y, float(y))
        self._bar()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if round(old_value) != round(new_value):
            if self._laid_out:
                self._moved_to(round(new_value), upwards=new_value < old_value)
            self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._end_if_seen()

    def action_scroll_end(self) -> None:
        self.to_end()

    def action_scroll_down(self) -> None:
        if not self._end_if_seen():
            super().action_scroll_down()

    def action_page_down(self) -> None:
        if not self._end_if_seen():
            super().action_page_down()

    def _end_if_seen(self) -> bool:
        """Going down where the last row shows already means to follow it."""
        if not self._follow and self.scroll_offset.y + self.size.height >= self.page.total:
            self.to_end()
        return self._follow

    def on_enter(self, event: events.Enter) -> None:
        if event.node is self.vertical_scrollbar:
            self._bar(exactly=True)

    # ---- the block cursor ------------------------------------------------------------------------

    @property
    def current(self) -> Entry | None:
        """The entry at the block cursor."""
        return self._cursor

    def cursor_up(self) -> Entry | None:
        """Move the block cursor up; from nowhere to the last entry. It stays at the first."""
        index = len(self.entries) if self._cursor is None else self.page.index(self._cursor)
        for entry in reversed(self.entries[:index]):
            if entry.stop and not entry.hidden:
                return self.cursor_to(entry)
        return self._cursor

    def cursor_down(self) -> Entry | None:
        """Move the block cursor down; past the last entry it goes away, and None comes back."""
        if self._cursor is None:
            return None
        for entry in self.entries[self.page.index(self._cursor) + 1 :]:
            if entry.stop and not entry.hidden:
                return self.cursor_to(entry)
        self.cursor_clear()
        self.to_end()
        return None

    def cursor_to(self, entry: Entry) -> Entry:
        """Put the block cursor at `entry` and show its first row."""
        self._cursor = entry
        index = self.page.index(entry)
        self.page.lay(index)
        top, y, rows = self.page.top(index), self.scroll_offset.y, self.size.height
        if not y <= top < y + rows or (top + entry.height > y + rows and entry.height < rows):
            above = self.page.heights.before(index)
            self._go(above if top < y or entry.height >= rows else max(0, top + entry.height - rows))
        self.refresh()
        self.post_message(self.CursorMoved(self, entry))
        return entry

    def cursor_clear(self) -> None:
        """The block cursor goes away."""
        if self._cursor is not None:
            self._cursor = None
            self.refresh()
            self.post_message(self.CursorMoved(self, None))

    # ---- copying, links ----------------------------------------------------------------------------

    def copy_source(self, entry: Entry) -> str:
        """The text of an entry as it was written."""
        return entry.source

    def code_blocks(self, entry: Entry) -> list[CodeBlock]:
        """The code blocks of an entry, first to last."""
        return [] if entry.body is None else entry.body.code_blocks()

    def copy_code(self, entry: Entry, index: int = -1) -> str | None:
        """One code block of an entry, by default the last one; None where it has none."""
        blocks = self.code_blocks(entry)
        return blocks[index].code if blocks else None

    def links(self, entry: Entry) -> list[str]:
        """Web addresses in an entry, first to last, each once. Folded text has none."""
        if entry in self.page:
            self.page.lay(self.page.index(entry))
        found: dict[str, None] = {}
        for section in entry.sections:
            for row in section.rows[: 0 if section.shut else None]:
                for run in row.runs:
                    if run.href and (address := web_address(run.href)):
                        found[address] = None
        return list(found)

    async def _on_click(self, event: events.Click) -> None:
        target = event.style.meta.get(HREF)
        if isinstance(target, str) and event.chain == 1:
            self.post_message(self.LinkChosen(self, target, web_address(target), event.ctrl))
        if event.chain < 2:
            return
        event.prevent_default()
        point = self.point_at(Offset(event.x, event.y))
        if point is None or not 0 <= point.entry < len(self.entries):
            return
        entry = self.entries[point.entry]
        text = entry.parts[point.section] if point.section < len(entry.parts) else ""
        start, end = 0, len(text)
        body = entry.body
        if event.chain == 2 and body is not None and body.source == text:
            start, end = body.block_at(point.offset)
        self.select(point._replace(offset=start), point._replace(offset=end))

    def _drop_selection(self) -> None:
        if self.is_attached and self.screen.selections.get(self) is not None:
            self.screen.clear_selection()

    # ---- finding -----------------------------------------------------------------------------------

    def find(self, query: str, *, near: Entry | None = None) -> int:
        """Mark what holds `query`, letters of either case, and go to the nearest hit; how many there are."""
        self._take_pending()
        self._search = Search(query, self.entries)
        self.refresh()
        hits = self._search.hits
        if not hits:
            return 0
        limit = self._last_in_view() if near is None else self.page.index(near)
        above = [at for at, hit in enumerate(hits) if self.page.index(hit.entry) <= limit]
        self._search.at = above[-1] if above else 0
        if near is not None:
            self._search.at = next((at for at, hit in enumerate(hits) if hit.entry is near), self._search.at)
        self._show_hit(self._search.current)
        return len(hits)

    def find_next(self) -> Hit | None:
        """Go to the next hit, after the last one to the first."""
        return self._show_hit(self._search.step(1))

    def find_previous(self) -> Hit | None:
        """Go to the hit before."""
        return self._show_hit(self._search.step(-1))

    def find_clear(self) -> None:
        """Mark nothing."""
        self._search = Search("", ())
        self.refresh()

    @property
    def found(self) -> tuple[int, int]:
        """(number of the hit that is shown, from 1; all hits)."""
        return self._search.at + 1, len(self._search.hits)

    def _show_hit(self, hit: Hit | None) -> Hit | None:
        if hit is not None and hit.entry in self.page:
            self.jump_to(hit.entry, hit.section, hit.start)
        return hit

    def _last_in_view(self) -> int:
        return self.page.find(self.scroll_offset.y + max(0, self.size.height - 1))[0]

    # ---- frames ------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._reflow()

    def _reflow(self) -> None:
        width = self.scrollable_content_region.width
        if not width:
            return
        self._grid = grid_of(width + SCROLLBAR_CELLS)
        self._painter = None
        sheet = self._sheet()
        self._take_pending()
        if not self._laid_out or sheet != self.page.sheet:
            self.page.resize(sheet)
        self._laid_out = True
        self._restore()
        self._tick()

    @property
    def settled(self) -> bool:
        """True when nothing waits for a frame and no code in view waits for its exact colours."""
        return not self._pending and not self._settling

    def _flush_soon(self) -> None:
        if not self._flush_due and self.is_attached:
            self._flush_due = True
            self.set_timer(FRAME_S, self.flush)

    def _take_pending(self) -> list[Entry]:
        """Give the entries the text that waits; those that changed."""
        pending, self._pending = self._pending, {}
        for entry, pieces in pending.items():
            if pieces:
                entry.grow("".join(pieces))
        return list(pending)

    def flush(self) -> None:
        """Show what changed since the last frame now. It comes by itself 30 times a second."""
        self._flush_due = False
        changed = self._take_pending()
        if not self._laid_out or not changed:
            return
        page, rows, here = self.page, self.size.height, self.scroll_offset.y
        total = page.total
        changes = [change for entry in changed if entry in page and (change := page.lay(page.index(entry)))]
        y = self._place()
        self._publish(y)
        if not self._follow and page.total > total and page.total > y + rows:
            self._say_unseen(min(self._unseen + page.total - total, page.total - y - rows))
        self._repaint(changes, moved=y - here)
        for entry in changed:
            self._settle_later(entry)
        self._tick()

    def _repaint(self, changes: Sequence[Change], moved: int) -> None:
        if moved and self._follow:
            self.refresh(self.size.region)
            return
        y, rows = self.scroll_offset.y, self.size.height
        # rows above the screen changed and everything moved along: the same text is in view
        top, bottom = rows, 0
        for change in changes:
            if change.bottom + moved <= y and not self._follow:
                continue
            top = min(top, max(0, change.top - y))
            bottom = rows if change.moved else max(bottom, min(rows, change.bottom - y))
        if top < bottom:
            self.refresh(Region(0, top, self.size.width, bottom - top))

    def _settle_shown(self) -> None:
        """Have what came into view highlighted exactly, a little at a time."""
        page, y = self.page, self.scroll_offset.y
        index, _ = page.find(y)
        row = page.heights.before(min(index, len(page.entries)))
        while index < len(page.entries) and row < y + self.size.height:
            self._settle_later(page.entries[index])
            row += page.heights[index]
            index += 1

    def _settle_later(self, entry: Entry) -> None:
        if entry.body is None or entry.folded:
            return
        self._settling[entry] = None
        if not self._settle_due and self.is_attached:
            self._settle_due = True
            self.set_timer(FRAME_S, self._settle)

    def _settle(self) -> None:
        self._settle_due = False
        changes: list[Change] = []
        for entry in list(self._settling):
            del self._settling[entry]
            if entry not in self.page or entry.body is None or entry.sheet is None:
                continue
            more = entry.body.settle(SETTLE_S)
            if change := self.page.lay(self.page.index(entry)):
                changes.append(change)
            if more:
                self._settle_later(entry)
                break
        if changes:
            self._publish(self._place())
            self._repaint(changes, 0)
        if self._settling and not self._settle_due:
            self._settle_due = True
            self.set_timer(FRAME_S, self._settle)

    def _tick(self) -> None:
        """Step the ember while something is alive."""
        if self._motion and not self._ticking and self.is_attached and self._live_rows():
            self._ticking = True
            self.set_timer(EMBER_S, self._step_ember)

    def _step_ember(self) -> None:
        self._ticking = False
        rows = self._live_rows()
        if not rows:
            return
        self._ember += 1
        if self._painter is not None:
            self._painter.ember = self._ember
        y = self.scroll_offset.y
        for row in rows:
            if 0 <= row - y < self.size.height:
                self.refresh(Region(0, row - y, self.size.width, 1))
        self._tick()

    def _live_rows(self) -> list[int]:
        """Rows of names that are alive, looked for among the last entries."""
        first = max(0, len(self.entries) - 200)
        return [
            self.page.top(index)
            for index in range(first, len(self.entries))
            if self.entries[index].live and self.entries[index].kind == "name"
        ]
