"""A transcript in an application of its own, and what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import TextArea

from app.terminal.glyphs import UNICODE, Glyphs
from app.terminal.theming import Palette
from app.tui.transcript.entry import Entry
from app.tui.transcript.view import Transcript


class Reader(App[None]):
    """A transcript above a field to write in."""

    CSS = "TextArea { height: 3; border: none; } Transcript { height: 1fr; }"

    def __init__(
        self, entries: Sequence[Entry] = (), *, palette: Palette | None = None, glyphs: Glyphs = UNICODE
    ) -> None:
        super().__init__()
        self.transcript = Transcript(entries, palette=palette, glyphs=glyphs, motion=False)
        self.told: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield TextArea()

    @on(Transcript.NewBelow)
    @on(Transcript.LinkChosen)
    @on(Transcript.CursorMoved)
    def _keep(self, message: object) -> None:
        self.told.append(message)


@asynccontextmanager
async def reading(
    entries: Sequence[Entry] = (),
    size: tuple[int, int] = (80, 24),
    *,
    palette: Palette | None = None,
    glyphs: Glyphs = UNICODE,
) -> AsyncGenerator[tuple[Transcript, Pilot[None]]]:
    app = Reader(entries, palette=palette, glyphs=glyphs)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app.transcript, pilot


def strips(transcript: Transcript) -> list[Strip]:
    """The strips of the rows in view."""
    return transcript.render_lines(transcript.size.region)


def shown(transcript: Transcript) -> list[str]:
    """The text of the rows in view, blanks at the right cut."""
    return [strip.text.rstrip() for strip in strips(transcript)]


def all_strips(transcript: Transcript) -> list[Strip]:
    """Every row of the page, laid out now."""
    page = transcript.page
    for index in range(len(page.entries)):
        page.lay(index)
    painter, span = transcript._paints(), transcript.selection_span
    return [transcript._strip_at(painter, y, span) for y in range(page.total)]


def looks(strip: Strip) -> list[tuple[str, object]]:
    """Each character with its style: strips that look equal are equal, however they are cut."""
    return [(character, segment.style) for segment in strip for character in segment.text]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until `condition` holds; the test's own time limit ends a vain wait."""
    while not condition():
        await asyncio.sleep(0.001)


async def settled(transcript: Transcript, pilot: Pilot[None]) -> None:
    """Wait until nothing more changes by itself."""
    await until(lambda: transcript.settled)
    await pilot.pause()
