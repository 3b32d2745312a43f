"""The transcript: one widget, whatever its length. One file, because Textual wants its handlers here.

The shell drives it: it adds entries (`entries`, `tool_entry`, `diff`), appends text as it streams and
marks entries finished; everything about rows, scrolling, folding, selecting and finding is here. All
calls belong to the thread of the screen. Put no border or padding on it: the blank row above the seam
belongs to the container.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual import events
from textual.geometry import Offset
from textual.message import Message

from app.markdown.links import web_address
from app.markdown.rows import CodeBlock
from app.terminal.glyphs import UNICODE, Glyphs
from app.terminal.theming import Palette
from app.tui.transcript.entry import Entry, RowPlace
from app.tui.transcript.frames import Frames
from app.tui.transcript.page import Anchor
from app.tui.transcript.painter import HREF
from app.tui.transcript.search import Hit, Search

_MANY_ENTRIES = 500
_LONG_TEXT = 20_000


class Position(NamedTuple):
    """Where a person stood in a chat; survives showing another one."""

    anchor: Anchor | None
    """None at the end of the chat."""


class Transcript(Frames, can_focus=True):
    """The conversation on the screen."""

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
        id: str | None = None,
    ) -> None:
        """`hyperlinks` where the terminal knows OSC 8; without `motion` the ember stands still.

        The default palette is hearth's.
        """
        super().__init__(palette=palette, glyphs=glyphs, hyperlinks=hyperlinks, motion=motion, id=id)
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
        index = self.page.index(before)
        self._drop_selection(index)
        self.page.insert(index, entry)
        self._restore()
        self.changed(entry)

    def discard(self, entry: Entry) -> None:
        """Take an entry off the page; nothing happens where it is not there."""
        if entry not in self.page:
            return
        self._drop_selection(self.page.index(entry))
        self._viewport.leave(entry)
        self.flush()
        self.page.remove(entry)
        if self._cursor is entry:
            self.cursor_clear()
        self._restore()

    def replace_all(self, entries: Iterable[Entry], at: Position | None = None) -> None:
        """Show another chat, or this one made anew, at its end or where `position` once said.

        Only what shows is laid out. Entries keep their rows, so showing a chat again is cheap; text that
        came meanwhile is in.
        """
        self._take_pending()
        self._drop_selection(0)
        self._cursor = None
        self._search = Search("", ())
        self._strips.clear()
        self._settling.clear()
        self.page.replace(entries)
        self._viewport.stand(None if at is None or at.anchor is None else self._same_place(at.anchor))
        self._restore()
        self._tick()
        if len(self.entries) > _MANY_ENTRIES:
            _keep_from_collections()

    @property
    def position(self) -> Position:
        """Where the person stands, for `replace_all` later."""
        return Position(self._viewport.anchor)

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
            _keep_from_collections()

    def entry_of(self, id: str) -> Entry | None:
        """The entry of a session's item."""
        return next((entry for entry in self.entries if id and entry.id == id), None)

    def _same_place(self, anchor: Anchor) -> Anchor | None:
        """`anchor` on this page: at its entry, else at the one that was made anew for the same item."""
        if anchor.entry in self.page:
            return anchor
        id, kind = anchor.entry.id, anchor.entry.kind
        same = next((entry for entry in self.entries if id and entry.id == id and entry.kind == kind), None)
        return None if same is None else Anchor(same, anchor.place)

    # ---- folds -----------------------------------------------------------------------------------

    def toggle(self, entry: Entry) -> None:
        """Fold or open. Its first row stays in place, or comes to the top where that is above the screen."""
        self.flush()
        self._viewport.toggle(entry)
        self._restore()

    def fold_all_thoughts(self) -> bool:
        """Fold every thought if one is open, else open all. Whether they are folded now."""
        thoughts = [entry for entry in self.entries if entry.kind == "thought"]
        folded = any([not thought.folded for thought in thoughts])
        for thought in thoughts:
            if thought.folded != folded:
                thought.toggle()
        self.page.resize(self.page.sheet)
        self._restore()
        return folded

    def fold_thought(self, entry: Entry) -> bool:
        """Fold a thought whose answer begins, unless the person is reading in it. Whether it is folded."""
        if not entry.folded and not self._viewport.reads(entry):
            entry.toggle()
            self.changed(entry)
        return entry.folded

    # ---- where the person stands -------------------------------------------------------------------

    @property
    def at_tail(self) -> bool:
        """True while the view follows the end."""
        return self._viewport.follow

    @property
    def new_below(self) -> int:
        """Rows that came below since the person left the end."""
        return self._viewport.unseen

    def to_end(self) -> None:
        """Go to the end and follow it from now on."""
        self._viewport.to_end()
        self._restore()

    def jump_to(self, entry: Entry, section: int = 0, offset: int = 0) -> None:
        """Show an entry, or a place in one of its texts, a third below the top; folded text opens."""
        index = self.page.index(entry)
        entry.reveal(section)
        self.page.lay(index)
        row = self.page.top(index) + (entry.row_of(RowPlace(section, offset)) if section or offset else 0)
        self._go(max(0, row - self.size.height // 3))

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
        """Going down where the last row shows already, or nearly, means to follow it."""
        if not self.at_tail and self._viewport.is_near_end:
            self.to_end()
        return self.at_tail

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
        """The text of an entry as it was written, with what was pasted into it."""
        return entry.in_full(entry.source)

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

    def _drop_selection(self, index: int) -> None:
        """Give up a selection that reaches the entry at `index`: those from there on move."""
        span = self.selection_span if self.is_attached else None
        if span is not None and span[1].entry >= index:
            self.screen.clear_selection()

    # ---- finding -----------------------------------------------------------------------------------

    def find(self, query: str, *, near: Entry | None = None, words: bool = False) -> int:
        """Mark what holds `query`, letters of either case, and go to the nearest hit; how many there are.

        With `words` what holds any word of it.
        """
        self.flush()
        self._search = Search(query, self.entries, words=words)
        self.refresh()
        hits = self._search.hits
        if not hits:
            return 0
        limit = self._last_in_view() if near is None else self.page.index(near)
        above = [at for at, hit in enumerate(hits) if self.page.index(hit.entry) <= limit]
        self._search.at = above[-1] if above else 0
        if near is not None:
            best = self._search.best_in(near)
            if best is None:
                self.jump_to(near)
                return len(hits)
            self._search.at = best
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


def _keep_from_collections() -> None:
    """Leave what there is out of garbage collections: among so many objects one takes 30 to 60 ms."""
    gc.collect(1)
    gc.freeze()
