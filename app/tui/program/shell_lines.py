"""The person's own shell lines: `!` runs one, and its output goes with the next message."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal

if TYPE_CHECKING:
    from app.tui.shell import Program


class ShellLines:
    """Runs shell lines in the folder of the program, which a line may change."""

    def __init__(self, program: Program, parts: Parts, chats: OpenChats) -> None:
        self.changed: Signal[[]] = Signal()
        """One began or ended."""
        self._program = program
        self._parts = parts
        self._chats = chats
        self._stops: list[asyncio.Event] = []
        """Each ends a line that runs."""

    @property
    def run(self) -> bool:
        return bool(self._stops)

    def stop(self) -> bool:
        """End those that run; what they printed goes with the next message. False for none."""
        for stop in self._stops:
            stop.set()
        return bool(self._stops)

    def begin(self, line: str) -> None:
        self._program.start(partial(self._begin, line), group="shell")

    async def _begin(self, line: str) -> None:
        stop = asyncio.Event()
        self._stops.append(stop)
        try:
            await self._run(line, stop)
        finally:
            self._stops.remove(stop)
            self._program.call_later(self.changed)

    async def _run(self, line: str, stop: asyncio.Event) -> None:
        from app.frontend.shell_line import run_line
        from app.tui.chat.story import STOPPED_BY_YOU, count_words
        from app.tui.transcript.tool_entry import ToolCall

        await self._chats.ready()
        shown = ToolCall("!", line, state="running")
        chat = self._chats.current
        page = chat.view.page
        chat.view.add_entry(shown)
        chat.view.unsent.append(shown)
        self.changed()
        folder = self._chats.folder
        show = partial(page.append_text, shown)
        try:
            result = await run_line(line, folder, show, private=chat.private, stop=stop)
        except OSError as err:
            shown.end("failed", err.strerror or str(err))
            page.changed(shown)
            return
        if result.folder != folder:
            self._chats.folder = result.folder
        page.flush()
        facts = count_words(result.line_count) or "no output"
        if result.is_stopped:
            shown.end("failed", STOPPED_BY_YOU, fold=False)
        elif result.limit_s is not None:
            shown.end("failed", f"ended after {result.limit_s:.0f} s, {facts}", fold=False)
        elif result.code:
            shown.end("failed", f"exit {result.code}, {facts}", fold=False)
        else:
            shown.end("done", facts, fold=False)
        page.changed(shown)
        chat.attached.append(result.block(line))
        self._parts.say("its output goes with the next message")
