"""Draws the pictures that come into view: one at a time, on a worker thread, and only so many are kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from app.terminal.graphics import Way
from app.terminal.theming import Palette
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.pictures import Drawing, PictureError

logger = logging.getLogger("fireside")

MOST_KEPT = 24
"""Drawings whose rows are kept: those of a large picture take some 200 kB."""


@dataclass(frozen=True)
class Content:
    """A picture's file. `data` is None where it is larger than is drawn."""

    name: str
    size: str
    """In words."""
    data: bytes | None


@dataclass(frozen=True)
class Look:
    """What a drawing depends on besides its picture."""

    columns: int
    way: Way
    ground: str
    few_colors: bool


def look_of(palette: Palette, way: Way, columns: int) -> Look:
    """How pictures look with a palette in so many columns."""
    if way == "kitty" and palette.depth == "truecolor":
        # What is transparent stays so, and the terminal's own ground shines through.
        return Look(columns, "kitty", "", few_colors=False)
    ground, few_colors = palette.hex("surface"), palette.depth == "256"
    if few_colors:
        from app.terminal.colors import indexed

        ground = indexed(palette.colors["surface"].index)
    return Look(columns, "blocks" if palette.tones and way != "off" else "off", ground, few_colors)


class Gallery:
    """The pictures of one transcript.

    `read` gives a row's file and raises an error with a sentence, `changed` shows a row anew, and
    `send` writes a sequence to the terminal. All calls belong to the thread of the screen.
    """

    def __init__(
        self,
        way: Way,
        read: Callable[[PictureRow], Awaitable[Content]],
        changed: Callable[[PictureRow], None],
        send: Callable[[str], None],
    ) -> None:
        self.way: Way = way
        self._read = read
        self._changed = changed
        self._send = send
        self._wanted: list[PictureRow] = []
        self._look: Look | None = None
        self._drawn: dict[PictureRow, Look] = {}
        """What each row is drawn for, the one that was near longest ago first."""
        self._near: frozenset[PictureRow] = frozenset()
        self._work: asyncio.Task[None] | None = None

    @property
    def settled(self) -> bool:
        """True when nothing is being drawn and nothing waits for it."""
        return self._work is None or self._work.done()

    def want(self, rows: Sequence[PictureRow], palette: Palette, columns: int) -> None:
        """These rows are in view or near it, the nearest first: draw those that are not."""
        self._look = look = look_of(palette, self.way, columns)
        if look.way == "off":
            rows = ()
        self._near = frozenset(rows)
        for row in rows:
            if (drawn := self._drawn.pop(row, None)) is not None:
                self._drawn[row] = drawn
        self._wanted = [row for row in rows if self._is_to_draw(row, look)]
        if self._wanted and self.settled:
            self._work = asyncio.create_task(self._draw_wanted(), name="pictures")

    def draw_anew(self) -> None:
        """The terminal may have forgotten what it was sent."""
        for row in [row for row, look in self._drawn.items() if look.way == "kitty"]:
            self._forget(row)

    async def close(self) -> None:
        """Draw nothing any more, and leave nothing in the terminal."""
        self._wanted = []
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        self.draw_anew()

    def _is_to_draw(self, row: PictureRow, look: Look) -> bool:
        if row.problem or row.folded or not row.file_id:
            return False
        drawing, drawn = row.drawing, self._drawn.get(row)
        if drawing is None or drawn is None:
            return True
        if (drawn.way, drawn.ground, drawn.few_colors) != (look.way, look.ground, look.few_colors):
            return True
        return drawing.fit(look.columns) != drawing.cells

    async def _draw_wanted(self) -> None:
        while self._wanted and self._look is not None:
            row, look = self._wanted.pop(0), self._look
            if not self._is_to_draw(row, look):
                continue  # it was drawn when it was asked for again
            try:
                content = await self._read(row)
                row.name, row.size = content.name, content.size
                if content.data is None:
                    raise PictureError("too large to be drawn here")
                drawing = await asyncio.to_thread(_draw, content.data, look)
            except Exception as err:
                if not isinstance(err, PictureError):
                    logger.warning("a picture could not be drawn", exc_info=err)
                self._give_up(row, str(err) if isinstance(err, PictureError) else "cannot be read")
            else:
                self._show(row, drawing, look)
            self._changed(row)

    def _show(self, row: PictureRow, drawing: Drawing, look: Look) -> None:
        self._forget(row)
        if drawing.sent:
            self._send(drawing.sent)
        row.drawing = drawing
        self._drawn[row] = look
        for other in list(self._drawn)[: max(0, len(self._drawn) - MOST_KEPT)]:
            if other not in self._near and other is not row:
                self._forget(other)
                self._changed(other)

    def _give_up(self, row: PictureRow, problem: str) -> None:
        self._forget(row)
        row.problem, row.drawing = problem, None

    def _forget(self, row: PictureRow) -> None:
        """Give the rows up; the place is kept."""
        self._drawn.pop(row, None)
        if row.drawing is not None:
            if row.drawing.unsent:
                self._send(row.drawing.unsent)
            row.drawing = row.drawing.without_rows()


def _draw(data: bytes, look: Look) -> Drawing:
    if look.way == "kitty":
        from app.tui.transcript import kitty

        return kitty.draw(data, look.columns, kitty.cell_size())
    from app.tui.transcript import pictures

    return pictures.draw(data, look.ground, look.columns, few_colors=look.few_colors)
