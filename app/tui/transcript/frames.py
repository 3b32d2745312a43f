"""The part of the transcript that moves: frames of streamed text, the view's place, what is improved later.

Text is gathered and laid out once a frame, and only rows that changed and show are painted.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from textual import events
from textual.message import Message
from textual.reactive import Reactive
from textual.selection import Selection
from textual.widget import Widget

from app.terminal.glyphs import UNICODE, Glyphs
from app.terminal.theming import Palette
from app.tui.grid import grid_of
from app.tui.transcript.canvas import SCROLLBAR_CELLS, Canvas
from app.tui.transcript.entry import Entry
from app.tui.transcript.page import Change
from app.tui.transcript.viewport import Viewport

if TYPE_CHECKING:
    from app.tui.transcript.gallery import Gallery
    from app.tui.transcript.picture_entry import PictureRow

FRAME_S = 1 / 30
"""Appended text is laid out and painted at most this often, in seconds."""
EMBER_S = 0.5
SETTLE_S = 0.002
"""Time that one step of exact highlighting takes."""
_SCROLL_Y = Widget.scroll_y
_SCROLL_TARGET_Y = cast("Reactive[float]", Widget.scroll_target_y)


class Frames(Canvas):
    """A canvas whose page grows and moves."""

    class NewBelow(Message, namespace="transcript"):
        """Text came below what is in view. `rows` is 0 once the person is back at the end."""

        def __init__(self, transcript: Frames, rows: int) -> None:
            super().__init__()
            self.transcript = transcript
            self.rows = rows

        @property
        def control(self) -> Frames:
            return self.transcript

    def __init__(
        self,
        *,
        palette: Palette | None = None,
        glyphs: Glyphs = UNICODE,
        hyperlinks: bool = True,
        motion: bool = True,
        id: str | None = None,
    ) -> None:
        super().__init__(palette=palette, glyphs=glyphs, hyperlinks=hyperlinks, id=id)
        self._motion = motion
        self._viewport = Viewport(self.page)
        self._held = False
        self._told_unseen = 0
        self._pending: dict[Entry, list[str]] = {}
        self._flush_due = False
        self._settling: dict[Entry, None] = {}
        self._settle_due = False
        self._ticking = False
        self.gallery: Gallery | None = None
        """What draws pictures; without it they have only their names."""

    # ---- the view's place ------------------------------------------------------------------------

    def _go(self, y: int) -> None:
        """Show page row `y` at the top, as if the person had scrolled there."""
        self._viewport.move_to(y)
        self._restore()

    def _restore(self) -> None:
        """Show again what the person looks at after anything changed, laying out what comes into view."""
        if self._laid_out:
            self._viewport.place()
            self._publish()
            self._settle_shown()
            self._draw_near()
            self._repaint_all()

    def _publish(self) -> None:
        """Tell Textual height and place, and the shell what came below."""
        viewport = self._viewport
        self._set_height(viewport.height)
        if round(self.scroll_y) != viewport.y:
            self.set_reactive(_SCROLL_Y, float(viewport.y))
            self.set_reactive(_SCROLL_TARGET_Y, float(viewport.y))
        self._bar()
        if viewport.unseen != self._told_unseen:
            self._told_unseen = viewport.unseen
            self.post_message(self.NewBelow(self, viewport.unseen))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if round(old_value) == round(new_value):
            return
        if self._laid_out and self.size.height != self._viewport.rows:
            return  # Textual fits the place to another height; it is found anew with the resize
        self._held = False
        if self._laid_out:
            self._viewport.move_to(round(new_value))
            self._publish()
            self._settle_shown()
            self._draw_near()
        self._repaint_all()

    def selection_updated(self, selection: Selection | None) -> None:
        """What is being selected does not run away; the end is followed again when nothing is selected."""
        super().selection_updated(selection)
        if selection is not None and self._viewport.follow:
            self._viewport.hold()
            self._held = True
        elif selection is None and self._held:
            self._held = False
            self._viewport.to_end()
            self._restore()

    def on_enter(self, event: events.Enter) -> None:
        if event.node is self.vertical_scrollbar:
            self._bar(exactly=True)

    # ---- frames ----------------------------------------------------------------------------------

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
        self._viewport.rows = self.size.height
        self._restore()
        self._tick()

    @property
    def settled(self) -> bool:
        """True when nothing waits for a frame, no code in view for its exact colours, no picture."""
        drawn = self.gallery is None or self.gallery.settled
        return drawn and not self._pending and not self._settling

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
        page, viewport = self.page, self._viewport
        here = viewport.y
        for entry in changed:
            if entry in page:
                page.lay(page.index(entry))
        viewport.place()
        self._publish()
        self._repaint(page.take_changes(), moved=viewport.y - here)
        for entry in changed:
            self._settle_later(entry)
        if any([entry.kind == "picture" for entry in changed]):
            self._draw_near()
        self._tick()

    def _repaint_all(self) -> None:
        self.page.take_changes()
        self._refresh_rows(0, self.size.height)

    def _repaint(self, changes: Sequence[Change], moved: int) -> None:
        if moved and self._viewport.follow:
            self._refresh_rows(0, self.size.height)
            return
        y, rows = self.scroll_offset.y, self.size.height
        # rows above the screen changed and everything moved along: the same text is in view
        top, bottom = rows, 0
        for change in changes:
            if change.bottom + moved <= y and not self._viewport.follow:
                continue
            top = min(top, max(0, change.top - y))
            bottom = rows if change.moved else max(bottom, min(rows, change.bottom - y))
        if top < bottom:
            self._refresh_rows(top, bottom)

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
        for entry in list(self._settling):
            del self._settling[entry]
            if entry not in self.page or entry.sheet is None:
                continue
            more = entry.settle(SETTLE_S)
            self.page.lay(self.page.index(entry))
            if more:
                self._settle_later(entry)
                break
        here = self._viewport.y
        self._viewport.place()
        self._publish()
        self._repaint(self.page.take_changes(), self._viewport.y - here)
        if self._settling and not self._settle_due:
            self._settle_due = True
            self.set_timer(FRAME_S, self._settle)

    # ---- pictures --------------------------------------------------------------------------------

    def set_look(
        self, palette: Palette | None = None, glyphs: Glyphs | None = None, *, hyperlinks: bool | None = None
    ) -> None:
        super().set_look(palette, glyphs, hyperlinks=hyperlinks)
        self._draw_near()

    def on_mount(self) -> None:
        cast("Any", self.app).app_resume_signal.subscribe(self, self._send_anew)

    async def on_unmount(self) -> None:
        if self.gallery is not None:
            await self.gallery.close()

    def _send_anew(self, _: object) -> None:
        if self.gallery is not None:
            self.gallery.draw_anew()
            self._draw_near()

    def _draw_near(self) -> None:
        """Have the pictures drawn that are in view, and then those a screen above and below."""
        if self.gallery is None or not self._laid_out:
            return
        page, y, rows = self.page, self.scroll_offset.y, self.size.height
        index, _ = page.find(max(0, y - rows))
        row = page.heights.before(min(index, len(page.entries)))
        near: list[tuple[bool, PictureRow]] = []
        while index < len(page.entries) and row < y + 2 * rows:
            entry, height = page.entries[index], page.heights[index]
            if entry.kind == "picture":
                near.append((row + height <= y or row >= y + rows, cast("PictureRow", entry)))
            row += height
            index += 1
        near.sort(key=itemgetter(0))
        self.gallery.want([entry for _, entry in near], self._palette, page.sheet.measure)

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
                self._refresh_rows(row - y, row - y + 1)
        self._tick()

    def _live_rows(self) -> list[int]:
        """Rows of names that are alive, looked for among the last entries."""
        first = max(0, len(self.page.entries) - 200)
        return [
            self.page.top(index)
            for index in range(first, len(self.page.entries))
            if self.page.entries[index].live and self.page.entries[index].kind == "name"
        ]
