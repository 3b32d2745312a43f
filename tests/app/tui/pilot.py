"""The whole full-screen face on a scripted engine, for pilots: what is typed, shown and stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from app.frontend.start import Start
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.settings.config import Settings, resolve
from app.terminal.glyphs import UNICODE, Glyphs
from app.terminal.theming import palette, read
from app.tui.app import FiresideApp
from app.tui.transcript.entry import Entry
from backend.engines.scripted import ScriptedEngine, Step

WAIT_S = 50.0


@dataclass
class Running:
    """A program that runs, with its engine and pilot."""

    app: FiresideApp
    pilot: Pilot[int]
    engine: ScriptedEngine

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for a condition; it is asked whenever the program had a turn."""
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await self.pilot.pause(0.01)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type into the draft, key by key."""
        for char in text:
            await self.pilot.press(char if char.isalnum() else _KEYS.get(char, char))

    async def send(self, text: str) -> None:
        """Write a message at once and press enter."""
        self.app.parts.draft.put(text)
        await self.pilot.press("enter")

    async def queue(self, *texts: str) -> None:
        """Send messages while a reply runs, each once the one before it waits."""
        for count, text in enumerate(texts, 1):
            await self.send(text)
            await self.until(lambda count=count: len(self.app.parts.waiting.messages) == count)

    async def ask(self, text: str) -> None:
        """Send a message and wait until its reply is there."""
        before = len(self.texts("answer"))
        await self.send(text)
        await self.until(lambda: len(self.texts("answer")) > before and not self.app.chat.busy)

    @property
    def entries(self) -> Sequence[Entry]:
        return self.app.chat.view.story.entries

    def texts(self, kind: str) -> list[str]:
        """The sources of the entries of a kind."""
        return [entry.source for entry in self.entries if entry.kind == kind]

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.entries]

    @property
    def seam(self) -> str:
        news = self.app.parts.seam.news
        if news is not None and news.error:
            return news.text  # a long one stands in several rows
        return "".join(text for text, _ in self.app.parts.seam.spans)

    def screen(self) -> list[str]:
        """The rows of the screen, without colours."""
        lines = self.app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in lines]

    async def items(self) -> list[Any]:
        """The stored items of the chat on the screen."""
        assert self.app.chat.id is not None
        return await self.app.chat.manager.list_items(self.app.chat.id, limit=1000)


_KEYS = {
    " ": "space",
    "/": "slash",
    "@": "at",
    "!": "exclamation_mark",
    ".": "full_stop",
    "?": "question_mark",
}


@asynccontextmanager
async def running(
    scripts: Sequence[Sequence[Step]] = (),
    *,
    size: tuple[int, int] = (100, 32),
    tools: Any = None,
    approve: str = "ask",
    store: Path | None = None,
    workspace: Path | None = None,
    engine: ScriptedEngine | None = None,
    theme: str = "hearth",
    glyphs: Glyphs = UNICODE,
    start: dict[str, Any] | None = None,
    wait: bool = True,
    settings: Settings | None = None,
    **fields: Any,
) -> AsyncIterator[Running]:
    """The program on `scripts`; a private store, unless a file is given."""
    engine = engine or ScriptedEngine(scripts)

    def make(_: Start) -> SessionManager:
        return SessionManager(
            engine=engine,
            store=Store(store),
            tools=tools,
            approve=approve,  # type: ignore[arg-type]
            workspace=workspace,
        )

    app = FiresideApp(
        Start(settings or resolve({}), workspace=str(workspace) if workspace else None, **(start or {})),
        palette(read(theme)),
        glyphs,
        make=make,
        motion=False,
        **fields,
    )
    async with app.run_test(size=size) as pilot:
        run = Running(app, pilot, engine)
        await run.until(lambda: app.model.name or not wait)
        yield run
    await app.startup.close_down()
